package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func moved(op, name string, a attrs, x, want *tensor.Tensor) Case {
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"X": One(x)}, Want: slots{"Out": One(want)}}
}

var flipCases = []Case{
	moved("reverse", "rows", attrs{"axis": []int32{0}}, matrix, Floats(dims{2, 3}, 4, 5, 9, 1, 2, 3)),
	moved("flip", "both axes", attrs{"axis": []int32{0, -1}}, matrix, Floats(dims{2, 3}, 9, 5, 4, 3, 2, 1)),
	moved("roll", "columns", attrs{"shifts": []int64{1}, "axis": []int64{1}}, matrix, Floats(dims{2, 3}, 3, 1, 2, 9, 4, 5)),
	moved("roll", "backwards and beyond", attrs{"shifts": []int64{-4, 3}, "axis": []int64{-1, 0}}, matrix, Floats(dims{2, 3}, 5, 9, 4, 2, 3, 1)),
	moved("roll", "as one row", attrs{"shifts": []int64{2}}, matrix, Floats(dims{2, 3}, 5, 9, 1, 2, 3, 4)),
	moved("roll", "not at all", attrs{"shifts": []int64{3}, "axis": []int64{1}}, matrix, matrix),
	{Type: "roll", Name: "shifts from a tensor", Attrs: attrs{"axis": []int64{0}}, Inputs: slots{"X": One(Ints(dims{3}, 1, 2, 3)), "ShiftsTensor": One(Ints(dims{1}, 1))},
		Want: slots{"Out": One(Ints(dims{3}, 3, 1, 2))}},
	moved("crop", "", attrs{"offsets": []int32{0, 1}, "shape": []int32{-1, 2}}, matrix, Floats(dims{2, 2}, 2, 3, 5, 9)),
	{Type: "crop", Name: "dims of Y", Attrs: attrs{"offsets": []int32{1, 0}}, Inputs: slots{"X": One(matrix), "Y": One(Spread(1, 1, 2))}, Constant: []string{"Y"},
		Want: slots{"Out": One(Floats(dims{1, 2}, 4, 5))}},
	{Type: "crop_tensor", Attrs: attrs{"shape": []int32{-1, -1}},
		Inputs: slots{"X": One(matrix), "ShapeTensor": One(Int32s(dims{1}, 1), Int32s(dims{1}, -1)), "Offsets": One(Int32s(dims{2}, 1, 1))},
		Want:   slots{"Out": One(Floats(dims{1, 2}, 5, 9))}},
}

func TestMovesRefuseAxesAndPartsThatXDoesNotHave(t *testing.T) {
	for _, c := range []Case{
		moved("flip", "", attrs{"axis": []int32{2}}, matrix, matrix),
		moved("reverse", "", attrs{"axis": []int32{1, -1}}, matrix, matrix),
		moved("roll", "", attrs{"shifts": []int64{1, 1}, "axis": []int64{0}}, matrix, matrix),
		moved("roll", "", attrs{"shifts": []int64{1, 1}}, matrix, matrix),
		moved("crop", "", attrs{"offsets": []int32{0, 2}, "shape": []int32{2, 2}}, matrix, matrix),
		moved("crop", "", attrs{"shape": []int32{2}}, matrix, matrix),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v %v: %v", c, c.Attrs, err)
		}
	}
}
