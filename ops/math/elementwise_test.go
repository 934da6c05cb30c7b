package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// binary combines x and y, which is laid over x from an axis on.
func binary(op, name string, axis int32, x, y, want *tensor.Tensor) Case {
	c := Case{Type: "elementwise_" + op, Name: name, Inputs: slots{"X": One(x), "Y": One(y)}, Attrs: attrs{"axis": axis}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

// heaviside has an X of which some elements are 0, where the step leaves no difference to measure.
func heaviside(name string, x, y, want *tensor.Tensor) Case {
	c := binary("heaviside", name, -1, x, y, want)
	c.Constant = []string{"X"}
	return c
}

var arithmeticCases = []Case{
	binary("add", "", -1, Floats(dims{3}, 1, 2, 3), Floats(dims{3}, 10, 20, 30), Floats(dims{3}, 11, 22, 33)),
	binary("sub", "", -1, Floats(dims{3}, 1, 2, 3), Floats(dims{3}, 10, 20, 30), Floats(dims{3}, -9, -18, -27)),
	binary("mul", "", -1, Floats(dims{3}, 1, 2, 3), Floats(dims{3}, 10, 20, 30), Floats(dims{3}, 10, 40, 90)),
	binary("div", "", -1, Floats(dims{3}, 1, 2, 3), Floats(dims{3}, 2, -4, 8), Floats(dims{3}, 0.5, -0.5, 0.375)),
	binary("max", "", -1, Floats(dims{3}, 1, 2, -3), Floats(dims{3}, 2, -4, 8), Floats(dims{3}, 2, 2, 8)),
	binary("min", "", -1, Floats(dims{3}, 1, 2, -3), Floats(dims{3}, 2, -4, 8), Floats(dims{3}, 1, -4, -3)),
	binary("pow", "", -1, Floats(dims{3}, 4, 2, 3), Floats(dims{3}, 0.5, -1, 2), Floats(dims{3}, 2, 0.5, 9)),
	binary("div", "int64", -1, Ints(dims{3}, 7, -7, 7), Ints(dims{3}, 2, 2, 0), Ints(dims{3}, 3, -3, 0)),
	{Type: "elementwise_mul", Name: "rows", Constant: []string{"X", "Y"}, Inputs: slots{"X": One(Rows(4, []int64{3, 0, 3}, dims{3, 2}, 1, 2, 3, 4, 5, 6)), "Y": One(Floats(dims{1}, 10))},
		Want: slots{"Out": One(Rows(4, []int64{0, 3, 4}, dims{3, 2}, 30, 40, 60, 80, 0, 0))}},
	binary("add", "truth", -1, Bools(dims{4}, true, true, false, false), Bools(dims{4}, true, false, true, false), Bools(dims{4}, true, true, true, false)),
	binary("mul", "truth", -1, Bools(dims{2, 2}, true, true, false, true), Bools(dims{2}, true, false), Bools(dims{2, 2}, true, false, false, false)),
	binary("pow", "int64", -1, Ints(dims{6}, 3, -2, 2, -1, 1, 0), Ints(dims{6}, 4, 3, -1, -3, -2, 0), Ints(dims{6}, 81, -8, 0, -1, 1, 1)),
	binary("pow", "int32", -1, Int32s(dims{2}, 3, 5), Int32s(dims{1}, 2), Int32s(dims{2}, 9, 25)),
	heaviside("", Floats(dims{4}, -2, 0, 3, 0), Floats(dims{4}, 5, 6, 7, 8), Floats(dims{4}, 0, 6, 1, 8)),
	heaviside("one element", Floats(dims{2, 2}, 0, 0, 3, 0), Floats(dims{1}, 0.5), Floats(dims{2, 2}, 0.5, 0.5, 1, 0.5)),
	heaviside("mutual", Floats(dims{2, 1}, 0, 1), Floats(dims{1, 2}, 3, 4), Floats(dims{2, 2}, 3, 4, 1, 1)),
	binary("heaviside", "of X", -1, Floats(dims{2}, -1, 2), Floats(dims{2}, 3, 4), Floats(dims{2}, 0, 1)),
	binary("heaviside", "int64", -1, Ints(dims{3}, -2, 0, 3), Ints(dims{1}, 7), Ints(dims{3}, 0, 7, 1)),
	binary("max", "int32", -1, Int32s(dims{2}, 7, -7), Int32s(dims{1}, 2), Int32s(dims{2}, 7, 2)),
}

var broadcastCases = []Case{
	binary("add", "last axis", -1, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{3}, 10, 20, 30), Floats(dims{2, 3}, 11, 22, 33, 14, 25, 36)),
	binary("add", "first axis", 0, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{2}, 10, 20), Floats(dims{2, 3}, 11, 12, 13, 24, 25, 26)),
	binary("add", "middle axis", 1, Floats(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8), Floats(dims{2}, 10, 20),
		Floats(dims{2, 2, 2}, 11, 12, 23, 24, 15, 16, 27, 28)),
	binary("add", "trailing ones", 0, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{2, 1}, 10, 20), Floats(dims{2, 3}, 11, 12, 13, 24, 25, 26)),
	binary("add", "all trailing ones", 1, Floats(dims{1, 2, 2}, 1, 2, 3, 4), Floats(dims{2, 1}, 10, 20), Floats(dims{1, 2, 2}, 11, 12, 23, 24)),
	binary("sub", "one element", -1, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{1}, 10), Floats(dims{2, 2}, -9, -8, -7, -6)),
	binary("mul", "one element of full rank", -1, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{1, 1}, 10), Floats(dims{2, 2}, 10, 20, 30, 40)),
	binary("mul", "middle axes", 1, Spread(1, 2, 3, 2, 2), Spread(2, 3, 2), nil),
	binary("mul", "first axis", 0, Spread(1, 4, 3), Spread(3, 4), nil),
	binary("div", "last axis", -1, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2}, 2, 4), Floats(dims{2, 2}, 0.5, 0.5, 1.5, 1)),
	binary("div", "middle axis", 1, Spread(1, 2, 3, 2), Floats(dims{3}, 1, -2, 0.5), nil),
	binary("max", "last axis", -1, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2}, 2, 3.5), Floats(dims{2, 2}, 2, 3.5, 3, 4)),
	binary("min", "first axis", 0, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2}, 1.5, 3.5), Floats(dims{2, 2}, 1, 1.5, 3, 3.5)),
	binary("pow", "one element", -1, Floats(dims{2}, 3, 5), Floats(dims{1}, 2), Floats(dims{2}, 9, 25)),
	binary("add", "no rows", -1, Floats(dims{0, 2}), Floats(dims{2}, 1, 2), Floats(dims{0, 2})),
}

// Fluid repeats extents of 1 of both operands since 1.8.
var mutualCases = []Case{
	binary("add", "inner one", -1, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{1, 3}, 10, 20, 30), Floats(dims{2, 3}, 11, 22, 33, 14, 25, 36)),
	binary("sub", "higher rank", -1, Floats(dims{2}, 1, 2), Floats(dims{2, 2}, 10, 20, 30, 40), Floats(dims{2, 2}, -9, -18, -29, -38)),
	binary("mul", "masks", -1, Spread(1, 2, 2, 3, 2), Spread(2, 2, 1, 1, 2), nil),
	binary("mul", "masks of each head", -1, Spread(1, 2, 2, 3, 2), Spread(2, 1, 2, 1, 2), nil),
	binary("div", "column by row", -1, Floats(dims{2, 1}, 6, 12), Floats(dims{1, 3}, 1, 2, 3), Floats(dims{2, 3}, 6, 3, 2, 12, 6, 4)),
	binary("add", "column and row", -1, Spread(1, 2, 1), Spread(2, 1, 3), nil),
	binary("max", "lower rank from an axis on", 0, Floats(dims{2}, 1, 4), Floats(dims{2, 2}, 2, 0, 5, 3), Floats(dims{2, 2}, 2, 1, 5, 4)),
	binary("pow", "column and row", -1, Floats(dims{2, 1}, 2, 3), Floats(dims{1, 2}, 1, 2), Floats(dims{2, 2}, 2, 4, 3, 9)),
	binary("mod", "", -1, Floats(dims{3}, 7, -7, 7.5), Floats(dims{3}, 3, 3, -2), Floats(dims{3}, 1, 2, -0.5)),
	binary("mod", "int64", -1, Ints(dims{4}, 7, -7, 7, 1), Ints(dims{4}, 3, 3, -3, 0), Ints(dims{4}, 1, 2, -2, 0)),
	binary("floordiv", "int32", -1, Int32s(dims{3}, 7, -7, 7), Int32s(dims{3}, 2, 2, 0), Int32s(dims{3}, 3, -3, 0)),
	binary("floordiv", "", -1, Floats(dims{2}, 7, -7), Floats(dims{1}, 2), Floats(dims{2}, 3, -3)),
}

func TestBroadcastRefusesWhatFluidRefuses(t *testing.T) {
	x := Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)
	for _, c := range []Case{
		binary("add", "wrong extent", -1, x, Floats(dims{2}, 1, 2), nil),
		binary("add", "beyond the end", 2, x, Floats(dims{2}, 1, 2), nil),
		binary("add", "axis below -1", -2, x, Floats(dims{3}, 1, 2, 3), nil),
	} {
		if err := Check(c); fault.KindOf(err) != fault.ShapeMismatch {
			t.Errorf("%v: %v", c, err)
		}
	}
}
