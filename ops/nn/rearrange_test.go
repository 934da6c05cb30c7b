package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func moved(opType, name string, a attrs, x, want *tensor.Tensor) Case {
	c := Case{Type: opType, Name: name, Attrs: a, Inputs: slots{"X": One(x)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

// counted makes a tensor of 0, 1, 2, ...
func counted(extents ...int64) *tensor.Tensor {
	n, _ := tensor.Count(extents)
	values := make([]float64, n)
	for i := range values {
		values[i] = float64(i)
	}
	return Floats(extents, values...)
}

var rearrangeCases = []Case{
	moved("pixel_shuffle", "", attrs{"upscale_factor": int32(2)}, Floats(dims{1, 4, 1, 2}, 1, 2, 10, 20, 3, 4, 30, 40), Floats(dims{1, 1, 2, 4}, 1, 10, 2, 20, 3, 30, 4, 40)),
	moved("pixel_shuffle", "channels last", attrs{"upscale_factor": int32(2), "data_format": "NHWC"}, Floats(dims{1, 1, 2, 4}, 1, 10, 3, 30, 2, 20, 4, 40),
		Floats(dims{1, 2, 4, 1}, 1, 10, 2, 20, 3, 30, 4, 40)),
	moved("pixel_shuffle", "several", attrs{"upscale_factor": int32(2)}, Spread(3, 2, 8, 2, 3), nil),
	moved("pixel_unshuffle", "", attrs{"downscale_factor": int32(2)}, Floats(dims{1, 1, 2, 4}, 1, 10, 2, 20, 3, 30, 4, 40), Floats(dims{1, 4, 1, 2}, 1, 2, 10, 20, 3, 4, 30, 40)),
	moved("pixel_unshuffle", "channels last", attrs{"downscale_factor": int32(2), "data_format": "NHWC"}, Floats(dims{1, 2, 4, 1}, 1, 10, 2, 20, 3, 30, 4, 40),
		Floats(dims{1, 1, 2, 4}, 1, 10, 3, 30, 2, 20, 4, 40)),
	moved("pixel_unshuffle", "several", attrs{"downscale_factor": int32(2)}, Spread(3, 2, 2, 4, 6), nil),
	moved("shuffle_channel", "", attrs{"group": int32(2)}, Floats(dims{1, 6, 1, 1}, 1, 2, 3, 4, 5, 6), Floats(dims{1, 6, 1, 1}, 1, 4, 2, 5, 3, 6)),
	moved("shuffle_channel", "images", attrs{"group": int32(3)}, Spread(1, 2, 6, 2, 1), nil),
	// The four channels are the corners of each block of a larger image of 4 x 4, which is then read as 16 channels of one pixel.
	moved("space_to_depth", "", nil, counted(1, 4, 2, 2), Floats(dims{1, 16, 1, 1}, 0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15)),
	moved("space_to_depth", "several", nil, Spread(1, 2, 8, 2, 4), nil),
	moved("temporal_shift", "", attrs{"seg_num": int32(2)}, Floats(dims{2, 4, 1, 1}, 1, 2, 3, 4, 10, 20, 30, 40), Floats(dims{2, 4, 1, 1}, 0, 20, 3, 4, 1, 0, 30, 40)),
	moved("temporal_shift", "channels last", attrs{"seg_num": int32(2), "shift_ratio": float32(0.5), "data_format": "NHWC"},
		Floats(dims{2, 1, 2, 2}, 1, 2, 3, 4, 10, 20, 30, 40), Floats(dims{2, 1, 2, 2}, 0, 20, 0, 40, 1, 0, 3, 0)),
	moved("temporal_shift", "videos", attrs{"seg_num": int32(3), "shift_ratio": float32(0.3)}, Spread(1, 6, 4, 2, 1), nil),
}

func TestRearrangementsThatDoNotFit(t *testing.T) {
	for _, c := range []Case{
		moved("pixel_shuffle", "channels", attrs{"upscale_factor": int32(2)}, counted(1, 6, 1, 1), nil),
		moved("pixel_shuffle", "factor", attrs{"upscale_factor": int32(0)}, counted(1, 4, 1, 1), nil),
		moved("pixel_unshuffle", "width", attrs{"downscale_factor": int32(2)}, counted(1, 1, 2, 3), nil),
		moved("shuffle_channel", "groups", attrs{"group": int32(4)}, counted(1, 6, 1, 1), nil),
		moved("space_to_depth", "height", nil, counted(1, 4, 3, 2), nil),
		moved("temporal_shift", "frames", attrs{"seg_num": int32(2)}, counted(3, 4, 1, 1), nil),
		moved("temporal_shift", "ratio", attrs{"seg_num": int32(1), "shift_ratio": float32(0.6)}, counted(3, 4, 1, 1), nil),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
