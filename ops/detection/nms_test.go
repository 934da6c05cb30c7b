package detection_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An nms runs multiclass_nms on boxes and scores.
type nms struct {
	kind          string
	attrs         attrs
	boxes, scores *tensor.Tensor
}

func (c nms) op() *program.Op {
	op := &program.Op{Type: c.kind, Inputs: map[string][]string{"BBoxes": {"boxes"}, "Scores": {"scores"}}, Outputs: map[string][]string{"Out": {"out"}},
		Attrs: attrs{"score_threshold": float32(0.1), "nms_top_k": int32(-1), "keep_top_k": int32(-1), "background_label": int32(-1), "nms_threshold": float32(0.5)}}
	if c.kind != "multiclass_nms" {
		op.Outputs["Index"] = []string{"index"}
	}
	if c.kind == "multiclass_nms3" {
		op.Outputs["NmsRoisNum"] = []string{"nums"}
	}
	for name, v := range c.attrs {
		op.Attrs[name] = v
	}
	return op
}

// run returns the tensors of the outputs. It runs the kernel twice, and the second run allocates nothing.
func (c nms) run(t *testing.T) map[string]*tensor.Tensor {
	t.Helper()
	op := c.op()
	def, _ := ops.Lookup(c.kind)
	made := map[string][]*tensor.Tensor{}
	for slot := range op.Outputs {
		dtype, rows := tensor.Float64, int64(0)
		if slot != "Out" {
			dtype = tensor.Int32
		}
		if slot == "NmsRoisNum" {
			rows = c.boxes.Dims()[0]
		}
		value, err := tensor.New(dtype, rows)
		if err != nil {
			t.Fatal(err)
		}
		made[slot] = []*tensor.Tensor{value}
	}
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, slots{"BBoxes": {c.boxes}, "Scores": {c.scores}}, made, nil))
	if err != nil {
		t.Fatal(err)
	}
	run := func() {
		if err := kernel(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(3, run); n != 0 {
		t.Errorf("%v allocations a run", n)
	}
	out := map[string]*tensor.Tensor{}
	for slot, values := range made {
		out[slot] = values[0]
	}
	return out
}

func TestMulticlassNMS(t *testing.T) {
	// Boxes 0 and 1 share three quarters, box 2 lies apart; the second image has no box with a score.
	boxes := floatsOf(t, []float64{0, 0, 4, 4, 0, 0, 4, 3, 6, 6, 8, 8, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1}, 2, 3, 4)
	scores := floatsOf(t, []float64{.9, .8, .3, .2, .7, .6, 0, 0, 0, 0, 0, 0}, 2, 2, 3)
	for _, c := range []struct {
		name   string
		attrs  attrs
		want   []float64 // class and score of each row
		places []int32
		counts []int32
	}{
		{"", nil, []float64{0, .9, 0, .3, 1, .7, 1, .6}, []int32{0, 2, 1, 2}, []int32{4, 0}},
		{"background", attrs{"background_label": int32(1)}, []float64{0, .9, 0, .3}, []int32{0, 2}, []int32{2, 0}},
		{"keeps the best", attrs{"keep_top_k": int32(2)}, []float64{0, .9, 1, .7}, []int32{0, 1}, []int32{2, 0}},
		{"looks at the best", attrs{"nms_top_k": int32(1)}, []float64{0, .9, 1, .7}, []int32{0, 1}, []int32{2, 0}},
		{"overlaps", attrs{"nms_threshold": float32(0.8)}, []float64{0, .9, 0, .8, 0, .3, 1, .7, 1, .6, 1, .2}, []int32{0, 1, 2, 1, 2, 0}, []int32{6, 0}},
		{"fading threshold", attrs{"nms_threshold": float32(0.8), "nms_eta": float32(0.7)}, []float64{0, .9, 0, .3, 1, .7, 1, .6}, []int32{0, 2, 1, 2}, []int32{4, 0}},
		{"nothing", attrs{"score_threshold": float32(0.95)}, nil, nil, []int32{0, 0}},
	} {
		got := nms{"multiclass_nms3", c.attrs, boxes, scores}.run(t)
		out := got["Out"]
		var rows []float64
		for i := 0; i < out.Len(); i += 6 {
			rows = append(rows, out.Float64s()[i:i+2]...)
		}
		n := int64(len(c.places))
		if !slices.Equal(rows, c.want) || !slices.Equal(out.Dims(), dims{n, 6}) || !slices.Equal(out.LoD()[0], []int64{0, n, n}) {
			t.Errorf("%s: rows %v of %v with LoD %v, want %v", c.name, rows, out.Dims(), out.LoD(), c.want)
		}
		if !slices.Equal(got["Index"].Int32s(), c.places) || !slices.Equal(got["NmsRoisNum"].Int32s(), c.counts) {
			t.Errorf("%s: places %v and numbers %v, want %v and %v", c.name, got["Index"].Int32s(), got["NmsRoisNum"].Int32s(), c.places, c.counts)
		}
	}
	// The first generation says with one number that there is nothing.
	out := nms{"multiclass_nms", attrs{"score_threshold": float32(0.95)}, boxes, scores}.run(t)["Out"]
	if !slices.Equal(out.Dims(), dims{1, 1}) || out.Float64s()[0] != -1 || !slices.Equal(out.LoD()[0], []int64{0, 1}) {
		t.Errorf("%v %v", out, out.LoD())
	}
}

// Boxes that each class has for itself: those of a sequence are an image, or as many as RoisNum says.
func TestNMSOfBoxesForEachClass(t *testing.T) {
	box := func(at float64) []float64 { return []float64{at, 0, at + 1, 1} }
	boxes := floatsOf(t, slices.Concat(box(0), box(10), box(0), box(20), box(5), box(10)), 3, 2, 4)
	scores := floatsOf(t, []float64{.9, .2, .8, .7, .3, .6}, 3, 2)
	boxes.SetLoD([][]int64{{0, 2, 3}})
	got := nms{"multiclass_nms3", attrs{}, boxes, scores}.run(t)
	want := slices.Concat([]float64{0, .9}, box(0), []float64{1, .7}, box(20), []float64{1, .2}, box(10), []float64{0, .3}, box(5), []float64{1, .6}, box(10))
	if !slices.Equal(got["Out"].Float64s(), want) || !slices.Equal(got["Out"].LoD()[0], []int64{0, 3, 5}) {
		t.Errorf("%v %v, want %v", got["Out"].Float64s(), got["Out"].LoD(), want)
	}
	if !slices.Equal(got["Index"].Int32s(), []int32{0, 3, 1, 4, 5}) || !slices.Equal(got["NmsRoisNum"].Int32s(), []int32{3, 2}) {
		t.Errorf("places %v, numbers %v", got["Index"].Int32s(), got["NmsRoisNum"].Int32s())
	}
	op, counts := nms{kind: "multiclass_nms3"}.op(), []int32{1, 2}
	op.Inputs["RoisNum"] = []string{"counts"}
	def, _ := ops.Lookup(op.Type)
	run := func() (*tensor.Tensor, error) {
		rois, _ := tensor.FromSlice(counts)
		out, _ := tensor.New(tensor.Float64, 0)
		kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, slots{"BBoxes": {boxes}, "Scores": {scores}, "RoisNum": {rois}}, slots{"Out": {out}}, nil))
		if err != nil {
			return nil, err
		}
		return out, kernel(t.Context())
	}
	if out, err := run(); err != nil || !slices.Equal(out.LoD()[0], []int64{0, 2, 6}) {
		t.Errorf("%v, %v", out, err)
	}
	counts = []int32{1, 3}
	if _, err := run(); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("more rows than there are: %v", err)
	}
}

func floatsOf(t *testing.T, values []float64, dims ...int64) *tensor.Tensor {
	t.Helper()
	value, err := tensor.FromSlice(values, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestNMSThatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		boxes, scores dims
		attrs         attrs
		want          fault.Kind
	}{
		{dims{1, 3, 8}, dims{1, 2, 3}, nil, fault.Unsupported},
		{dims{3, 2, 4}, dims{3, 3}, nil, fault.ShapeMismatch},
		{dims{1, 3, 4}, dims{1, 2, 4}, nil, fault.ShapeMismatch},
		{dims{1, 3}, dims{1, 2, 4}, nil, fault.ShapeMismatch},
		{dims{1, 3, 4}, dims{1, 2, 3}, attrs{"nms_eta": float32(0)}, fault.Unsupported},
	} {
		op := nms{kind: "multiclass_nms2", attrs: c.attrs}.op()
		_, err := ops.Infer(op, func(name string) (ops.Meta, bool) {
			if name == "boxes" {
				return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: c.boxes}, true
			}
			return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: c.scores}, true
		})
		if fault.KindOf(err) != c.want {
			t.Errorf("boxes %v, scores %v: %v", c.boxes, c.scores, err)
		}
	}
}
