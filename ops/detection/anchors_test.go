package detection_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var (
	anchorsOf3 = Floats(dims{3, 4}, 0, 0, 9, 9, 0, 0, 9, 8, 20, 20, 29, 29)
	square40   = Floats(dims{1, 3}, 40, 40, 1)
	higher     = []float64{0, 0.5 / 9, 0, math.Log(10. / 9)} // the code of the first of these boxes relative to the second
)

func anchored(kind, name string, a attrs, wants map[string][]want, anchors, objects, info *tensor.Tensor, crowd ...int32) finding {
	rows := int64(len(crowd))
	c := finding{kind: kind, name: name, attrs: a, want: wants, inputs: slots{"Anchor": One(anchors), "GtBoxes": One(objects), "IsCrowd": One(Int32s(dims{rows, 1}, crowd...)), "ImInfo": One(info)},
		outputs: map[string]int{"LocationIndex": 1, "ScoreIndex": 1, "TargetBBox": 1, "TargetLabel": 1, "BBoxInsideWeight": 1}}
	if kind == "retinanet_target_assign" {
		c.inputs["GtLabels"], c.outputs["ForegroundNumber"] = One(Int32s(dims{rows, 1}, slices.Repeat([]int32{7}, len(crowd))...)), 1
	}
	return c
}

var learned = []finding{
	// The last anchor lies outside of the image, and the second object does not count.
	anchored("rpn_target_assign", "", attrs{"rpn_batch_size_per_im": int32(4), "rpn_fg_fraction": float32(0.5), "use_random": false, "rpn_positive_overlap": float32(0.95)},
		map[string][]want{"LocationIndex": {{[]float64{0}, nil}}, "ScoreIndex": {{[]float64{0, 2}, nil}}, "TargetBBox": {{make([]float64, 4), nil}}, "TargetLabel": {{[]float64{1, 0}, nil}},
			"BBoxInsideWeight": {{[]float64{1, 1, 1, 1}, nil}}},
		Floats(dims{4, 4}, 0, 0, 9, 9, 0, 0, 9, 8, 20, 20, 29, 29, -5, 0, 9, 9), of(Floats(dims{2, 4}, 0, 0, 9, 9, 20, 20, 29, 29), 0, 2), square40, 0, 1),
	// The best anchor of the object overlaps it so little that it is background: the index is there, with weight 0.
	anchored("rpn_target_assign", "little overlap", attrs{"rpn_batch_size_per_im": int32(4), "rpn_fg_fraction": float32(0.5), "use_random": false, "rpn_straddle_thresh": float32(-1)},
		map[string][]want{"LocationIndex": {{[]float64{2}, nil}}, "ScoreIndex": {{[]float64{0, 1, 2}, nil}}, "TargetLabel": {{[]float64{0, 0, 0}, nil}}, "BBoxInsideWeight": {{[]float64{0, 0, 0, 0}, nil}}},
		anchorsOf3, of(Floats(dims{1, 4}, 28, 28, 60, 60), 0, 1), square40, 0),
	anchored("retinanet_target_assign", "", nil, map[string][]want{"LocationIndex": {{[]float64{0, 1}, nil}}, "ScoreIndex": {{[]float64{0, 1, 2, 3, 4, 5}, nil}},
		"TargetBBox": {{append(make([]float64, 4), higher...), nil}}, "TargetLabel": {{[]float64{7, 7, 0, 0, 0, 0}, nil}}, "ForegroundNumber": {{[]float64{3, 1}, nil}}},
		anchorsOf3, of(Floats(dims{1, 4}, 0, 0, 4.5, 4.5), 0, 1, 1), Floats(dims{2, 3}, 40, 40, 2, 40, 40, 1), 0),
	labelled("", nil, map[string][]want{"Rois": {{[]float64{0, 0, 9, 9, 0, 0, 9, 8, 20, 20, 29, 29}, []int64{0, 3}}}, "LabelsInt32": {{[]float64{2, 2, 0}, []int64{0, 3}}},
		"BboxTargets":       {{slices.Concat(make([]float64, 12+8), []float64{0, higher[1] / 0.1, 0, higher[3] / 0.2}, make([]float64, 12)), []int64{0, 3}}},
		"BboxInsideWeights": {{slices.Concat(make([]float64, 8), four(1), make([]float64, 8), four(1), make([]float64, 12)), []int64{0, 3}}}, "MaxOverlapWithGT": {{[]float64{1, .9, 0}, []int64{0, 3}}}}),
	labelled("no class", attrs{"is_cls_agnostic": true, "batch_size_per_im": int32(2)}, map[string][]want{"LabelsInt32": {{[]float64{2, 0}, []int64{0, 2}}},
		"BboxInsideWeights": {{slices.Concat(four(0), four(1), make([]float64, 16)), []int64{0, 2}}}}),
	labelled("cascade", attrs{"is_cascade_rcnn": true, "batch_size_per_im": int32(1)}, map[string][]want{"LabelsInt32": {{[]float64{2, 2, 0}, []int64{0, 3}}}}),
}

func four(v float64) []float64 { return []float64{v, v, v, v} }

func labelled(name string, a attrs, wants map[string][]want) finding {
	all := attrs{"batch_size_per_im": int32(4), "fg_fraction": float32(0.5), "fg_thresh": float32(0.5), "class_nums": int32(3), "use_random": false}
	for k, v := range a {
		all[k] = v
	}
	return finding{kind: "generate_proposal_labels", name: name, attrs: all, want: wants, inputs: slots{"RpnRois": One(of(Floats(dims{2, 4}, 0, 0, 9, 8, 20, 20, 29, 29), 0, 2)),
		"GtClasses": One(Int32s(dims{1, 1}, 2)), "IsCrowd": One(Int32s(dims{1, 1}, 0)), "GtBoxes": One(of(Floats(dims{1, 4}, 0, 0, 9, 9), 0, 1)), "ImInfo": One(square40)},
		outputs: map[string]int{"Rois": 1, "LabelsInt32": 1, "BboxTargets": 1, "BboxInsideWeights": 1, "BboxOutsideWeights": 1, "MaxOverlapWithGT": 1}}
}

// TestChanceTakesAPart lets chance take 2 of 6 anchors on background in many steps: each of them is taken about as often as others, and a step takes the same again.
func TestChanceTakesAPart(t *testing.T) {
	boxes := make([]float64, 0, 24)
	for i := range 6 {
		boxes = append(boxes, float64(10*i), 0, float64(10*i+5), 5)
	}
	c := anchored("rpn_target_assign", "", attrs{"rpn_batch_size_per_im": int32(2)}, nil, Floats(dims{6, 4}, boxes...), of(Floats(dims{0, 4}), 0, 0), Floats(dims{1, 3}, 100, 100, 1))
	op, step, index := c.op(), &ops.Step{}, must(tensor.New(tensor.Int32, 0))
	def, _ := ops.Lookup(c.kind)
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{Step: step}, c.inputs, slots{"ScoreIndex": One(index)}, nil))
	if err != nil {
		t.Fatal(err)
	}
	taken := [6]int{}
	for round := range uint64(300) {
		step.Round = round
		var first []int32
		for range 2 {
			if err := kernel(t.Context()); err != nil {
				t.Fatal(err)
			}
			if first != nil && !slices.Equal(first, index.Int32s()) {
				t.Fatalf("round %d takes %v, and then %v", round, first, index.Int32s())
			}
			first = slices.Clone(index.Int32s())
		}
		if len(first) != 2 {
			t.Fatalf("took %v", first)
		}
		for _, i := range first {
			taken[i]++
		}
	}
	for i, n := range taken {
		if n < 60 || n > 140 {
			t.Errorf("took anchor %d in %d of 300 steps", i, n)
		}
	}
}

func must(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

func TestAnchorsThatDoNotFit(t *testing.T) {
	other := func(c finding, slot string, value *tensor.Tensor) finding {
		inputs := slots{}
		for name, v := range c.inputs {
			inputs[name] = v
		}
		inputs[slot] = One(value)
		c.inputs = inputs
		return c
	}
	for _, c := range []struct {
		finding
		want fault.Kind
	}{
		{other(learned[0], "IsCrowd", Int32s(dims{1, 1}, 0)), fault.ShapeMismatch},
		{other(learned[0], "GtBoxes", Floats(dims{2, 4}, make([]float64, 8)...)), fault.ShapeMismatch},
		{other(learned[0], "ImInfo", Floats(dims{1, 2}, 4, 4)), fault.ShapeMismatch},
		{other(learned[3], "GtClasses", Int32s(dims{1, 1}, 3)), fault.InvalidArgument},
		{other(learned[3], "RpnRois", of(Floats(dims{2, 4}, make([]float64, 8)...), 0, 1, 2)), fault.ShapeMismatch},
		{labelled("", attrs{"class_nums": int32(0)}, nil), fault.InvalidArgument},
		{labelled("", attrs{"bbox_reg_weights": []float32{1}}, nil), fault.InvalidArgument},
	} {
		if _, err := c.run(t); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}
