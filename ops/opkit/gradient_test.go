package opkit_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/math"
	_ "github.com/edl-go/edl/ops/nn"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func float(dims ...int64) ops.Meta {
	return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims}
}

// inferGrad infers an op whose variables are called like their slots.
func inferGrad(opType string, inputs map[string]ops.Meta, outputs ...string) (*ops.Shapes, error) {
	op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
	for slot := range inputs {
		op.Inputs[slot] = []string{slot}
	}
	for _, slot := range outputs {
		op.Outputs[slot] = []string{slot}
	}
	return ops.Infer(op, func(name string) (ops.Meta, bool) { m, ok := inputs[name]; return m, ok })
}

func TestGradientsHaveTheShapesOfTheirVariables(t *testing.T) {
	s, err := inferGrad("mul_grad", map[string]ops.Meta{"X": float(-1, 3), "Y": float(3, 4), "Out@GRAD": float(-1, 4)}, "X@GRAD", "Y@GRAD")
	if err != nil {
		t.Fatal(err)
	}
	if x, y := s.Outs("X@GRAD")[0].String(), s.Outs("Y@GRAD")[0].String(); x != "float32[-1 3]" || y != "float32[3 4]" {
		t.Errorf("dX is %s and dY %s", x, y)
	}
}

func TestGradientsOfOtherShapesAreRefused(t *testing.T) {
	for _, c := range []struct {
		op     string
		inputs map[string]ops.Meta
		want   string
	}{
		{"mul_grad", map[string]ops.Meta{"X": float(2, 3), "Y": float(3, 4), "Out@GRAD": float(2, 5)}, "float32[2 4]"},
		{"mul_grad", map[string]ops.Meta{"X": float(2, 3), "Y": float(4, 4), "Out@GRAD": float(2, 4)}, "op mul_grad"},
		{"relu_grad", map[string]ops.Meta{"Out": float(2), "Out@GRAD": float(3)}, "variable \"Out@GRAD\""},
		{"relu_grad", map[string]ops.Meta{"X": float(3), "Out": float(2), "Out@GRAD": float(2)}, "variable \"Out\""},
		{"square_grad", map[string]ops.Meta{"X": float(2), "Out@GRAD": {Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{2}}}, "float32[2]"},
	} {
		_, err := inferGrad(c.op, c.inputs, "X@GRAD")
		if fault.KindOf(err) != fault.ShapeMismatch || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %v: %v, want %q", c.op, c.inputs, err, c.want)
		}
	}
}

// TestFluidsGradientOps takes gradient ops in the form that Fluid writes, which leaves out what only dims are needed of.
func TestFluidsGradientOps(t *testing.T) {
	for _, c := range []struct {
		op      string
		inputs  map[string]ops.Meta
		outputs []string
	}{
		{"elementwise_add_grad", map[string]ops.Meta{"Y": float(3), "Out@GRAD": float(2, 3)}, []string{"X@GRAD", "Y@GRAD"}},
		{"elementwise_add_grad", map[string]ops.Meta{"X": float(2, 3), "Y": float(3), "Out": float(2, 3), "Out@GRAD": float(2, 3)},
			[]string{"X@GRAD", "Y@GRAD"}},
		{"tanh_grad", map[string]ops.Meta{"X": float(2), "Out": float(2), "Out@GRAD": float(2)}, []string{"X@GRAD"}},
		{"batch_norm_grad", map[string]ops.Meta{"X": float(2, 3), "Scale": float(3), "SavedMean": float(3), "SavedVariance": float(3),
			"Y@GRAD": float(2, 3)},
			[]string{"X@GRAD", "Scale@GRAD", "Bias@GRAD"}},
		{"layer_norm_grad", map[string]ops.Meta{"X": float(2, 3), "Scale": float(3), "Mean": float(2), "Variance": float(2), "Y@GRAD": float(2, 3)},
			[]string{"X@GRAD", "Scale@GRAD", "Bias@GRAD"}},
	} {
		if _, err := inferGrad(c.op, c.inputs, c.outputs...); err != nil {
			t.Errorf("%s of %v: %v", c.op, c.inputs, err)
		}
	}
}
