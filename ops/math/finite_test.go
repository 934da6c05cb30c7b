package math_test

import (
	"math"

	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var (
	sound  = Floats(dims{2}, 1, -2)
	broken = Floats(dims{3}, 1, math.Inf(-1), math.NaN())
)

var finiteCases = []Case{
	along("isfinite", "", nil, sound, slots{"Out": One(Bools(dims{1}, true))}),
	along("isfinite", "broken", nil, broken, slots{"Out": One(Bools(dims{1}, false))}),
	along("isinf", "", nil, broken, slots{"Out": One(Bools(dims{1}, true))}),
	along("isnan", "", nil, sound, slots{"Out": One(Bools(dims{1}, false))}),
	along("isfinite_v2", "", nil, broken, slots{"Out": One(Bools(dims{3}, true, false, false))}),
	along("isinf_v2", "", nil, broken, slots{"Out": One(Bools(dims{3}, false, true, false))}),
	along("isnan_v2", "", nil, broken, slots{"Out": One(Bools(dims{3}, false, false, true))}),
	closeTo("", nil, Floats(dims{2}, 1, 2), Floats(dims{2}, 1, 2.00001), true),
	closeTo("far", nil, Floats(dims{2}, 1, 2), Floats(dims{2}, 1, 2.1), false),
	closeTo("tolerant", attrs{"atol": float32(0.2), "equal_nan": true}, Floats(dims{2}, math.NaN(), 2), Floats(dims{2}, math.NaN(), 2.1), true),
	{Type: "isclose", Attrs: attrs{"atol": float32(0.125), "rtol": float32(0)}, Inputs: slots{"Input": One(Floats(dims{3}, 1, 2, math.NaN())), "Other": One(Floats(dims{3}, 1.0625, 2.5, math.NaN()))},
		Want: slots{"Out": One(Bools(dims{3}, true, false, false))}},
	{Type: "isclose", Name: "tolerances of tensors", Attrs: attrs{"equal_nan": true}, Want: slots{"Out": One(Bools(dims{2, 1}, true, true))},
		Inputs: slots{"Input": One(Floats(dims{2, 1}, 4, math.NaN())), "Other": One(Floats(dims{2, 1}, 5, math.NaN())), "Rtol": One(Floats(dims{1}, 0.25)), "Atol": One(Floats(dims{1}, 0))}},
	two("minus", Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 5), Floats(dims{2}, -2, -3)),
	two("minus", Ints(dims{2}, 1, 2), Ints(dims{2}, 3, 5), Ints(dims{2}, -2, -3)),
}

func closeTo(name string, a attrs, x, y *tensor.Tensor, want bool) Case {
	return Case{Type: "allclose", Name: name, Attrs: a, Inputs: slots{"Input": One(x), "Other": One(y)}, Want: slots{"Out": One(Bools(dims{1}, want))}}
}
