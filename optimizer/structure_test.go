package optimizer_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

// regression is the model of Fluid's transpiler tests: one fully connected layer and a square error.
func regression(m *layers.Model) layers.Variable {
	x := layers.Data(m, "x", layers.Dims(1000))
	y := layers.Data(m, "y", layers.Dims(1))
	prediction := layers.FC(x, 1000)
	return layers.Mean(layers.SquareErrorCost(prediction, y))
}

// build returns the finished program of a model, and fails the test on mistakes.
func build(t *testing.T, m *layers.Model) *program.Program {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func opTypes(p *program.Program) string {
	var types []string
	for _, op := range p.Global().Ops {
		types = append(types, op.Type)
	}
	return strings.Join(types, " ")
}

func TestRegressionWithSGDHasFluidsOps(t *testing.T) {
	m := layers.NewModel()
	optimizer.SGD(0.01).Minimize(regression(m))
	p := build(t, m)
	want := "mul elementwise_add elementwise_sub square mean " +
		"fill_constant mean_grad square_grad elementwise_sub_grad elementwise_add_grad mul_grad sgd sgd"
	if got := opTypes(p); got != want {
		t.Errorf("main program:\n got %s\nwant %s", got, want)
	}
	want = "uniform_random fill_constant fill_constant"
	if got := opTypes(p.Startup); got != want {
		t.Errorf("startup program: got %s, want %s", got, want)
	}
}
