package nn_test

import (
	"math"

	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func prelu(mode string, alpha, x, want *tensor.Tensor) Case {
	c := Case{Type: "prelu", Name: mode, Attrs: attrs{"mode": mode}, Inputs: slots{"X": One(x), "Alpha": One(alpha)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func alongAxis(op string, axis int32, x, want *tensor.Tensor) Case {
	return Case{Type: op, Name: "an inner axis", Attrs: attrs{"axis": axis}, Inputs: slots{"X": One(x)}, Want: slots{"Out": One(want)}}
}

var (
	upright      = Floats(dims{1, 2, 2}, 0, ln3, ln3, 0) // columns of classes (0, ln 3) and (ln 3, 0)
	uprightShare = Floats(dims{1, 2, 2}, 0.25, 0.75, 0.75, 0.25)
	uprightLog   = Floats(dims{1, 2, 2}, math.Log(0.25), math.Log(0.75), math.Log(0.75), math.Log(0.25))
)

var activationCases = []Case{
	prelu("all", Floats(dims{1}, 0.25), Floats(dims{2, 2}, -2, 1, 3, -4), Floats(dims{2, 2}, -0.5, 1, 3, -1)),
	prelu("channel", Floats(dims{2}, 0.25, 0.5), Floats(dims{2, 2, 2}, -2, 1, 3, -4, -1, -2, -3, 4),
		Floats(dims{2, 2, 2}, -0.5, 1, 3, -2, -0.25, -0.5, -1.5, 4)),
	prelu("element", Floats(dims{1, 2, 1}, 0.25, 0.5), Floats(dims{2, 2, 1}, -2, -4, 3, -6), Floats(dims{2, 2, 1}, -0.5, -2, 3, -3)),
	prelu("channel", Spread(2, 1, 3, 1, 1), Spread(1, 2, 3, 2, 2), nil),
	{Type: "maxout", Attrs: attrs{"groups": int32(2)}, Inputs: slots{"X": One(Floats(dims{1, 4, 2}, 1, 5, 3, 2, -1, 0, -2, 4))},
		Want: slots{"Out": One(Floats(dims{1, 2, 2}, 3, 5, -1, 4))}},
	{Type: "maxout", Name: "last axis", Attrs: attrs{"groups": int32(3), "axis": int32(-1)}, Inputs: slots{"X": One(Spread(3, 2, 6))}},
	alongAxis("softmax", 1, upright, uprightShare),
	alongAxis("log_softmax", -2, upright, uprightLog),
	{Type: "softmax", Name: "a number", Inputs: slots{"X": One(Floats(nil, 3))}, Want: slots{"Out": One(Floats(nil, 1))}},
	{Type: "log_softmax", Name: "a number", Inputs: slots{"X": One(Floats(nil, 3))}, Want: slots{"Out": One(Floats(nil, 0))}},
	{Type: "softmax", Name: "the first axis", Attrs: attrs{"axis": int32(0)}, Inputs: slots{"X": One(Spread(3, 3, 2))}},
	{Type: "log_softmax", Inputs: slots{"X": One(Floats(dims{2, 2}, 0, ln3, 1000, 1000))},
		Want: slots{"Out": One(Floats(dims{2, 2}, math.Log(0.25), math.Log(0.75), -math.Ln2, -math.Ln2))}},
}
