package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var distanceCases = []Case{
	two("squared_l2_distance", Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 1, 0, 0, 0), Floats(dims{2, 1}, 4, 25)),
	{Type: "squared_l2_distance", Name: "one row", Inputs: slots{"X": One(Floats(dims{2, 1, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{1, 1, 2}, 1, 1))},
		Want: slots{"Out": One(Floats(dims{2, 1}, 1, 13)), "sub_result": One(Floats(dims{2, 2}, 0, 1, 2, 3))}},
}

var unfoldCases = []Case{
	{Type: "unfold", Attrs: attrs{"kernel_sizes": []int32{2, 2}}, Inputs: slots{"X": One(Floats(dims{1, 1, 2, 3}, 1, 2, 3, 4, 5, 6))},
		Want: slots{"Y": One(Floats(dims{1, 4, 2}, 1, 2, 2, 3, 4, 5, 5, 6))}},
	{Type: "unfold", Name: "padding of one side", Attrs: attrs{"kernel_sizes": []int32{1, 2}, "paddings": []int32{0, 1, 0, 0}, "strides": []int32{1, 2}},
		Inputs: slots{"X": One(Floats(dims{1, 1, 1, 3}, 1, 2, 3))}, Want: slots{"Y": One(Floats(dims{1, 2, 2}, 0, 2, 1, 3))}},
	{Type: "unfold", Name: "all numbers", Attrs: attrs{"kernel_sizes": []int32{2, 3}, "paddings": []int32{1, 0, 2, 1}, "strides": []int32{2, 1}, "dilations": []int32{2, 1}},
		Inputs: slots{"X": One(Spread(1, 2, 3, 4, 5))}},
	{Type: "fold", Attrs: attrs{"kernel_sizes": []int32{2, 2}, "output_sizes": []int32{2, 3}}, Inputs: slots{"X": One(Floats(dims{1, 4, 2}, 1, 2, 20, 3, 4, 5, 50, 6))},
		Want: slots{"Y": One(Floats(dims{1, 1, 2, 3}, 1, 22, 3, 4, 55, 6))}},
	{Type: "fold", Name: "all numbers", Attrs: attrs{"output_sizes": []int32{4, 5}, "kernel_sizes": []int32{2, 3}, "paddings": []int32{1, 0, 2, 1}, "strides": []int32{2, 1}, "dilations": []int32{2, 1}},
		Inputs: slots{"X": One(Spread(1, 2, 18, 12))}},
}

func TestFoldRefusesColumnsThatNoWindowsMake(t *testing.T) {
	for _, c := range []struct {
		a    attrs
		kind fault.Kind
	}{
		{attrs{"kernel_sizes": []int32{1, 2}, "output_sizes": []int32{1, 4}}, fault.ShapeMismatch},
		{attrs{"kernel_sizes": []int32{1, 4}, "output_sizes": []int32{1, 5}}, fault.ShapeMismatch},
		{attrs{"kernel_sizes": []int32{1, 2}, "output_sizes": []int32{3}}, fault.InvalidArgument},
		{attrs{"kernel_sizes": []int32{1, 2}, "output_sizes": []int32{1, 0}}, fault.InvalidArgument},
	} {
		if err := Golden(Case{Type: "fold", Attrs: c.a, Inputs: slots{"X": One(Spread(1, 1, 2, 2))}}); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.a, err, c.kind)
		}
	}
}

func TestUnfoldRefusesWindowsThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		a    attrs
		kind fault.Kind
	}{
		{attrs{"kernel_sizes": []int32{3, 1}}, fault.ShapeMismatch},
		{attrs{"kernel_sizes": []int32{2}}, fault.InvalidArgument},
		{attrs{"kernel_sizes": []int32{1, 1}, "strides": []int32{0, 1}}, fault.InvalidArgument},
		{attrs{"kernel_sizes": []int32{1, 1}, "paddings": []int32{1, 1}}, fault.InvalidArgument},
	} {
		if err := Golden(Case{Type: "unfold", Attrs: c.a, Inputs: slots{"X": One(Spread(1, 1, 1, 2, 2))}}); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.a, err, c.kind)
		}
	}
}
