package math_test

import . "github.com/edl-go/edl/ops/gradcheck"

var extentCases = []Case{
	{Type: "shape", Inputs: slots{"Input": One(Spread(1, 2, 3, 4))}, Want: slots{"Out": One(Int32s(dims{3}, 2, 3, 4))}},
	{Type: "shape", Name: "no rows", Inputs: slots{"Input": One(Floats(dims{0, 2}))}, Want: slots{"Out": One(Int32s(dims{2}, 0, 2))}},
	{Type: "size", Inputs: slots{"Input": One(Spread(1, 2, 3, 4))}, Want: slots{"Out": One(Ints(dims{1}, 24))}},
}
