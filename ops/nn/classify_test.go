package nn_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func accuracy(name string, indices, label *tensor.Tensor, share float64, correct, total int32) Case {
	values := Floats(indices.Dims(), make([]float64, indices.Len())...)
	return Case{Type: "accuracy", Name: name, Inputs: slots{"Out": One(values), "Indices": One(indices), "Label": One(label)},
		Want: slots{"Accuracy": One(Floats(dims{1}, share)), "Correct": One(Int32s(dims{1}, correct)), "Total": One(Int32s(dims{1}, total))}}
}

func auc(name string, predict, label *tensor.Tensor, area float64) Case {
	return Case{Type: "auc", Name: name, Constant: []string{"Predict"}, Outputs: map[string]int{"StatPosOut": 0, "StatNegOut": 0},
		Inputs: slots{"Predict": One(predict), "Label": One(label)}, Want: slots{"AUC": One(Floats(dims{1}, area))}}
}

const rateEpsilon = 1e-6 // what auc_at_thresholds adds to counts

var classifyCases = []Case{
	{Type: "sigmoid_cross_entropy_with_logits", Constant: []string{"Label"},
		Inputs: slots{"X": One(Floats(dims{2, 3}, 0, 1, -1, 800, -800, 3)), "Label": One(Floats(dims{2, 3}, 1, 0, 0.25, 1, 0, -100))},
		Want:   slots{"Out": One(Floats(dims{2, 3}, math.Ln2, 1+math.Log1p(math.Exp(-1)), 0.25+math.Log1p(math.Exp(-1)), 0, 0, 0))}},
	{Type: "log_loss", Constant: []string{"Labels"}, Attrs: attrs{"epsilon": float32(0)},
		Want:   slots{"Loss": One(Floats(dims{3, 1}, ln2, 2*ln2, -math.Log(0.75)))},
		Inputs: slots{"Predicted": One(Floats(dims{3, 1}, 0.5, 0.25, 0.25)), "Labels": One(Floats(dims{3, 1}, 1, 1, 0))}},
	{Type: "top_k", Attrs: attrs{"k": int32(2)}, Inputs: slots{"X": One(Floats(dims{2, 3}, 1, 3, 2, 5, 4, 5))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 3, 2, 5, 5)), "Indices": One(Ints(dims{2, 2}, 1, 2, 0, 2))}},
	{Type: "top_k", Name: "int64", Inputs: slots{"X": One(Ints(dims{3}, 1, 3, 2))},
		Want: slots{"Out": One(Ints(dims{1}, 3)), "Indices": One(Ints(dims{1}, 1))}},
	accuracy("", Ints(dims{4, 2}, 0, 1, 2, 0, 1, 2, 2, 1), Ints(dims{4, 1}, 1, 1, 1, 2), 0.75, 3, 4),
	accuracy("no rows", Ints(dims{0, 2}), Ints(dims{0, 1}), 0, 0, 0),
	auc("", Floats(dims{4, 1}, 0.9, 0.8, 0.3, 0.1), Ints(dims{4, 1}, 1, 0, 1, 0), 0.75),
	auc("probabilities of both", Floats(dims{2, 2}, 0.9, 0.1, 0.2, 0.8), Ints(dims{2, 1}, 0, 1), 1),
	auc("in one bin", Floats(dims{2, 1}, 0.5, 0.50001), Ints(dims{2, 1}, 0, 1), 0.5),
	auc("labels without columns", Floats(dims{2, 1}, 0.2, 0.8), Ints(dims{2}, 0, 1), 1),
	auc("one label", Floats(dims{2, 1}, 0.2, 0.8), Ints(dims{2, 1}, 1, 1), 0),
	auc("labels above 1", Floats(dims{3, 1}, 0.2, 0.8, 0.9), Ints(dims{3, 1}, 0, 2, 5), 1),
	auc("no rows", Floats(dims{0, 1}), Ints(dims{0, 1}), 0),
	{Type: "auc", Name: "all steps", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(0)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{3, 1}, 0.2, 0.7, 1)), "Label": One(Ints(dims{3, 1}, 0, 1, 1)),
			"StatPos": One(Ints(dims{3}, 1, 0, 0)), "StatNeg": One(Ints(dims{3}, 0, 0, 1))},
		Want: slots{"StatPosOut": One(Ints(dims{3}, 1, 1, 1)), "StatNegOut": One(Ints(dims{3}, 1, 0, 1)), "AUC": One(Floats(dims{1}, 0.5))}},
	{Type: "auc", Name: "counts in a row", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(0)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{3, 1}, 0.2, 0.7, 1)), "Label": One(Ints(dims{3, 1}, 0, 1, 1)),
			"StatPos": One(Ints(dims{1, 3}, 1, 0, 0)), "StatNeg": One(Ints(dims{1, 3}, 0, 0, 1))},
		Want: slots{"StatPosOut": One(Ints(dims{1, 3}, 1, 1, 1)), "StatNegOut": One(Ints(dims{1, 3}, 1, 0, 1)), "AUC": One(Floats(dims{1}, 0.5))}},
	{Type: "auc", Name: "one number more", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(0)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{3, 1}, 0.2, 0.7, 1)), "Label": One(Ints(dims{3, 1}, 0, 1, 1)),
			"StatPos": One(Ints(dims{4}, 1, 0, 0, 7)), "StatNeg": One(Ints(dims{4}, 0, 0, 1, 7))},
		Want: slots{"StatPosOut": One(Ints(dims{4}, 1, 1, 1, 7)), "StatNegOut": One(Ints(dims{4}, 1, 0, 1, 7)), "AUC": One(Floats(dims{1}, 0.5))}},
	// the counts of two steps, their sum, and three steps so far: this one takes the place of the second
	{Type: "auc", Name: "the last two steps", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(2)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{3, 1}, 0.2, 0.7, 1)), "Label": One(Ints(dims{3, 1}, 0, 1, 1)),
			"StatPos": One(Ints(dims{10}, 1, 0, 0, 5, 5, 5, 6, 5, 5, 3)), "StatNeg": One(Ints(dims{10}, 0, 0, 1, 4, 4, 4, 4, 4, 5, 3))},
		Want: slots{"StatPosOut": One(Ints(dims{10}, 1, 0, 0, 0, 1, 1, 1, 1, 1, 4)), "StatNegOut": One(Ints(dims{10}, 0, 0, 1, 1, 0, 0, 1, 0, 1, 4)), "AUC": One(Floats(dims{1}, 0.5))}},
	{Type: "auc", Name: "the last two steps in rows", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(2)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{3, 1}, 0.2, 0.7, 1)), "Label": One(Ints(dims{3, 1}, 0, 1, 1)),
			"StatPos": One(Ints(dims{2, 3}, 5, 5, 5, 1, 0, 0)), "StatNeg": One(Ints(dims{2, 3}, 4, 4, 4, 0, 0, 1))},
		Want: slots{"StatPosOut": One(Ints(dims{2, 3}, 1, 0, 0, 0, 1, 1)), "StatNegOut": One(Ints(dims{2, 3}, 0, 0, 1, 1, 0, 0)), "AUC": One(Floats(dims{1}, 0.5))}},
	{Type: "auc_of_counts", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(2)},
		Inputs: slots{"StatPos": One(Ints(dims{10}, 1, 0, 0, 0, 1, 1, 1, 1, 1, 4)), "StatNeg": One(Ints(dims{10}, 0, 0, 1, 1, 0, 0, 1, 0, 1, 4))},
		Want:   slots{"AUC": One(Floats(dims{1}, 0.5))}},
	{Type: "auc_of_counts", Name: "all steps", Attrs: attrs{"num_thresholds": int32(2), "slide_steps": int32(0)},
		Inputs: slots{"StatPos": One(Ints(dims{3}, 0, 0, 2)), "StatNeg": One(Ints(dims{3}, 2, 2, 0))}, Want: slots{"AUC": One(Floats(dims{1}, 1))}},
	{Type: "auc_at_thresholds", Attrs: attrs{"num_thresholds": int32(3)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{4, 2}, 0.1, 0.9, 0.5, 0.5, 0.7, 0.3, 0, 1)), "Label": One(Ints(dims{4, 1}, 1, 0, 1, 0)),
			"TP": One(Ints(dims{3}, 0, 1, 0)), "FP": One(Ints(dims{3}, 0, 0, 0)), "TN": One(Ints(dims{3}, 1, 1, 1)), "FN": One(Ints(dims{3}, 1, 0, 1))},
		Want: slots{"TPOut": One(Ints(dims{3}, 2, 2, 0)), "FPOut": One(Ints(dims{3}, 2, 2, 0)), "TNOut": One(Ints(dims{3}, 1, 1, 3)), "FNOut": One(Ints(dims{3}, 1, 1, 3)),
			"AUC": One(Floats(dims{1}, 2*(1+rateEpsilon)/(3+rateEpsilon)/(3+rateEpsilon)))}},
	{Type: "auc_at_thresholds", Name: "the largest score", Attrs: attrs{"num_thresholds": int32(3), "column": int32(0)}, Constant: []string{"Predict"},
		Inputs: slots{"Predict": One(Floats(dims{2, 2}, 0.9, 0.1, 0.3, 0.7)), "Label": One(Ints(dims{2}, 3, 0))},
		Want: slots{"TPOut": One(Ints(dims{3}, 1, 1, 0)), "FPOut": One(Ints(dims{3}, 1, 0, 0)), "TNOut": One(Ints(dims{3}, 0, 1, 1)), "FNOut": One(Ints(dims{3}, 0, 0, 1)),
			"AUC": One(Floats(dims{1}, 1/(1+rateEpsilon)))}},
	{Type: "auc_of_rates", Attrs: attrs{"num_thresholds": int32(3), "curve": "PR"},
		Inputs: slots{"TP": One(Ints(dims{3}, 2, 1, 0)), "FP": One(Ints(dims{3}, 2, 1, 0)), "TN": One(Ints(dims{3}, 0, 1, 2)), "FN": One(Ints(dims{3}, 0, 1, 2))},
		Want:   slots{"AUC": One(Floats(dims{1}, ((2+rateEpsilon)/(4+rateEpsilon)+2*(1+rateEpsilon)/(2+rateEpsilon)+1)/2/(2+rateEpsilon)))}},
	{Type: "one_hot", Attrs: attrs{"depth": int32(3)}, Inputs: slots{"X": One(Ints(dims{2, 1}, 2, 0))},
		Want: slots{"Out": One(single(dims{2, 3}, 0, 0, 1, 1, 0, 0))}},
	{Type: "one_hot", Name: "int64", Attrs: attrs{"depth": int64(2), "dtype": int32(tensor.Int64)}, Inputs: slots{"X": One(Ints(dims{1, 1}, 1))},
		Want: slots{"Out": One(Ints(dims{1, 2}, 0, 1))}},
	{Type: "one_hot", Name: "out of range", Attrs: attrs{"depth": int32(2), "allow_out_of_range": true}, Inputs: slots{"X": One(Int32s(dims{2, 1}, 1, 2))},
		Want: slots{"Out": One(single(dims{2, 2}, 0, 1, 0, 0))}},
	{Type: "one_hot_v2", Name: "depth", Attrs: attrs{"depth": int32(2)}, Inputs: slots{"X": One(Ints(dims{3}, 1, 0, 1))},
		Want: slots{"Out": One(single(dims{3, 2}, 0, 1, 1, 0, 0, 1))}},
	{Type: "one_hot_v2", Attrs: attrs{"dtype": int32(tensor.Int64)}, Inputs: slots{"X": One(Ints(dims{2, 1}, 1, 0)), "depth_tensor": One(Int32s(dims{1}, 2))},
		Want: slots{"Out": One(Ints(dims{2, 1, 2}, 0, 1, 1, 0))}},
	{Type: "label_smooth", Attrs: attrs{"epsilon": float32(0.5)}, Inputs: slots{"X": One(Floats(dims{2, 2}, 0, 1, 1, 0))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 0.25, 0.75, 0.75, 0.25))}},
	{Type: "label_smooth", Name: "prior", Attrs: attrs{"epsilon": float32(0.5)}, Constant: []string{"PriorDist"},
		Inputs: slots{"X": One(Floats(dims{2, 2}, 0, 1, 1, 0)), "PriorDist": One(Floats(dims{1, 2}, 0.25, 0.75))},
		Want:   slots{"Out": One(Floats(dims{2, 2}, 0.125, 0.875, 0.625, 0.375))}},
}

func single(d dims, values ...float32) *tensor.Tensor {
	t, err := tensor.FromSlice(values, d...)
	if err != nil {
		panic(err)
	}
	return t
}

func TestClassesOutsideOfTheDepth(t *testing.T) {
	err := Golden(Case{Type: "one_hot", Attrs: attrs{"depth": int32(3)}, Inputs: slots{"X": One(Ints(dims{2, 1}, 2, 3))}})
	if fault.KindOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "class 3 in row 1") {
		t.Errorf("class 3 of 3: %v", err)
	}
}

func TestTopKOfMoreThanThereAre(t *testing.T) {
	for _, k := range []int32{0, 4, -1} {
		err := Golden(Case{Type: "top_k", Attrs: attrs{"k": k}, Inputs: slots{"X": One(Ints(dims{3}, 1, 3, 2))}})
		if fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("k = %d of 3: %v", k, err)
		}
	}
}

func TestAUCOfWhatIsNoProbability(t *testing.T) {
	for want, c := range map[string]Case{
		"1.5 in row 1":      auc("", Floats(dims{2, 1}, 0.5, 1.5), Ints(dims{2, 1}, 0, 1), 0),
		"NaN in row 0":      auc("", Floats(dims{1, 1}, math.NaN()), Ints(dims{1, 1}, 1), 0),
		"label -1 in row 1": auc("", Floats(dims{2, 1}, 0.5, 0.5), Ints(dims{2, 1}, 0, -1), 0),
	} {
		if err := Golden(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
