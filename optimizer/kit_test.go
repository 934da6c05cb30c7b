package optimizer_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// build returns the finished program of a model, and fails the test on mistakes.
func build(t tester, m *layers.Model) *program.Program {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// opTypes lists the ops of the global block whose role is among roles, all of them when none is given.
func opTypes(p *program.Program, roles ...program.Role) string {
	var types []string
	for _, op := range withRole(p, roles...) {
		types = append(types, op.Type)
	}
	return strings.Join(types, " ")
}

func withRole(p *program.Program, roles ...program.Role) []*program.Op {
	var all []*program.Op
	for _, op := range p.Global().Ops {
		keep := len(roles) == 0
		for _, role := range roles {
			keep = keep || op.Role().Has(role)
		}
		if keep {
			all = append(all, op)
		}
	}
	return all
}

// A machine runs a program step by step in the simplest way.
type machine struct {
	t tester
	p *program.Program
	*gradcheck.Interpreter
}

// start runs the startup program and takes the feeds.
func start(t tester, p *program.Program, feeds map[string]*tensor.Tensor) *machine {
	t.Helper()
	vars := map[string]*tensor.Tensor{}
	for name, value := range feeds {
		vars[name] = value
	}
	m := &machine{t, p, gradcheck.NewInterpreter(vars, ops.Step{Rows: 4})}
	m.run(p.Startup.Global().Ops)
	return m
}

func (m *machine) run(list []*program.Op) {
	m.t.Helper()
	if err := m.Run(context.Background(), list...); err != nil {
		m.t.Fatal(err)
	}
}

// scalar returns the only element of a variable.
func (m *machine) scalar(name string) float64 {
	m.t.Helper()
	v, ok := m.Vars[name]
	if !ok || v.Len() != 1 {
		m.t.Fatal(name, "is", v)
	}
	switch v.DType() {
	case tensor.Float32:
		return float64(v.Float32s()[0])
	case tensor.Float64:
		return v.Float64s()[0]
	}
	return float64(v.Int64s()[0])
}

// floats returns a float64 tensor of small numbers that are the same in every run.
func floats(seed uint64, dims ...int64) *tensor.Tensor {
	random := rand.New(rand.NewPCG(seed, 1))
	t, err := tensor.New(tensor.Float64, dims...)
	if err != nil {
		panic(err)
	}
	for i := range t.Float64s() {
		t.Float64s()[i] = random.NormFloat64()
	}
	return t
}

func integers(dims []int64, values ...int64) *tensor.Tensor {
	t, err := tensor.FromSlice(values, dims...)
	if err != nil {
		panic(err)
	}
	return t
}

// checkGradients compares the gradients of the backward pass with central differences of the loss, element by element. The model
// computes in float64.
func checkGradients(t tester, m *layers.Model, loss layers.Variable, feeds map[string]*tensor.Tensor) {
	t.Helper()
	pairs := optimizer.AppendBackward(loss)
	p := build(t, m)
	machine := start(t, p, feeds)
	machine.run(p.Global().Ops)
	forward := withRole(p, program.RoleForward)
	for _, pair := range pairs {
		values := machine.Vars[pair.Param.Name()].Float64s()
		grads := machine.Vars[pair.Grad.Name()].Clone().Float64s()
		for i := range values {
			const h = 1e-5
			lossAt := func(x float64) float64 {
				was := values[i]
				defer func() { values[i] = was }()
				values[i] = x
				machine.run(forward)
				return machine.scalar(loss.Name())
			}
			want := (lossAt(values[i]+h) - lossAt(values[i]-h)) / (2 * h)
			if math.Abs(grads[i]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("%s[%d] = %v, central differences give %v", pair.Grad.Name(), i, grads[i], want)
			}
		}
	}
}

// regression is the model of Fluid's transpiler tests: one fully connected layer and a square error.
func regression(m *layers.Model) layers.Variable {
	x := layers.Data(m, "x", layers.Dims(1000))
	y := layers.Data(m, "y", layers.Dims(1))
	prediction := layers.FC(x, 1000)
	return layers.Mean(layers.SquareErrorCost(prediction, y))
}
