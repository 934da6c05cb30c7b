package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// image is a row of three numbers as an image, or as a volume.
func image(rank int) *tensor.Tensor {
	return Floats([]int64{1, 1, 1, 1, 3}[5-rank:], 1, 2, 3)
}

func padImage(op, mode string, paddings []int32, want ...float64) Case {
	x := image(4)
	d := dims{1, 1, 1, int64(len(want))}
	if op == "pad3d" {
		x, d = image(5), dims{1, 1, 1, 1, int64(len(want))}
	}
	return Case{Type: op, Name: mode, Attrs: attrs{"paddings": paddings, "mode": mode}, Inputs: slots{"X": One(x)}, Want: slots{"Out": One(Floats(d, want...))}}
}

// cropImage is a padImage with a negative padding.
func cropImage(op, mode string, paddings []int32, want ...float64) Case {
	c := padImage(op, mode, paddings, want...)
	c.Name += ", some taken away"
	return c
}

var padCases = []Case{
	{Type: "pad", Attrs: attrs{"paddings": []int32{0, 1, 1, 0}, "pad_value": float32(9)}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Floats(dims{3, 3}, 9, 1, 2, 9, 3, 4, 9, 9, 9))}},
	{Type: "pad", Name: "int64", Attrs: attrs{"paddings": []int32{1, 2}, "pad_value": float32(-1)}, Inputs: slots{"X": One(Ints(dims{1}, 5))},
		Want: slots{"Out": One(Ints(dims{4}, -1, 5, -1, -1))}},
	padImage("pad2d", "constant", []int32{0, 0, 1, 2}, 0, 1, 2, 3, 0, 0),
	padImage("pad2d", "reflect", []int32{0, 0, 2, 1}, 3, 2, 1, 2, 3, 2),
	padImage("pad2d", "edge", []int32{0, 0, 2, 1}, 1, 1, 1, 2, 3, 3),
	{Type: "pad2d", Name: "rows, channels last", Attrs: attrs{"paddings": []int32{1, 0, 0, 1}, "data_format": "NHWC", "mode": "edge"},
		Inputs: slots{"X": One(Floats(dims{1, 1, 2, 2}, 1, 2, 3, 4))},
		Want:   slots{"Out": One(Floats(dims{1, 2, 3, 2}, 1, 2, 3, 4, 3, 4, 1, 2, 3, 4, 3, 4))}},
	{Type: "pad2d", Name: "paddings from a tensor", Inputs: slots{"X": One(image(4)), "Paddings": One(Int32s(dims{4}, 0, 1, 0, 0))},
		Want: slots{"Out": One(Floats(dims{1, 1, 2, 3}, 1, 2, 3, 0, 0, 0))}},
	cropImage("pad2d", "constant", []int32{0, 0, -1, 2}, 2, 3, 0, 0),
	cropImage("pad2d", "reflect", []int32{0, 0, 2, -1}, 3, 2, 1, 2),
	cropImage("pad2d", "edge", []int32{0, 0, -3, 2}, 3, 3),
	cropImage("pad3d", "constant", []int32{-1, -1, 0, 0, 0, 0}, 2),
	cropImage("pad3d", "replicate", []int32{1, -2, 0, 0, 0, 0}, 1, 1),
	cropImage("pad3d", "circular", []int32{-1, 2, 0, 0, 0, 0}, 2, 3, 1, 2),
	padImage("pad3d", "constant", []int32{2, 0, 0, 0, 0, 0}, 0, 0, 1, 2, 3),
	padImage("pad3d", "reflect", []int32{1, 2, 0, 0, 0, 0}, 2, 1, 2, 3, 2, 1),
	padImage("pad3d", "replicate", []int32{1, 2, 0, 0, 0, 0}, 1, 1, 2, 3, 3, 3),
	padImage("pad3d", "circular", []int32{4, 2, 0, 0, 0, 0}, 3, 1, 2, 3, 1, 2, 3, 1, 2),
	{Type: "pad3d", Name: "depth, channels last", Attrs: attrs{"paddings": []int32{0, 0, 0, 0, 1, 0}, "data_format": "NDHWC", "value": float32(7)},
		Inputs: slots{"X": One(Floats(dims{1, 1, 1, 1, 2}, 1, 2))}, Want: slots{"Out": One(Floats(dims{1, 2, 1, 1, 2}, 7, 7, 1, 2))}},
	{Type: "pad_constant_like", Attrs: attrs{"pad_value": float32(5)}, Constant: []string{"X"},
		Inputs: slots{"X": One(Spread(1, 2, 3)), "Y": One(Floats(dims{1, 2}, 1, 2))}, Want: slots{"Out": One(Floats(dims{2, 3}, 1, 2, 5, 5, 5, 5))}},
}

// Paddle computes such a padding, so it is not invalid.
func TestPaddingsThatTakeAwayMoreThanThereIs(t *testing.T) {
	if err := Golden(padImage("pad2d", "constant", []int32{0, 0, -4, 3}, 0, 0)); fault.KindOf(err) != fault.Unsupported {
		t.Error(err)
	}
}

func TestPaddingsRefuseWhatTheyCannotShow(t *testing.T) {
	for _, c := range []Case{
		padImage("pad2d", "reflect", []int32{0, 0, 3, 0}, 0),
		padImage("pad2d", "reflect", []int32{1, 0, 0, 0}, 0), // one row has no other to mirror
		padImage("pad2d", "constant", []int32{-2, 0, 0, 0}, 0),
		padImage("pad3d", "reflect", []int32{-2, -2, 0, 0, 0, 0}, 0),
		{Type: "pad", Attrs: attrs{"paddings": []int32{-1, 0, 0, 0}}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4))}, Want: slots{"Out": One(Floats(dims{1, 2}, 3, 4))}},
		padImage("pad2d", "constant", []int32{0, 0}, 0),
		padImage("pad2d", "mirror", []int32{0, 0, 0, 0}, 0),
		padImage("pad3d", "edge", []int32{0, 0, 0, 0, 0, 0}, 0),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v %v: %v", c, c.Attrs, err)
		}
	}
}
