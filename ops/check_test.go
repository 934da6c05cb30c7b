package ops_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "checked", Doc: "An op for tests.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "for tests", Duplicable: true}, {Name: "Y", Doc: "for tests", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "for tests"}, {Name: "Saved", Doc: "for tests", Intermediate: true}},
		Attrs: []ops.Attr{
			{Name: "axis", Doc: "for tests", Default: int32(-1), Check: func(op *program.Op) error {
				if axis, _ := op.Int("axis"); axis < -1 {
					return fault.New(fault.InvalidArgument, "-1 or more")
				}
				return nil
			}},
			{Name: "shape", Doc: "for tests", Default: []int64{}}, {Name: "rate", Doc: "for tests", Default: float32(1)},
			{Name: "rates", Doc: "for tests", Default: []float32{}},
			{Name: "test", Doc: "for tests", Default: false}, {Name: "kind", Doc: "for tests", Kind: ""}},
		Infer: func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Bind:  func(*ops.Binding) (ops.Kernel, error) { return nil, nil },
	})
}

// checked returns a legal op.
func checked() *program.Op {
	return &program.Op{Type: "checked", Inputs: map[string][]string{"X": {"a", "b"}}, Outputs: map[string][]string{"Out": {"c"}},
		Attrs: map[string]program.Attr{"kind": "max", "unknown": int32(4)}}
}

func TestCheck(t *testing.T) {
	def, _ := ops.Lookup("checked")
	for _, c := range []struct {
		change func(op *program.Op)
		want   string // part of the message, empty when the op is legal
	}{
		{func(op *program.Op) {}, ""},
		{func(op *program.Op) { op.SetAttr("axis", []int64{2}) }, ""},
		{func(op *program.Op) { op.SetAttr("axis", true) }, ""},
		{func(op *program.Op) { op.SetAttr("shape", int32(3)) }, ""},
		{func(op *program.Op) { op.SetAttr("rate", int32(3)) }, ""},
		{func(op *program.Op) { op.SetAttr("test", int32(1)) }, ""},
		{func(op *program.Op) { op.Outputs["Saved"] = []string{program.Empty} }, ""},
		{func(op *program.Op) { op.Outputs["Out"] = []string{program.Empty} }, ""},
		{func(op *program.Op) { op.Inputs["Other"] = nil }, ""},
		{func(op *program.Op) { op.Inputs["Other"] = []string{"d"} }, "one of the slots X, Y"},
		{func(op *program.Op) { op.Inputs["X"] = []string{program.Empty} }, "no variable in input X"},
		{func(op *program.Op) { delete(op.Inputs, "X") }, "no variable in input X"},
		{func(op *program.Op) { op.Inputs["Y"] = []string{"d", "e"} }, "2 variables in input Y"},
		{func(op *program.Op) { delete(op.Outputs, "Out") }, "no variable in output Out"},
		{func(op *program.Op) { delete(op.Attrs, "kind") }, "no attribute kind"},
		{func(op *program.Op) { op.SetAttr("kind", int32(1)) }, "attribute kind of type int32"},
		{func(op *program.Op) { op.SetAttr("axis", "last") }, "attribute axis of type string"},
		{func(op *program.Op) { op.SetAttr("axis", []int32{1, 2}) }, "attribute axis of type []int32"},
		{func(op *program.Op) { op.SetAttr("rates", float32(1)) }, ""},
		{func(op *program.Op) { op.SetAttr("rates", true) }, "attribute rates of type bool"},
		{func(op *program.Op) { op.SetAttr("axis", int32(-2)) }, "-1 or more"},
	} {
		op := checked()
		c.change(op)
		faults := def.Check(op)
		if c.want == "" && len(faults) > 0 || c.want != "" && (len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want)) {
			t.Errorf("%v %v %v: %v, want %q", op.Inputs, op.Outputs, op.Attrs, faults, c.want)
		}
	}
}

func TestInferRefusesWhatKernelsCannotHold(t *testing.T) {
	plain := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, program.Unknown}}
	for _, c := range []struct {
		change func(m *ops.Meta)
		want   fault.Kind
	}{
		{func(m *ops.Meta) {}, fault.OK},
		{func(m *ops.Meta) { m.Kind = program.SelectedRows }, fault.Unsupported},
		{func(m *ops.Meta) { m.DType = tensor.Float16 }, fault.Unsupported},
		{func(m *ops.Meta) { m.Dims = make([]int64, tensor.MaxRank+1) }, fault.TooLarge},
		{func(m *ops.Meta) { m.Dims = []int64{-2} }, fault.ShapeMismatch},
	} {
		m := plain
		c.change(&m)
		_, err := ops.Infer(checked(), func(name string) (ops.Meta, bool) {
			if name == "b" {
				return m, true
			}
			return plain, true
		})
		if fault.KindOf(err) != c.want {
			t.Errorf("%v: %v, want %v", m, err, c.want)
		}
	}
}

func TestInferRefusesAnOutputThatNothingIsWrittenTo(t *testing.T) {
	op := checked()
	op.Outputs["Saved"] = []string{"d"}
	_, err := ops.Infer(op, func(string) (ops.Meta, bool) {
		return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32}, true
	})
	if fault.KindOf(err) != fault.InvalidProgram || !strings.Contains(err.Error(), "Saved") {
		t.Errorf("output Saved is left without shape: %v", err)
	}
}
