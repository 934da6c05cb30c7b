package sequence_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor/compilecheck"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/ops/gradcheck"
	_ "github.com/edl-go/edl/ops/sequence"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type (
	slots = map[string][]*tensor.Tensor
	attrs = map[string]program.Attr
	dims  = []int64
)

func allCases() []gradcheck.Case {
	return slices.Concat(pickCases(), padCases(), lstmCases(), lstmpCases(), poolCases, gruCases(), unitCases(), convCases(), softmaxCases, crfCases(), chunkCases(), distanceCases, ctcCases(), fusedCases(), pairingCases(), filterCases(), attentionCases())
}

func TestLaws(t *testing.T) { gradcheck.Laws(t, "sequence", allCases()) }

func TestCompiledOpsHaveTheBitsOfSingleOnes(t *testing.T) { compilecheck.Law(t, allCases()) }

// ragged makes rows of sequences of these lengths.
func ragged(seed int, width int64, lengths ...int64) *tensor.Tensor {
	rows := int64(0)
	for _, n := range lengths {
		rows += n
	}
	return gradcheck.Sequences(gradcheck.Spread(seed, rows, width), lengths...)
}

var lengths = []int64{2, 0, 4, 1, 2}

func lstmCases() []gradcheck.Case {
	const width = 3
	inputs := func(bias int64) slots {
		return slots{
			"Input":  gradcheck.One(ragged(1, 4*width, lengths...)),
			"Weight": gradcheck.One(gradcheck.Spread(2, width, 4*width)),
			"Bias":   gradcheck.One(gradcheck.Spread(3, 1, bias*width)),
		}
	}
	begun := func(in slots) slots {
		in["H0"] = gradcheck.One(gradcheck.Spread(4, int64(len(lengths)), width))
		in["C0"] = gradcheck.One(gradcheck.Spread(5, int64(len(lengths)), width))
		return in
	}
	return []gradcheck.Case{
		{Name: "peepholes", Type: "lstm", Inputs: inputs(7)},
		{Name: "no peepholes", Type: "lstm", Inputs: inputs(4), Attrs: attrs{"use_peepholes": false}},
		{Name: "reverse", Type: "lstm", Inputs: inputs(7), Attrs: attrs{"is_reverse": true}},
		{Name: "initial state", Type: "lstm", Inputs: begun(inputs(7))},
		{Name: "initial state, reverse", Type: "lstm", Inputs: begun(inputs(4)), Attrs: attrs{"use_peepholes": false, "is_reverse": true}},
		{Name: "other functions", Type: "lstm", Inputs: begun(inputs(7)),
			Attrs: attrs{"gate_activation": "tanh", "cell_activation": "identity", "candidate_activation": "sigmoid"}},
		{Name: "relu", Type: "lstm", Inputs: inputs(7), Attrs: attrs{"candidate_activation": "relu"}},
		{Name: "only Hidden", Type: "lstm", Inputs: inputs(7), Loss: []string{"Hidden"}},
		{Name: "only Cell", Type: "lstm", Inputs: inputs(7), Loss: []string{"Cell"}},
		{Name: "one row", Type: "lstm", Inputs: slots{
			"Input":  gradcheck.One(ragged(1, 4, 1)),
			"Weight": gradcheck.One(gradcheck.Spread(2, 1, 4)),
			"Bias":   gradcheck.One(gradcheck.Spread(3, 1, 7)),
		}},
		{Name: "no rows", Type: "lstm", Inputs: slots{
			"Input":  gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{0, 4}))),
			"Weight": gradcheck.One(gradcheck.Spread(2, 1, 4)),
			"Bias":   gradcheck.One(gradcheck.Spread(3, 1, 7)),
		}},
	}
}

func pool(kind string, want ...float64) gradcheck.Case {
	c := gradcheck.Case{Name: kind, Type: "sequence_pool", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(
		gradcheck.Floats(dims{6, 2}, 1, 8, 3, -2, 5, 0, 7, 7, -4, 9, -6, 4), 3, 0, 1, 2))}, Attrs: attrs{"pooltype": kind},
		Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 2}, want...))}}
	return c
}

// paddedPool is pool with a value for the sequence without rows.
func paddedPool(kind string, want ...float64) gradcheck.Case {
	c := pool(kind, want...)
	c.Name += " with pad_value"
	c.Attrs["pad_value"] = float32(2.5)
	return c
}

var poolCases = []gradcheck.Case{
	pool("SUM", 9, 6, 0, 0, 7, 7, -10, 13),
	pool("AVERAGE", 3, 2, 0, 0, 7, 7, -5, 6.5),
	pool("SQRT", 9/root3, 6/root3, 0, 0, 7, 7, -10/root2, 13/root2),
	pool("MAX", 5, 8, 0, 0, 7, 7, -4, 9),
	pool("LAST", 5, 0, 0, 0, 7, 7, -6, 4),
	pool("FIRST", 1, 8, 0, 0, 7, 7, -4, 9),
	paddedPool("SUM", 9, 6, 2.5, 2.5, 7, 7, -10, 13),
	paddedPool("MAX", 5, 8, 2.5, 2.5, 7, 7, -4, 9),
	{Name: "higher rank", Type: "sequence_pool", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Spread(3, 5, 2, 3), 2, 3))},
		Attrs: attrs{"pooltype": "MAX"}},
	{Name: "two levels", Type: "sequence_pool", Inputs: slots{"X": gradcheck.One(twoLevels())}, Attrs: attrs{"pooltype": "SUM"}},
}

const (
	root2 = 1.4142135623730951
	root3 = 1.7320508075688772
)

// twoLevels is a document of two paragraphs, of two and one sentences.
func twoLevels() *tensor.Tensor {
	t := gradcheck.Spread(2, 6, 2)
	t.SetLoD([][]int64{{0, 2, 3}, {0, 1, 4, 6}})
	return t
}

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "sequence", allCases())
}
