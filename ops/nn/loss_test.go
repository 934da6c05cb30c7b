package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var (
	ln2, ln3      = math.Log(2), math.Log(3)
	probabilities = []float64{0.5, 0.25, 0.25, 0.125, 0.125, 0.75}
	labels        = []float64{0.5, 0.5, 0, 0, 0.25, 0.75}
)

var lossCases = []Case{
	{Type: "softmax", Inputs: slots{"X": One(Floats(dims{2, 2}, 0, ln3, 7, 7))}, Want: slots{"Out": One(Floats(dims{2, 2}, 0.25, 0.75, 0.5, 0.5))}},
	{Type: "softmax", Name: "rank 3", Inputs: slots{"X": One(Spread(1, 2, 2, 3))}, Attrs: attrs{"axis": int32(2)}},
	{Type: "softmax", Name: "large", Inputs: slots{"X": One(Floats(dims{2}, 1e4, 1e4-ln3))}, Want: slots{"Out": One(Floats(dims{2}, 0.75, 0.25))}},
	crossEntropy("", nil, Ints(dims{2, 1}, 1, 2), 2*ln2, -math.Log(0.75)),
	crossEntropy("ignored row", attrs{"ignore_index": int32(1)}, Ints(dims{2, 1}, 1, 0), 0, 3*ln2),
	crossEntropy("soft", attrs{"soft_label": true}, Floats(dims{2, 3}, labels...), 1.5*ln2, 0.75*ln2-0.75*math.Log(0.75)),
	softmaxLoss("", nil, Ints(dims{2, 1}, 0, 2), 2*ln2, ln3-ln2),
	softmaxLoss("ignored row", attrs{"ignore_index": int32(-1)}, Ints(dims{2, 1}, -1, 2), 0, ln3-ln2),
	givenDistribution("probabilities", attrs{"use_softmax": false}, Ints(dims{2, 1}, 1, 2), 2*ln2, -math.Log(0.75)),
	givenDistribution("probabilities, ignored row", attrs{"use_softmax": false, "ignore_index": int32(1)}, Ints(dims{2, 1}, 1, 0), 0, 3*ln2),
	givenDistribution("probabilities, soft", attrs{"use_softmax": false, "soft_label": true}, Floats(dims{2, 3}, labels...), 1.5*ln2, 0.75*ln2-0.75*math.Log(0.75)),
	softmaxLoss("soft", attrs{"soft_label": true}, Floats(dims{2, 3}, labels...), 1.5*ln2, 0.25*math.Log(6)+0.75*(ln3-ln2)),
}

// givenDistribution is a cross entropy of probabilities that are no logits.
func givenDistribution(name string, a attrs, label *tensor.Tensor, want ...float64) Case {
	c := softmaxLoss(name, a, label)
	c.Inputs["Logits"] = One(Floats(dims{2, 3}, probabilities...))
	c.Want = slots{"Loss": One(Floats(dims{2, 1}, want...)), "Softmax": One(Floats(dims{2, 3}, probabilities...))}
	return c
}

func crossEntropy(name string, a attrs, label *tensor.Tensor, want ...float64) Case {
	c := Case{Type: "cross_entropy", Name: name, Attrs: a, Constant: []string{"Label"},
		Inputs: slots{"X": One(Floats(dims{2, 3}, probabilities...)), "Label": One(label)}}
	if want != nil {
		c.Want = slots{"Y": One(Floats(dims{2, 1}, want...))}
	}
	return c
}

// softmaxLoss has logits of probabilities 1/4, 1/2, 1/4 and 1/6, 1/6, 2/3.
func softmaxLoss(name string, a attrs, label *tensor.Tensor, want ...float64) Case {
	c := Case{Type: "softmax_with_cross_entropy", Name: name, Attrs: a, Constant: []string{"Label"}, Loss: []string{"Loss"},
		Inputs: slots{"Logits": One(Floats(dims{2, 3}, 1, 1+ln2, 1, 0, 0, 2*ln2)), "Label": One(label)}}
	if want != nil {
		c.Want = slots{"Loss": One(Floats(dims{2, 1}, want...)),
			"Softmax": One(Floats(dims{2, 3}, 0.25, 0.5, 0.25, 1./6, 1./6, 2./3))}
	}
	return c
}

func TestLabelsOutsideOfTheClasses(t *testing.T) {
	for _, c := range []Case{
		crossEntropy("", nil, Ints(dims{2, 1}, 1, 3)),
		softmaxLoss("", nil, Ints(dims{2, 1}, 1, 3)),
	} {
		err := Golden(c)
		if fault.KindOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "label 3 in row 1") {
			t.Errorf("%v: %v", c, err)
		}
	}
}
