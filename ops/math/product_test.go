package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
)

var productCases = []Case{
	{Type: "scale", Inputs: slots{"X": One(Floats(dims{2}, 1, 3))}, Attrs: attrs{"scale": float32(2), "bias": float32(0.5)},
		Want: slots{"Out": One(Floats(dims{2}, 2.5, 6.5))}},
	{Type: "scale", Name: "bias first", Inputs: slots{"X": One(Floats(dims{2}, 1, 3))},
		Attrs: attrs{"scale": float32(2), "bias": float32(0.5), "bias_after_scale": false},
		Want:  slots{"Out": One(Floats(dims{2}, 3, 7))}},
	{Type: "scale", Name: "int64", Inputs: slots{"X": One(Ints(dims{2}, 1, 3))}, Attrs: attrs{"scale": float32(2), "bias": float32(-1)},
		Want: slots{"Out": One(Ints(dims{2}, 1, 5))}},
	{Type: "sum", Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2), Floats(dims{2, 1}, 10, 20), Floats(dims{2, 1}, 100, 200))},
		Want: slots{"Out": One(Floats(dims{2, 1}, 111, 222))}},
	{Type: "sum", Name: "one term", Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}, Want: slots{"Out": One(Floats(dims{2}, 1, 2))}},
	{Type: "mean", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 6))}, Want: slots{"Out": One(Floats(dims{1}, 3))}},
	{Type: "mul", Inputs: slots{"X": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "Y": One(Floats(dims{3, 2}, 1, 0, 0, 1, 2, -1))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 7, -1, 16, -1))}},
	{Type: "mul", Name: "flattened", Inputs: slots{"X": One(Spread(1, 2, 1, 2, 3)), "Y": One(Spread(2, 3, 2, 2, 2))},
		Attrs: attrs{"x_num_col_dims": int32(2), "y_num_col_dims": int32(2)}},
}
