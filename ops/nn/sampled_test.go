package nn_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// treeCases score rows along paths of a tree of 5 classes, whose longest path has 3 nodes, and of a tree of their own.
func treeCases() []Case {
	x, w, bias := Spread(1, 4, 3), Spread(2, 4, 3), Spread(3, 4, 1)
	labels := []int64{0, 4, 2, 0}
	// Leaf c is node 5 + c: 5 is 101, so the path of class 0 is node 1 (left), node 2 (right). Nodes count from 0.
	paths := [][][2]int64{{{1, 0}, {0, 1}}, {}, {}, {{1, 0}, {0, 1}}}
	for i, class := range labels {
		paths[i] = nil
		for node := class + 5; node > 1; node /= 2 {
			paths[i] = append(paths[i], [2]int64{node/2 - 1, node % 2})
		}
	}
	want := make([]float64, 4)
	table, code := make([]int64, 12), make([]int64, 12)
	for i, path := range paths {
		want[i] = float64(3-len(path)) * ln2
		for j := range 3 {
			table[3*i+j] = -1
			if j < len(path) {
				node := int(path[j][0])
				s := bias.Float64s()[node]
				for c := range 3 {
					s += x.Float64s()[3*i+c] * w.Float64s()[3*node+c]
				}
				want[i] += soft(s) - s*float64(path[j][1])
				table[3*i+j], code[3*i+j] = int64(node), path[j][1]
			}
		}
	}
	inputs := func(more slots) slots {
		all := slots{"X": One(x), "W": One(w), "Label": One(Ints(dims{4, 1}, labels...)), "Bias": One(bias)}
		for slot, v := range more {
			all[slot] = v
		}
		return all
	}
	custom := slots{"PathTable": One(Ints(dims{4, 3}, table...)), "PathCode": One(Ints(dims{4, 3}, code...))}
	without := inputs(nil)
	delete(without, "Bias")
	return []Case{
		{Name: "by hand", Type: "hierarchical_sigmoid", Attrs: attrs{"num_classes": int32(5)}, Inputs: inputs(nil), Want: slots{"Out": column(want...)}},
		{Name: "without bias", Type: "hierarchical_sigmoid", Attrs: attrs{"num_classes": int32(5)}, Inputs: without},
		{Name: "paths given", Type: "hierarchical_sigmoid", Attrs: attrs{"num_classes": int32(5)}, Inputs: inputs(custom), Want: slots{"Out": column(want...)}},
		{Name: "sparse", Type: "hierarchical_sigmoid", Attrs: attrs{"num_classes": int32(5), "is_sparse": true}, Inputs: inputs(custom), Want: slots{"Out": column(want...)}},
	}
}

// nceCases meet rows with classes that are drawn, and with given ones.
func nceCases() []Case {
	inputs := func(more slots) slots {
		all := slots{"Input": One(Spread(1, 3, 4)), "Weight": One(Spread(2, 6, 4)), "Bias": One(Spread(3, 6, 1)), "Label": One(Ints(dims{3, 2}, 0, 1, 5, 5, 2, 4))}
		for slot, v := range more {
			all[slot] = v
		}
		return all
	}
	weight := slots{"SampleWeight": One(Floats(dims{3, 1}, 1, 0, 2.5))}
	probs, err := tensor.FromSlice([]float32{0.5, 0.1, 0.1, 0.1, 0.1, 0.1}, 6)
	stays, err2 := tensor.FromSlice([]float32{1, 0.6, 0.6, 0.6, 0.6, 0.6}, 6)
	if err != nil || err2 != nil {
		panic("tensors by hand")
	}
	listed := slots{"CustomDistProbs": One(probs), "CustomDistAlias": One(Int32s(dims{6}, -1, 0, 0, 0, 0, 0)), "CustomDistAliasProbs": One(stays)}
	// One row [1], weights [c/4], samples 2 and 3 of 4 classes: b is 2/4.
	o := func(c float64) float64 { return 1 / (1 + math.Exp(-c/4)) }
	b := 0.5
	byHand := -math.Log(o(1)/(o(1)+b)) - math.Log(b/(o(2)+b)) - math.Log(b/(o(3)+b))
	constant := []string{"SampleWeight", "CustomDistProbs", "CustomDistAliasProbs"}
	return []Case{
		{Name: "by hand", Type: "nce", Attrs: attrs{"num_total_classes": int32(4), "num_neg_samples": int32(2), "custom_neg_classes": []int32{2, 3}},
			Inputs: slots{"Input": One(Floats(dims{1, 1}, 1)), "Label": One(Ints(dims{1, 1}, 1)), "Weight": One(Floats(dims{4, 1}, 0, 0.25, 0.5, 0.75))},
			Want:   slots{"Cost": column(byHand), "SampleLabels": One(Ints(dims{1, 3}, 1, 2, 3)), "SampleLogits": One(Floats(dims{1, 3}, o(1), o(2), o(3)))}},
		{Name: "all alike", Type: "nce", Attrs: attrs{"num_total_classes": int32(6), "num_neg_samples": int32(3), "seed": int32(7)}, Inputs: inputs(nil)},
		{Name: "log-uniform", Type: "nce", Attrs: attrs{"num_total_classes": int32(6), "num_neg_samples": int32(3), "sampler": int32(1)}, Inputs: inputs(weight), Constant: constant},
		{Name: "listed", Type: "nce", Attrs: attrs{"num_total_classes": int32(6), "num_neg_samples": int32(2), "sampler": int32(2)}, Inputs: inputs(listed), Constant: constant},
		{Name: "sparse", Type: "nce", Attrs: attrs{"num_total_classes": int32(6), "num_neg_samples": int32(3), "is_sparse": true}, Inputs: inputs(nil)},
	}
}

var sampledCases = []Case{
	{Name: "given", Type: "sample_logits", Attrs: attrs{"num_samples": int32(2), "use_customized_samples": true}, Constant: []string{"CustomizedProbabilities"},
		Inputs: slots{"Logits": One(Floats(dims{2, 4}, 1, 2, 3, 4, 5, 6, 7, 8)), "Labels": One(Ints(dims{2, 1}, 1, 3)),
			"CustomizedSamples": One(Ints(dims{2, 3}, 1, 2, 0, 3, 2, 0)), "CustomizedProbabilities": One(Floats(dims{2, 3}, 0.5, 1, 0.25, 0.5, 1, 0.25))},
		Want: slots{"SampledLogits": One(Floats(dims{2, 3}, 2+ln2, 3, 1+2*ln2, 8+ln2, 7, 5+2*ln2)), "SampledLabels": One(Ints(dims{2, 1}, 0, 0)),
			"Samples": One(Ints(dims{2, 3}, 1, 2, 0, 3, 2, 0))}},
	{Name: "all classes", Type: "sample_logits", Attrs: attrs{"num_samples": int32(4), "remove_accidental_hits": false},
		Inputs: slots{"Logits": One(Spread(1, 3, 4)), "Labels": One(Ints(dims{3, 2}, 1, 0, 3, 3, 2, 0))}},
	{Name: "drawn", Type: "sample_logits", Attrs: attrs{"num_samples": int32(3), "remove_accidental_hits": false, "seed": int32(5)},
		Inputs: slots{"Logits": One(Spread(1, 2, 9)), "Labels": One(Ints(dims{2, 1}, 8, 0))}},
	{Name: "certain", Type: "sampling_id", Inputs: slots{"X": One(Floats(dims{3, 2}, 1, 0, 0, 1, 0, 0))}, Want: slots{"Out": One(Ints(dims{3}, 0, 1, 1))}},
	{Name: "at an end", Type: "sampling_id", Attrs: attrs{"min": float32(0.5), "max": float32(0.5)},
		Inputs: slots{"X": One(Floats(dims{3, 3}, 0.25, 0.25, 0.5, 0.6, 0.2, 0.2, 0.1, 0.2, 0.3))}, Want: slots{"Out": One(Ints(dims{3}, 2, 0, 2))}},
	{Name: "one number", Type: "randint", Attrs: attrs{"shape": []int64{2, 2}, "low": int32(-3), "high": int32(-2)}, Want: slots{"Out": One(Ints(dims{2, 2}, -3, -3, -3, -3))}},
	{Name: "int32", Type: "randint", Attrs: attrs{"shape": []int64{3}, "high": int32(9), "dtype": int32(tensor.Int32)}},
	{Name: "one", Type: "randperm", Attrs: attrs{"n": int32(1)}, Want: slots{"Out": One(Ints(dims{1}, 0))}},
	{Name: "many", Type: "randperm", Attrs: attrs{"n": int32(9), "seed": int32(3)}},
	{Name: "certain", Type: "bernoulli", Inputs: slots{"X": One(Floats(dims{2, 2}, 0, 1, 1, 0))}, Want: slots{"Out": One(Floats(dims{2, 2}, 0, 1, 1, 0))}},
	{Name: "open", Type: "bernoulli", NoFloat32: true, Inputs: slots{"X": One(Floats(dims{4, 1}, 0.5, 0.1, 0.9, 0.5))}},
	{Name: "moving", Type: "center_loss", Attrs: attrs{"cluster_num": int32(3), "need_update": true}, Constant: []string{"Centers", "CenterUpdateRate"},
		Inputs: slots{"X": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6)), "Label": One(Ints(dims{3, 1}, 2, 0, 2)),
			"Centers": One(Floats(dims{3, 2}, 1, 1, 7, 7, 2, 0)), "CenterUpdateRate": One(Floats(dims{1}, 0.5))},
		Want: slots{"Loss": column(2.5, 6.5, 22.5), "SampleCenterDiff": One(Floats(dims{3, 2}, -1, 2, 2, 3, 3, 6)),
			"CentersOut": One(Floats(dims{3, 2}, 1.5, 1.75, 7, 7, 2+1./3, 8./6))}, Loss: []string{"Loss"}},
	{Name: "resting", Type: "center_loss", Attrs: attrs{"cluster_num": int32(2), "need_update": false}, Constant: []string{"Centers", "CenterUpdateRate"},
		Inputs: slots{"X": One(Spread(1, 2, 3)), "Label": One(Ints(dims{2, 1}, 1, 1)), "Centers": One(Spread(2, 2, 3)), "CenterUpdateRate": One(Floats(dims{1}, 0.5))},
		Want:   slots{"CentersOut": One(Spread(2, 2, 3))}, Loss: []string{"Loss"}},
	{Name: "by hand", Type: "precision_recall", Attrs: attrs{"class_number": int32(3)},
		Inputs: slots{"MaxProbs": column(1, 1, 1, 1), "Indices": One(Int32s(dims{4, 1}, 0, 1, 1, 0)), "Labels": One(Int32s(dims{4, 1}, 0, 0, 1, 1)),
			"Weights": column(1, 2, 1, 1), "StatesInfo": One(Floats(dims{3, 4}, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0))},
		Want: slots{ // class 0: TP 1, FP 1, FN 2; class 1: TP 1, FP 2, FN 1; class 2 not at all
			"BatchMetrics": One(Floats(dims{6}, (1./2+1./3+1)/3, (1./3+1./2+1)/3, (1./2+1./3+1)/3, 2./5, 2./5, 2./5)),
			"AccumMetrics": One(Floats(dims{6}, (2./3+1./3+0)/3, (2./4+1./2+1)/3, 2*(1./3)*(2./3)/(1./3+2./3), 3./7, 3./6, 2*(3./7)*(3./6)/(3./7+3./6))),
			// true negatives are what is left of the weight of 5
			"AccumStatesInfo": One(Floats(dims{3, 4}, 2, 1, 1, 2, 1, 2, 2, 1, 0, 1, 5, 0))}},
	{Name: "by hand", Type: "precision_recall_of_counts", Attrs: attrs{"class_number": int32(3)}, NoFloat32: true,
		Inputs: slots{"StatesInfo": One(Floats(dims{3, 4}, 2, 1, 1, 2, 1, 2, 2, 1, 0, 1, 5, 0))},
		Want:   slots{"AccumMetrics": One(Floats(dims{6}, (2./3+1./3+0)/3, (2./4+1./2+1)/3, 2*(1./3)*(2./3)/(1./3+2./3), 3./7, 3./6, 2*(3./7)*(3./6)/(3./7+3./6)))}},
}

func TestSampledLossesOfWhatDoesNotFit(t *testing.T) {
	x, w := One(Spread(1, 2, 3)), One(Spread(2, 4, 3))
	label := func(ids ...int64) []*tensor.Tensor { return One(Ints(dims{2, 1}, ids...)) }
	five := attrs{"num_classes": int32(5)}
	for _, c := range []struct {
		Case
		kind fault.Kind
		want string
	}{
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 5)}, Attrs: five}, fault.InvalidArgument, "id 5 in row 1"},
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 1)}, Attrs: attrs{"num_classes": int32(6)}}, fault.ShapeMismatch, "5 rows"},
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 1)}, Attrs: attrs{"num_classes": int32(1)}}, fault.InvalidArgument, "num_classes"},
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 1), "PathTable": label(0, 4), "PathCode": label(0, 1)}, Attrs: five},
			fault.InvalidArgument, "row 4 of W in row 1"},
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 1), "PathTable": label(0, 4)}, Attrs: five}, fault.ShapeMismatch, "PathCode"},
		{Case{Type: "hierarchical_sigmoid", Inputs: slots{"X": x, "W": w, "Label": label(0, 1), "Bias": One(Spread(1, 3, 1))}, Attrs: five}, fault.ShapeMismatch, "Bias"},
		{Case{Type: "nce", Inputs: slots{"Input": x, "Weight": w, "Label": label(0, 4)}, Attrs: attrs{"num_total_classes": int32(4)}}, fault.InvalidArgument, "id 4 in row 1"},
		{Case{Type: "nce", Inputs: slots{"Input": x, "Weight": w, "Label": label(0, 1)}, Attrs: attrs{"num_total_classes": int32(5)}}, fault.InvalidArgument, "num_total_classes"},
		{Case{Type: "nce", Inputs: slots{"Input": x, "Weight": w, "Label": label(0, 1)}, Attrs: attrs{"num_total_classes": int32(4), "num_neg_samples": int32(math.MaxInt32)}},
			fault.InvalidArgument, "num_neg_samples"},
		{Case{Type: "nce", Inputs: slots{"Input": x, "Weight": w, "Label": label(0, 1)}, Attrs: attrs{"num_total_classes": int32(4), "sampler": int32(2)}}, fault.InvalidArgument, "sampler 2"},
		{Case{Type: "nce", Inputs: slots{"Input": x, "Weight": w, "Label": label(0, 1)}, Attrs: attrs{"num_total_classes": int32(4), "num_neg_samples": int32(1), "custom_neg_classes": []int32{4}}},
			fault.InvalidArgument, "custom_neg_classes"},
		{Case{Type: "sample_logits", Inputs: slots{"Logits": x, "Labels": label(0, 1)}, Attrs: attrs{"num_samples": int32(4)}}, fault.InvalidArgument, "num_samples"},
		{Case{Type: "sample_logits", Inputs: slots{"Logits": x, "Labels": label(0, 3)}, Attrs: attrs{"num_samples": int32(1)}}, fault.InvalidArgument, "id 3"},
		{Case{Type: "sample_logits", Inputs: slots{"Logits": x, "Labels": label(0, 1)}, Attrs: attrs{"num_samples": int32(1), "uniq": false}}, fault.Unsupported, "uniq"},
		{Case{Type: "precision_recall", Inputs: slots{"MaxProbs": column(1), "Indices": One(Int32s(dims{1, 1}, 2)), "Labels": One(Int32s(dims{1, 1}, 0))},
			Attrs: attrs{"class_number": int32(2)}}, fault.InvalidArgument, "class 2 in row 0"},
		{Case{Type: "center_loss", Inputs: slots{"X": x, "Label": label(0, 4), "Centers": w, "CenterUpdateRate": One(Floats(dims{1}, 1))},
			Attrs: attrs{"cluster_num": int32(4), "need_update": true}}, fault.InvalidArgument, "id 4 in row 1"},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", c.Case, err, c.kind, c.want)
		}
	}
}

// TestDrawnNumbers counts: every number of randint occurs about as often, randperm is an order, new in each step, and bernoulli keeps its probability.
func TestDrawnNumbers(t *testing.T) {
	run := func(round uint64, opType string, a attrs, in slots) *tensor.Tensor {
		t.Helper()
		op := &program.Op{Type: opType, Attrs: a, Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {"out"}}}
		vars := map[string]*tensor.Tensor{}
		for name, values := range in {
			op.Inputs[name], vars[name] = []string{name}, values[0]
		}
		m := NewInterpreter(vars, ops.Step{Round: round})
		if err := m.Run(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		return m.Vars["out"]
	}
	counts := make([]int, 5)
	for _, v := range run(1, "randint", attrs{"shape": []int64{5000}, "low": int32(2), "high": int32(7)}, slots{}).Int64s() {
		counts[v-2]++
	}
	for v, n := range counts {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 5000 numbers are %d", n, v+2)
		}
	}
	first, second := run(1, "randperm", attrs{"n": int32(50)}, slots{}).Int64s(), run(2, "randperm", attrs{"n": int32(50)}, slots{}).Int64s()
	if slices.Equal(first, second) {
		t.Error("two steps have the same order")
	}
	slices.Sort(first)
	for i, v := range first {
		if v != int64(i) {
			t.Fatalf("no order of 50 numbers: %v", first)
		}
	}
	p := Floats(dims{2000}, slices.Repeat([]float64{0.25}, 2000)...)
	if ones := total(run(3, "bernoulli", nil, slots{"X": One(p)}).Float64s()); ones < 400 || ones > 600 {
		t.Errorf("%v of 2000 elements are 1, with the probability 1/4", ones)
	}
}

// total adds numbers up.
func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}
