package nn_test

import (
	"math"

	"github.com/edl-go/edl/ops/gradcheck"
)

var simCases = []gradcheck.Case{
	{Name: "by hand", Type: "cos_sim", Inputs: slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 2}, 3, 4, 1, 0)), "Y": gradcheck.One(gradcheck.Floats(dims{2, 2}, 4, 3, 0, 2))},
		Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{2, 1}, 0.96, 0)), "XNorm": gradcheck.One(gradcheck.Floats(dims{2, 1}, 5, 1))}},
	{Name: "one row", Type: "cos_sim", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 3, 2, 2)), "Y": gradcheck.One(gradcheck.Spread(2, 1, 2, 2))}},
	{Name: "by hand", Type: "cross_entropy2", Inputs: slots{"X": gradcheck.One(gradcheck.Floats(dims{3, 2}, 0.25, 0.75, 0.5, 0.5, 0.1, 0.9)),
		"Label": gradcheck.One(gradcheck.Ints(dims{3, 1}, 0, 1, -100))},
		Want: slots{"Y": gradcheck.One(gradcheck.Floats(dims{3, 1}, math.Log(4), math.Log(2), 0)), "MatchX": gradcheck.One(gradcheck.Floats(dims{3, 1}, 0.25, 0.5, 0))}},
}
