package detection_test

import (
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A mapping runs detection_map. It returns the outputs by slot, and how many allocations a second run makes.
func mapping(t *testing.T, in slots, a attrs) (slots, float64, error) {
	t.Helper()
	op := &program.Op{Type: "detection_map", Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: attrs{"class_num": int32(3)}}
	for name, v := range a {
		op.Attrs[name] = v
	}
	metas := map[string]ops.Meta{}
	for slot, v := range in {
		op.Inputs[slot], metas[slot] = []string{slot}, ops.MetaOfValue(v[0])
	}
	def, _ := ops.Lookup(op.Type)
	for _, slot := range def.Outputs {
		op.Outputs[slot.Name] = []string{slot.Name}
	}
	shapes, err := ops.Infer(op, func(name string) (ops.Meta, bool) { m, ok := metas[name]; return m, ok })
	if err != nil {
		return nil, 0, err
	}
	out := slots{}
	for slot := range op.Outputs {
		extents := slices.Clone(shapes.Outs(slot)[0].Dims)
		for i, n := range extents {
			extents[i] = max(n, 0)
		}
		v, err := tensor.New(shapes.Outs(slot)[0].DType, extents...)
		if err != nil {
			t.Fatal(err)
		}
		out[slot] = One(v)
	}
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, out, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); err != nil {
		return nil, 0, err
	}
	return out, testing.AllocsPerRun(3, func() { _ = kernel(t.Context()) }), nil
}

// Two images. Class 1 has two objects, one of them difficult, and class 2 has one.
func scene() slots {
	return slots{
		"Label": One(of(Floats(dims{3, 6}, 1, 0, 0, 0, .5, .5, 2, 0, .5, .5, 1, 1, 1, 1, 0, 0, .4, .4), 0, 2, 3)),
		"DetectRes": One(of(Floats(dims{5, 6},
			1, .6, 0, 0, .5, .5, // finds the first object
			1, .9, 0, 0, .1, .1, // finds nothing
			1, .5, 0, 0, .5, .4, // finds the first object again
			2, .7, .5, .5, 1.5, 1, // finds the second object, as far as it lies in the image
			1, .8, 0, 0, .4, .4, // finds the difficult object
		), 0, 4, 5)),
	}
}

func TestDetectionMAP(t *testing.T) {
	for _, c := range []struct {
		name        string
		attrs       attrs
		want        float64
		objects     []int32
		right       []float64
		ofEachClass []int64
	}{
		// Class 1 by score: wrong, right, right, wrong. Precision is 1/2 at a recall of 1/2, and 2/3 at 1.
		{"", nil, (.5/2 + 2./3/2 + 1) / 2, []int32{0, 2, 1}, []float64{.9, 0, .6, 1, .5, 0, .8, 1, .7, 1}, []int64{0, 0, 4, 5}},
		{"11 points", attrs{"ap_type": "11point"}, (2./3 + 1) / 2, []int32{0, 2, 1}, []float64{.9, 0, .6, 1, .5, 0, .8, 1, .7, 1}, []int64{0, 0, 4, 5}},
		// Without the difficult object: wrong, right, wrong.
		{"without difficult ones", attrs{"evaluate_difficult": false}, (.5 + 1) / 2, []int32{0, 1, 1}, []float64{.9, 0, .6, 1, .5, 0, .7, 1}, []int64{0, 0, 3, 4}},
		{"threshold", attrs{"overlap_threshold": float32(0.9)}, (.5/2 + 2./3/2 + 1) / 2, []int32{0, 2, 1}, []float64{.9, 0, .6, 1, .5, 0, .8, 1, .7, 1}, []int64{0, 0, 4, 5}},
		{"classes of two objects", attrs{"background_label": int32(2)}, 1, []int32{0, 2, 1}, []float64{.9, 0, .6, 1, .5, 0, .8, 1, .7, 1}, []int64{0, 0, 4, 5}},
	} {
		out, allocations, err := mapping(t, scene(), c.attrs)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := out["MAP"][0].Float64s()[0]; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: MAP %v, want %v", c.name, got, c.want)
		}
		right := out["AccumTruePos"][0]
		if !slices.Equal(out["AccumPosCount"][0].Int32s(), c.objects) || !slices.Equal(right.Float64s(), c.right) || !slices.Equal(right.LoD()[0], c.ofEachClass) {
			t.Errorf("%s: objects %v, detections %v in %v; want %v, %v in %v", c.name, out["AccumPosCount"][0].Int32s(), right.Float64s(), right.LoD(), c.objects, c.right, c.ofEachClass)
		}
		if allocations != 0 {
			t.Errorf("%s: %v allocations a run", c.name, allocations)
		}
	}
}

// Two steps, the second with the state of the first, give what one step over all images gives.
func TestDetectionMAPGoesOn(t *testing.T) {
	all := scene()
	part := func(slot string, from, to int64) *tensor.Tensor {
		rows, err := all[slot][0].Rows(from, to)
		if err != nil {
			t.Fatal(err)
		}
		return of(rows.Clone(), 0, to-from)
	}
	whole, _, err := mapping(t, all, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := mapping(t, slots{"Label": One(part("Label", 0, 2)), "DetectRes": One(part("DetectRes", 0, 4))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next := slots{"Label": One(part("Label", 2, 3)), "DetectRes": One(part("DetectRes", 4, 5)), "HasState": One(Int32s(dims{1}, 1)),
		"PosCount": first["AccumPosCount"], "TruePos": first["AccumTruePos"], "FalsePos": first["AccumFalsePos"]}
	second, _, err := mapping(t, next, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := second["MAP"][0].Float64s()[0], whole["MAP"][0].Float64s()[0]; got != want {
		t.Errorf("MAP %v after two steps, %v after one", got, want)
	}
	next["HasState"] = One(Int32s(dims{1}, 0))
	if alone, _, err := mapping(t, next, nil); err != nil || alone["MAP"][0].Float64s()[0] != 1 {
		t.Errorf("without state: %v, %v", alone["MAP"], err)
	}
}

func TestDetectionMAPRefuses(t *testing.T) {
	for name, change := range map[string]func(slots){
		"a class beyond":  func(in slots) { in["DetectRes"][0].Float64s()[0] = 3 },
		"NaN for a class": func(in slots) { in["Label"][0].Float64s()[0] = math.NaN() },
		"other images":    func(in slots) { of(in["DetectRes"][0], 0, 5) },
		"half a state":    func(in slots) { in["PosCount"] = One(Int32s(dims{3, 1}, 1, 1, 1)) },
		"other states": func(in slots) {
			in["HasState"], in["PosCount"] = One(Int32s(dims{1}, 1)), One(Int32s(dims{3, 1}, 1, 1, 1))
			in["TruePos"], in["FalsePos"] = One(of(Floats(dims{1, 2}, 1, 1), 0, 1)), One(of(Floats(dims{1, 2}, 1, 0), 0, 1))
		},
	} {
		in := scene()
		change(in)
		if _, _, err := mapping(t, in, nil); err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := scene()
	in["DetectRes"] = One(of(Floats(dims{1, 1}, -1), 0, 1)) // as multiclass_nms says that it has found nothing
	if out, _, err := mapping(t, in, nil); err != nil || out["MAP"][0].Float64s()[0] != 0 {
		t.Errorf("without detections: %v, %v", out["MAP"], err)
	}
}
