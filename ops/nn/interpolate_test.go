package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func resized(opType, name string, a attrs, x, want *tensor.Tensor) Case {
	c := Case{Type: opType, Name: name, Attrs: a, Inputs: slots{"X": One(x)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func sized(opType string, slot string, x *tensor.Tensor, values ...*tensor.Tensor) Case {
	c := resized(opType, "by "+slot, attrs{"align_corners": false}, x, nil)
	c.Inputs[slot], c.Constant = values, []string{slot}
	return c
}

var (
	hw   = func(h, w int32, corners bool) attrs { return attrs{"out_h": h, "out_w": w, "align_corners": corners} }
	ramp = Floats(dims{1, 1, 1, 3}, 0, 10, 20)

	interpolateCases = []Case{
		resized("nearest_interp", "", hw(1, 6, false), ramp, Floats(dims{1, 1, 1, 6}, 0, 0, 10, 10, 20, 20)),
		resized("nearest_interp", "corners", hw(1, 5, true), ramp, Floats(dims{1, 1, 1, 5}, 0, 10, 10, 20, 20)),
		resized("nearest_interp", "smaller", hw(2, 2, false), numbered(4), Floats(dims{1, 1, 2, 2}, 1, 3, 9, 11)),
		resized("nearest_interp_v2", "by scale", attrs{"scale": []float32{2, 3}, "align_corners": false}, Floats(dims{1, 1, 1, 2}, 1, 2),
			Floats(dims{1, 1, 2, 6}, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2)),
		resized("bilinear_interp", "corners", hw(1, 5, true), ramp, Floats(dims{1, 1, 1, 5}, 0, 5, 10, 15, 20)),
		resized("bilinear_interp", "", hw(1, 6, false), ramp, Floats(dims{1, 1, 1, 6}, 0, 5, 10, 15, 20, 20)),
		resized("bilinear_interp", "centres", attrs{"out_h": int32(1), "out_w": int32(6), "align_corners": false, "align_mode": int32(0)}, ramp,
			Floats(dims{1, 1, 1, 6}, 0, 2.5, 7.5, 12.5, 17.5, 20)),
		resized("bilinear_interp", "both axes", hw(3, 3, true), numbered(2), Floats(dims{1, 1, 3, 3}, 1, 1.5, 2, 2, 2.5, 3, 3, 3.5, 4)),
		resized("bilinear_interp", "one place", hw(1, 1, true), numbered(2), Floats(dims{1, 1, 1, 1}, 1)),
		resized("bilinear_interp", "by scale", attrs{"scale": float32(1.5), "out_h": int32(7), "out_w": int32(7)}, Spread(1, 2, 2, 2, 4), nil),
		resized("bilinear_interp", "channels last", attrs{"out_h": int32(3), "out_w": int32(2), "data_layout": "NHWC"}, Spread(1, 2, 2, 3, 2), nil),
		resized("bilinear_interp_v2", "smaller", attrs{"out_h": int32(2), "out_w": int32(3), "align_corners": false, "align_mode": int32(0)}, Spread(1, 1, 2, 5, 4), nil),
		resized("bilinear_interp_v2", "by one scale", attrs{"scale": []float32{2}, "align_corners": false}, Spread(1, 1, 1, 2, 2), nil),
		sized("bilinear_interp", "OutSize", Spread(1, 1, 2, 2, 3), Int32s(dims{2}, 3, 4)),
		sized("bilinear_interp_v2", "SizeTensor", Spread(1, 1, 2, 2, 3), Int32s(dims{1}, 3), Int32s(dims{1}, 4)),
		sized("nearest_interp_v2", "Scale", Spread(1, 1, 2, 2, 3), Floats(dims{2}, 2, 1)),
		sized("nearest_interp", "Scale", Spread(1, 1, 2, 2, 3), Floats(dims{1}, 2)),
		// Cubic convolution keeps what it is given at its places.
		resized("bicubic_interp", "corners", hw(1, 5, true), ramp, Floats(dims{1, 1, 1, 5}, 0, 4.0625, 10, 15.9375, 20)),
		resized("bicubic_interp", "", hw(4, 5, false), Spread(2, 1, 2, 3, 2), nil),
		resized("bicubic_interp_v2", "smaller", hw(2, 2, false), Spread(2, 1, 2, 5, 5), nil),
		resized("linear_interp", "", attrs{"out_w": int32(5)}, Floats(dims{1, 1, 3}, 0, 10, 20), Floats(dims{1, 1, 5}, 0, 5, 10, 15, 20)),
		resized("linear_interp_v2", "channels last", attrs{"out_w": int32(5), "data_layout": "NWC"}, Spread(1, 2, 3, 2), nil),
		resized("trilinear_interp", "", attrs{"out_d": int32(3), "out_h": int32(2), "out_w": int32(3)}, counted(1, 1, 2, 2, 2),
			Floats(dims{1, 1, 3, 2, 3}, 0, .5, 1, 2, 2.5, 3, 2, 2.5, 3, 4, 4.5, 5, 4, 4.5, 5, 6, 6.5, 7)),
		resized("nearest_interp_v2", "volumes", attrs{"out_d": int32(2), "out_h": int32(1), "out_w": int32(4), "align_corners": false}, counted(1, 1, 2, 1, 2), Floats(dims{1, 1, 2, 1, 4}, 0, 0, 1, 1, 2, 2, 3, 3)),
		resized("nearest_interp_v2", "volumes, channels last", attrs{"scale": []float32{2, 1, 1.5}, "align_corners": false, "data_layout": "NDHWC"}, Spread(1, 1, 2, 2, 2, 3), nil),
		resized("trilinear_interp_v2", "channels last", attrs{"out_d": int32(3), "out_h": int32(2), "out_w": int32(3), "data_layout": "NDHWC"}, Spread(1, 1, 2, 2, 2, 2), nil),
		resized("trilinear_interp_v2", "", attrs{"scale": []float32{2, 1, 1.5}, "align_corners": false, "align_mode": int32(0)}, Spread(1, 1, 2, 2, 2, 2), nil),
	}
)

func TestInterpolationsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{resized("bilinear_interp", "no size", nil, ramp, nil), fault.InvalidArgument},
		{resized("bilinear_interp", "method", attrs{"out_h": int32(2), "out_w": int32(2), "interp_method": "nearest"}, ramp, nil), fault.InvalidArgument},
		{resized("bilinear_interp", "mode", attrs{"out_h": int32(2), "out_w": int32(2), "align_mode": int32(2)}, ramp, nil), fault.InvalidArgument},
		{resized("bilinear_interp_v2", "three scales", attrs{"scale": []float32{1, 2, 3}}, ramp, nil), fault.InvalidArgument},
		{resized("bilinear_interp_v2", "one scale of two", attrs{"scale": []float32{1, 0}}, ramp, nil), fault.InvalidArgument},
		{resized("bilinear_interp", "vanishing", attrs{"scale": float32(0.1)}, ramp, nil), fault.InvalidArgument},
		{resized("trilinear_interp", "image", attrs{"scale": float32(2)}, ramp, nil), fault.ShapeMismatch},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}
