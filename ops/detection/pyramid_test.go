package detection_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A finding is an op whose outputs have as many rows as it finds.
type finding struct {
	kind    string
	name    string
	inputs  slots
	outputs map[string]int // number of variables of each slot
	attrs   attrs
	want    map[string][]want
}

// A want is an output: its numbers, and its offsets if it has some.
type want struct {
	values  []float64
	offsets []int64
}

func (c finding) op() *program.Op {
	op := &program.Op{Type: c.kind, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: c.attrs}
	for slot, values := range c.inputs {
		for i := range values {
			op.Inputs[slot] = append(op.Inputs[slot], slot+string(rune('0'+i)))
		}
	}
	for slot, n := range c.outputs {
		for i := range n {
			op.Outputs[slot] = append(op.Outputs[slot], slot+string(rune('0'+i)))
		}
	}
	return op
}

// infer infers the op for the dims of its inputs.
func (c finding) infer() error {
	_, err := ops.Infer(c.op(), func(name string) (ops.Meta, bool) {
		return ops.MetaOfValue(c.inputs[name[:len(name)-1]][name[len(name)-1]-'0']), true
	})
	return err
}

// run returns the outputs. It runs the kernel twice, and the second run allocates nothing.
func (c finding) run(t *testing.T) (slots, error) {
	t.Helper()
	if err := c.infer(); err != nil {
		return nil, err
	}
	op := c.op()
	def, _ := ops.Lookup(c.kind)
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
		return ops.MetaOfValue(c.inputs[name[:len(name)-1]][name[len(name)-1]-'0']), true
	})
	if err != nil {
		return nil, err
	}
	made := slots{}
	for slot := range op.Outputs {
		for _, m := range shapes.Outs(slot) {
			value, err := tensor.New(m.DType, 0)
			if err != nil {
				t.Fatal(err)
			}
			made[slot] = append(made[slot], value)
		}
	}
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, c.inputs, made, nil))
	if err != nil {
		return nil, err
	}
	if err := kernel(t.Context()); err != nil {
		return nil, err
	}
	if n := testing.AllocsPerRun(3, func() { err = kernel(t.Context()) }); n != 0 || err != nil {
		t.Errorf("%s: %v allocations a run, %v", c.kind, n, err)
	}
	return made, nil
}

func numbersOf(t *tensor.Tensor) (out []float64) {
	for i := range t.Len() {
		if t.DType() == tensor.Int32 {
			out = append(out, float64(t.Int32s()[i]))
		} else {
			out = append(out, t.Float64s()[i])
		}
	}
	return out
}

var (
	three    = Floats(dims{1, 3, 1, 4}, 0, 0, 9, 9, 0, 0, 9, 8, 20, 20, 29, 29)
	onesOf3  = Floats(dims{1, 3, 1, 4}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
	noDeltas = Floats(dims{1, 4, 1, 3}, make([]float64, 12)...)
	shared   = Floats(dims{1, 3, 4}, 0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8)
	levels   = attrs{"min_level": int32(2), "max_level": int32(4), "refer_level": int32(3), "refer_scale": int32(10)}
	anyBox   = attrs{"score_threshold": float32(0.1), "nms_top_k": int32(-1), "keep_top_k": int32(-1), "background_label": int32(-1), "nms_threshold": float32(0.5)}
)

func proposalsOf(name, kind, slot string, image *tensor.Tensor, a attrs, wants map[string][]want) finding {
	return finding{kind: kind, name: name, inputs: slots{"Scores": One(Floats(dims{1, 1, 1, 3}, .9, .8, .7)), "BboxDeltas": One(noDeltas), slot: One(image), "Anchors": One(three), "Variances": One(onesOf3)},
		outputs: map[string]int{"RpnRois": 1, "RpnRoiProbs": 1, "RpnRoisNum": 1}, attrs: a, want: wants}
}

var findings = []finding{
	proposalsOf("", "generate_proposals", "ImInfo", Floats(dims{1, 3}, 40, 40, 1), nil, map[string][]want{"RpnRois": {{[]float64{0, 0, 9, 9, 20, 20, 29, 29}, []int64{0, 2}}},
		"RpnRoiProbs": {{[]float64{.9, .7}, []int64{0, 2}}}, "RpnRoisNum": {{[]float64{2}, nil}}}),
	proposalsOf("too small", "generate_proposals", "ImInfo", Floats(dims{1, 3}, 40, 40, 1), attrs{"min_size": float32(20)}, map[string][]want{"RpnRois": {{[]float64{0, 0, 0, 0}, []int64{0, 1}}}}),
	proposalsOf("the best", "generate_proposals", "ImInfo", Floats(dims{1, 3}, 40, 25, 2), attrs{"post_nms_topN": int32(1), "nms_thresh": float32(0.95)},
		map[string][]want{"RpnRois": {{[]float64{0, 0, 9, 9}, []int64{0, 1}}}}),
	proposalsOf("clipped", "generate_proposals_v2", "ImShape", Floats(dims{1, 2}, 40, 25), attrs{"pixel_offset": false, "pre_nms_topN": int32(3)},
		map[string][]want{"RpnRois": {{[]float64{0, 0, 9, 9, 20, 20, 25, 29}, []int64{0, 2}}}, "RpnRoisNum": {{[]float64{2}, nil}}}),
	{kind: "distribute_fpn_proposals", inputs: slots{"FpnRois": One(of(Floats(dims{3, 4}, 0, 0, 39, 39, 0, 0, 9, 9, 0, 0, 19, 19), 0, 2, 3))}, attrs: levels,
		outputs: map[string]int{"MultiFpnRois": 3, "RestoreIndex": 1, "MultiLevelRoIsNum": 3},
		want: map[string][]want{"MultiFpnRois": {{nil, []int64{0, 0, 0}}, {[]float64{0, 0, 9, 9}, []int64{0, 1, 1}}, {[]float64{0, 0, 39, 39, 0, 0, 19, 19}, []int64{0, 1, 2}}},
			"RestoreIndex": {{[]float64{1, 0, 2}, nil}}, "MultiLevelRoIsNum": {{[]float64{0, 0}, nil}, {[]float64{1, 0}, nil}, {[]float64{1, 1}, nil}}}},
	{kind: "distribute_fpn_proposals", name: "numbers", inputs: slots{"FpnRois": One(Floats(dims{1, 4}, 5, 5, 1, 1)), "RoisNum": One(Int32s(dims{2}, 0, 1))}, attrs: levels,
		outputs: map[string]int{"MultiFpnRois": 3, "RestoreIndex": 1}, want: map[string][]want{"MultiFpnRois": {{[]float64{5, 5, 1, 1}, []int64{0, 0, 1}}}}},
	{kind: "collect_fpn_proposals", inputs: slots{"MultiLevelRois": One(of(Floats(dims{2, 4}, 1, 1, 1, 1, 2, 2, 2, 2), 0, 1, 2), of(Floats(dims{1, 4}, 3, 3, 3, 3), 0, 1, 1)),
		"MultiLevelScores": One(Floats(dims{2, 1}, .5, .9), Floats(dims{1, 1}, .7))}, attrs: attrs{"post_nms_topN": int32(2)}, outputs: map[string]int{"FpnRois": 1, "RoisNum": 1},
		want: map[string][]want{"FpnRois": {{[]float64{3, 3, 3, 3, 2, 2, 2, 2}, []int64{0, 1, 2}}}, "RoisNum": {{[]float64{1, 1}, nil}}}},
	{kind: "matrix_nms", inputs: slots{"BBoxes": One(shared), "Scores": One(Floats(dims{1, 1, 3}, .9, .8, .3))}, attrs: with(anyBox, "post_threshold", float32(.25)),
		outputs: map[string]int{"Out": 1, "Index": 1, "RoisNum": 1}, want: map[string][]want{"Out": {{[]float64{0, .9, 0, 0, 4, 4, 0, .3, 6, 6, 8, 8}, []int64{0, 2}}},
			"Index": {{[]float64{0, 2}, []int64{0, 2}}}, "RoisNum": {{[]float64{2}, nil}}}},
	{kind: "matrix_nms", name: "all", inputs: slots{"BBoxes": One(shared), "Scores": One(Floats(dims{1, 1, 3}, .9, .75, .375))}, attrs: with(anyBox, "use_gaussian", true, "keep_top_k", int32(2), "gaussian_sigma", float32(0)),
		outputs: map[string]int{"Out": 1, "Index": 1}, want: map[string][]want{"Index": {{[]float64{0, 1}, []int64{0, 2}}}}},
	{kind: "locality_aware_nms", inputs: slots{"BBoxes": One(shared), "Scores": One(Floats(dims{1, 1, 3}, .75, .25, .5))}, attrs: anyBox, outputs: map[string]int{"Out": 1},
		want: map[string][]want{"Out": {{[]float64{0, 1, 0, 0, 4, 3.75, 0, .5, 6, 6, 8, 8}, []int64{0, 2}}}}},
	{kind: "locality_aware_nms", name: "nothing", inputs: slots{"BBoxes": One(shared), "Scores": One(Floats(dims{1, 1, 3}, 0, 0, 0))}, attrs: anyBox, outputs: map[string]int{"Out": 1},
		want: map[string][]want{"Out": {{[]float64{-1}, []int64{0, 1}}}}},
	{kind: "retinanet_detection_output", inputs: slots{"BBoxes": One(Floats(dims{1, 2, 4}, make([]float64, 8)...)), "Scores": One(Floats(dims{1, 2, 1}, .9, .8)),
		"Anchors": One(Floats(dims{2, 4}, 0, 0, 9, 9, 0, 0, 9, 8)), "ImInfo": One(Floats(dims{1, 3}, 20, 16, 2))}, attrs: with(anyBox, "keep_top_k", int32(9)), outputs: map[string]int{"Out": 1},
		want: map[string][]want{"Out": {{[]float64{1, .9, 0, 0, 4.5, 4.5}, []int64{0, 1}}}}},
	{kind: "mine_hard_examples", inputs: mined, attrs: attrs{"neg_pos_ratio": float32(2)}, outputs: map[string]int{"NegIndices": 1, "UpdatedMatchIndices": 1},
		want: map[string][]want{"NegIndices": {{[]float64{1, 2}, []int64{0, 2}}}, "UpdatedMatchIndices": {{[]float64{0, -1, -1, -1}, nil}}}},
	{kind: "mine_hard_examples", name: "hard", inputs: mined, attrs: attrs{"mining_type": "hard_example", "sample_size": int32(2)}, outputs: map[string]int{"NegIndices": 1, "UpdatedMatchIndices": 1},
		want: map[string][]want{"NegIndices": {{[]float64{1, 3}, []int64{0, 2}}}, "UpdatedMatchIndices": {{[]float64{-1, -1, -1, -1}, nil}}}},
}

var mined = slots{"ClsLoss": One(Floats(dims{1, 4}, .1, .9, .5, .7)), "MatchIndices": One(Int32s(dims{1, 4}, 0, -1, -1, -1)), "MatchDist": One(Floats(dims{1, 4}, .8, .2, .1, .6))}

// with returns attributes with some more, and without those that only one of the ops has.
func with(a attrs, more ...any) attrs {
	all := attrs{}
	for name, v := range a {
		all[name] = v
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i].(string)] = more[i+1]
	}
	return all
}

func TestFindings(t *testing.T) {
	for _, c := range slices.Concat(findings, learned, masks) {
		t.Run(c.kind+"/"+c.name, func(t *testing.T) {
			def, _ := ops.Lookup(c.kind)
			c.attrs = known(def, c.attrs)
			got, err := c.run(t)
			if err != nil {
				t.Fatal(err)
			}
			for slot, wants := range c.want {
				for i, w := range wants {
					value := got[slot][i]
					var offsets []int64
					if lod := value.LoD(); len(lod) > 0 {
						offsets = lod[0]
					}
					if !near(numbersOf(value), w.values) || !slices.Equal(offsets, w.offsets) {
						t.Errorf("%s %d is %v with offsets %v, want %v and %v", slot, i, numbersOf(value), offsets, w.values, w.offsets)
					}
				}
			}
		})
	}
}

func near(got, want []float64) bool {
	return slices.EqualFunc(got, want, func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })
}

// known returns the attributes that an op has.
func known(def *ops.Def, a attrs) attrs {
	own := attrs{}
	for _, attr := range def.Attrs {
		if v, ok := a[attr.Name]; ok {
			own[attr.Name] = v
		}
	}
	return own
}

func TestFindingsThatDoNotFit(t *testing.T) {
	boxes := func(rows int64) *tensor.Tensor { return Floats(dims{rows, 4}, make([]float64, 4*rows)...) }
	for _, c := range []struct {
		finding
		want fault.Kind
	}{
		{finding{kind: "distribute_fpn_proposals", inputs: slots{"FpnRois": One(boxes(2)), "RoisNum": One(Int32s(dims{1}, 3))}, attrs: levels, outputs: map[string]int{"MultiFpnRois": 3, "RestoreIndex": 1}}, fault.InvalidArgument},
		{finding{kind: "distribute_fpn_proposals", inputs: slots{"FpnRois": One(boxes(2))}, attrs: levels, outputs: map[string]int{"MultiFpnRois": 2, "RestoreIndex": 1}}, fault.InvalidProgram},
		{finding{kind: "collect_fpn_proposals", inputs: slots{"MultiLevelRois": One(boxes(2)), "MultiLevelScores": One(Floats(dims{1, 1}, 1))}, attrs: attrs{"post_nms_topN": int32(2)}, outputs: map[string]int{"FpnRois": 1}}, fault.ShapeMismatch},
		{finding{kind: "mine_hard_examples", inputs: mined, attrs: attrs{"mining_type": "hard_example"}, outputs: map[string]int{"NegIndices": 1, "UpdatedMatchIndices": 1}}, fault.InvalidArgument},
		{finding{kind: "mine_hard_examples", inputs: mined, attrs: attrs{"mining_type": "easy"}, outputs: map[string]int{"NegIndices": 1, "UpdatedMatchIndices": 1}}, fault.InvalidArgument},
		{proposalsOf("", "generate_proposals", "ImInfo", Floats(dims{1, 2}, 40, 40), nil, nil), fault.ShapeMismatch},
		{finding{kind: "matrix_nms", inputs: slots{"BBoxes": One(Floats(dims{1, 1, 8}, make([]float64, 8)...)), "Scores": One(Floats(dims{1, 1, 1}, .9))}, attrs: anyBox, outputs: map[string]int{"Out": 1, "Index": 1}}, fault.Unsupported},
	} {
		def, _ := ops.Lookup(c.kind)
		c.attrs = known(def, c.attrs)
		if _, err := c.run(t); fault.KindOf(err) != c.want {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}
