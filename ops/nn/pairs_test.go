package nn_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

// Of query 1, items 0 and 2 are in order, 0 and 3 as well, 2 and 3 have equal scores; items 0 and 4 have equal labels. Query 2 has one item.
var pairCases = []Case{
	{Name: "by hand", Type: "positive_negative_pair",
		Inputs: slots{"Score": One(Floats(dims{5, 2}, 0, 9, 0, 1, 0, 5, 0, 5, 0, 2)), "Label": One(Floats(dims{5, 1}, 3, 8, 1, 2, 3)), "QueryID": One(Ints(dims{5, 1}, 1, 2, 1, 1, 1))},
		Attrs:  attrs{"column": int32(-1)},
		Want:   slots{"PositivePair": One(Floats(dims{1}, 2)), "NegativePair": One(Floats(dims{1}, 3)), "NeutralPair": One(Floats(dims{1}, 1))}},
	{Name: "weights and counts", Type: "positive_negative_pair",
		Inputs: slots{"Score": One(Floats(dims{3, 1}, 1, 2, 3)), "Label": One(Floats(dims{3, 1}, 1, 2, 0)), "QueryID": One(Ints(dims{3, 1}, 7, 7, 7)), "Weight": One(Floats(dims{3, 1}, 1, 3, 5)),
			"AccumulatePositivePair": One(Floats(dims{1}, 10)), "AccumulateNegativePair": One(Floats(dims{1}, 20)), "AccumulateNeutralPair": One(Floats(dims{1}, 30))},
		Want: slots{"PositivePair": One(Floats(dims{1}, 12)), "NegativePair": One(Floats(dims{1}, 27)), "NeutralPair": One(Floats(dims{1}, 30))}},
}

func TestPairsRefuseWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*Case){
		"column": func(c *Case) { c.Attrs["column"] = int32(2) },
		"counts": func(c *Case) { c.Inputs["AccumulatePositivePair"] = One(Floats(dims{1}, 10)) },
	} {
		c := pairCases[0]
		c.Inputs, c.Attrs = slots{}, attrs{}
		for slot, v := range pairCases[0].Inputs {
			c.Inputs[slot] = v
		}
		change(&c)
		if err := Golden(c); err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
}
