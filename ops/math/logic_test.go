package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// two applies an op without attributes to X and Y.
func two(op string, x, y, want *tensor.Tensor) Case {
	return Case{Type: op, Name: x.DType().String(), Inputs: slots{"X": One(x), "Y": One(y)}, Want: slots{"Out": One(want)}}
}

var (
	low, high   = Floats(dims{3, 1}, 1, 2, 3), Floats(dims{3, 1}, 2, 2, 1)
	truth, lies = Bools(dims{4}, true, true, false, false), Bools(dims{4}, true, false, true, false)
)

var logicCases = []Case{
	two("less_than", low, high, Bools(dims{3, 1}, true, false, false)),
	two("less_than", Ints(dims{1}, 4), Ints(dims{1}, 5), Bools(dims{1}, true)),
	two("less_equal", low, high, Bools(dims{3, 1}, true, true, false)),
	two("greater_than", low, high, Bools(dims{3, 1}, false, false, true)),
	two("greater_equal", low, high, Bools(dims{3, 1}, false, true, true)),
	two("equal", low, high, Bools(dims{3, 1}, false, true, false)),
	two("not_equal", Int32s(dims{2}, 4, 5), Int32s(dims{2}, 4, 6), Bools(dims{2}, false, true)),
	two("logical_and", truth, lies, Bools(dims{4}, true, false, false, false)),
	two("logical_or", truth, lies, Bools(dims{4}, true, true, true, false)),
	two("logical_xor", truth, lies, Bools(dims{4}, false, true, true, false)),
	two("equal", truth, lies, Bools(dims{4}, true, false, false, true)),
	two("less_than", Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{1}, 3), Bools(dims{2, 2}, true, true, false, false)),
	two("greater_equal", Ints(dims{2, 1}, 1, 2), Ints(dims{1, 2}, 1, 2), Bools(dims{2, 2}, true, false, true, true)),
	two("bitwise_and", Ints(dims{2}, 6, -1), Ints(dims{2}, 3, 8), Ints(dims{2}, 2, 8)),
	two("bitwise_or", Int32s(dims{2}, 6, 1), Int32s(dims{1}, 8), Int32s(dims{2}, 14, 9)),
	two("bitwise_xor", Ints(dims{2}, 6, 1), Ints(dims{2}, 3, 1), Ints(dims{2}, 5, 0)),
	two("bitwise_xor", truth, lies, Bools(dims{4}, false, true, true, false)),
	{Type: "bitwise_not", Inputs: slots{"X": One(Ints(dims{2}, 0, 5))}, Want: slots{"Out": One(Ints(dims{2}, -1, -6))}},
	{Type: "logical_not", Inputs: slots{"X": One(truth)}, Want: slots{"Out": One(Bools(dims{4}, false, false, true, true))}},
	{Type: "increment", Inputs: slots{"X": One(Ints(dims{1}, 41))}, Want: slots{"Out": One(Ints(dims{1}, 42))}},
	{Type: "increment", Name: "by half", Attrs: attrs{"step": float32(-0.5)}, Inputs: slots{"X": One(Floats(dims{1}, 2))},
		Want: slots{"Out": One(Floats(dims{1}, 1.5))}},
}
