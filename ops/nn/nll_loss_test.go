package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

func likelihood(name, reduction string, a attrs, in slots, want slots) Case {
	all := attrs{"reduction": reduction}
	for k, v := range a {
		all[k] = v
	}
	return Case{Type: "nll_loss", Name: name + " " + reduction, Attrs: all, Inputs: in, Constant: []string{"Weight"}, Want: want}
}

var likelihoodCases = []Case{
	likelihood("rows", "mean", nil, slots{"X": One(Floats(dims{2, 3}, -1, -2, -3, -4, -5, -6)), "Label": One(Ints(dims{2}, 1, 0))},
		slots{"Out": One(Floats(dims{1}, 3)), "Total_weight": One(Floats(dims{1}, 2))}),
	likelihood("weights", "mean", attrs{"ignore_index": int64(0)}, slots{"X": One(Floats(dims{3, 3}, -1, -2, -3, -4, -5, -6, -7, -8, -9)), "Label": One(Ints(dims{3}, 1, 0, 2)),
		"Weight": One(Floats(dims{3}, 1, 0.5, 2))}, slots{"Out": One(Floats(dims{1}, 19/2.5)), "Total_weight": One(Floats(dims{1}, 2.5))}),
	likelihood("places", "none", nil, slots{"X": One(Floats(dims{1, 2, 2}, -1, -2, -3, -4)), "Label": One(Ints(dims{1, 2}, 1, 0))}, slots{"Out": One(Floats(dims{1, 2}, 3, 2))}),
	likelihood("places", "sum", nil, slots{"X": One(Spread(3, 2, 3, 2)), "Label": One(Ints(dims{2, 2}, 1, 0, 2, 2))}, nil),
	likelihood("nothing counts", "mean", nil, slots{"X": One(Floats(dims{1, 2}, -1, -2)), "Label": One(Ints(dims{1}, -100))}, slots{"Out": One(Floats(dims{1}, 0))}),
}

func TestLikelihoodOfClassesThatAreNone(t *testing.T) {
	if err := Golden(likelihood("", "mean", nil, slots{"X": One(Floats(dims{1, 2}, -1, -2)), "Label": One(Ints(dims{1}, 2))}, nil)); fault.KindOf(err) != fault.InvalidArgument {
		t.Error(err)
	}
}
