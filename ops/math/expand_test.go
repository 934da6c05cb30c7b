package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var expandCases = []Case{
	{Type: "expand", Attrs: attrs{"expand_times": []int32{2, 2}}, Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 2))},
		Want: slots{"Out": One(Floats(dims{2, 4}, 1, 2, 1, 2, 1, 2, 1, 2))}},
	{Type: "expand", Name: "times from tensors", Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2)), "expand_times_tensor": One(Int32s(dims{1}, 1), Ints(dims{1}, 3))},
		Want: slots{"Out": One(Floats(dims{2, 3}, 1, 1, 1, 2, 2, 2))}},
	{Type: "expand", Name: "int64", Attrs: attrs{"expand_times": []int32{2}}, Inputs: slots{"X": One(Ints(dims{2}, 1, 2))},
		Want: slots{"Out": One(Ints(dims{4}, 1, 2, 1, 2))}},
	{Type: "tile", Attrs: attrs{"repeat_times": []int32{2, 1, 3}}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Floats(dims{2, 2, 6}, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4))}},
	{Type: "tile", Name: "last axis", Attrs: attrs{"repeat_times": []int32{2}}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 1, 1, 2, 2))}},
	{Type: "expand_v2", Attrs: attrs{"shape": []int32{2, -1, 3}}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2))},
		Want: slots{"Out": One(Floats(dims{2, 2, 3}, 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2))}},
	{Type: "expand_v2", Name: "extents from a tensor", Attrs: attrs{"shape": []int32{-1}}, Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 2)), "Shape": One(Int32s(dims{2}, 3, -1))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 1, 2, 1, 2, 1, 2))}},
	{Type: "expand_as_v2", Inputs: slots{"X": One(Floats(dims{2}, 1, 2)), "Y": One(Spread(1, 3, 2))}, Constant: []string{"Y"},
		Want: slots{"Out": One(Floats(dims{3, 2}, 1, 2, 1, 2, 1, 2))}},
	{Type: "expand_as_v2", Name: "target_shape", Attrs: attrs{"target_shape": []int32{2, 2}}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 1, 1, 2, 2))}},
	{Type: "expand_as", Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 2)), "target_tensor": One(Spread(1, 2, 4))}, Constant: []string{"target_tensor"},
		Want: slots{"Out": One(Floats(dims{2, 4}, 1, 2, 1, 2, 1, 2, 1, 2))}},
}

func TestRepetitionsRefuseWhatDoesNotFit(t *testing.T) {
	x := slots{"X": One(Floats(dims{2, 1}, 1, 2))}
	for _, c := range []Case{
		{Type: "expand", Attrs: attrs{"expand_times": []int32{2}}, Inputs: x},
		{Type: "expand", Attrs: attrs{"expand_times": []int32{0, 1}}, Inputs: x},
		{Type: "tile", Attrs: attrs{"repeat_times": []int64{1 << 62, 1 << 62}}, Inputs: x},
		{Type: "expand_v2", Attrs: attrs{"shape": []int32{3, 1}}, Inputs: x},
		{Type: "expand_v2", Attrs: attrs{"shape": []int32{-1, 2, 1}}, Inputs: x},
		{Type: "expand_v2", Attrs: attrs{"shape": []int32{1}}, Inputs: x},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v %v: %v", c, c.Attrs, err)
		}
	}
}
