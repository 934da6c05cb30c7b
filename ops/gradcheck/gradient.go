package gradcheck

import (
	"context"
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A trace is a case that was run forwards and, when the op has a gradient, backwards.
type trace struct {
	*Interpreter
	forward  *program.Op
	backward []*program.Op
	losses   []string
	wanted   []string
}

// run runs a case with floats of a type. The loss is the sum over the outputs of losses, each element weighted by
// weights.
func run(c Case, float tensor.DType) (*trace, error) {
	def, ok := ops.Lookup(c.Type)
	if !ok {
		return nil, fmt.Errorf("%v is not registered", c.Type)
	}
	t := &trace{Interpreter: NewInterpreter(c.variables(float), c.Step), forward: c.op()}
	if err := t.Run(context.Background(), t.forward); err != nil {
		return nil, err
	}
	if def.Gradient == nil {
		return t, nil
	}
	t.losses, t.wanted = c.losses(t.forward, t.Vars), c.wanted()
	if len(t.wanted) == 0 || len(t.losses) == 0 {
		t.wanted, t.losses = nil, nil
		return t, nil
	}
	for i, name := range t.losses {
		t.Vars[program.GradName(name)] = convert(weights(i, t.Vars[name].Dims()), float)
	}
	made, err := def.Gradient(ops.NewGrad(t.forward, def,
		func(name string) bool { return slices.Contains(t.losses, name) },
		func(name string) bool { return slices.Contains(t.wanted, name) }))
	if err != nil {
		return nil, err
	}
	t.backward = made
	return t, t.Run(context.Background(), made...)
}

// weights returns the gradient of the loss in output i.
func weights(i int, dims []int64) *tensor.Tensor {
	n, _ := tensor.Count(dims)
	values := make([]float64, n)
	for k := range values {
		values[k] = 0.5 + float64((3*k+5*i)%7)/4
	}
	return Floats(dims, values...)
}

// differences compares the gradients of a float64 trace with central finite differences of the forward op.
func differences(t *trace) error {
	const h, tolerance = 1e-5, 2e-6
	if len(t.wanted) == 0 {
		return nil
	}
	kernel, err := t.Bind(t.forward)
	if err != nil {
		return err
	}
	loss := func() (float64, error) {
		if err := kernel(context.Background()); err != nil {
			return 0, err
		}
		total := 0.0
		for _, name := range t.losses {
			weight := t.Vars[program.GradName(name)].Float64s()
			for i, v := range t.Vars[name].Float64s() {
				total += weight[i] * v
			}
		}
		return total, nil
	}
	for _, name := range t.wanted {
		gradient, ok := t.Vars[program.GradName(name)]
		if !ok {
			return fmt.Errorf("no op of the gradient writes that of %s", name)
		}
		x := t.Vars[name].Float64s()
		for i, analytic := range dense(gradient.Clone()).Float64s() {
			at := x[i]
			x[i] = at + h
			above, err := loss()
			if err != nil {
				return err
			}
			x[i] = at - h
			below, err := loss()
			if err != nil {
				return err
			}
			x[i] = at
			if numeric := (above - below) / (2 * h); !near(analytic, numeric, tolerance) {
				return fmt.Errorf("gradient of %s[%d]: %v, finite differences give %v", name, i, analytic, numeric)
			}
		}
	}
	_, err = loss()
	return err
}

// Check runs a case in float64, forwards and backwards, and compares gradients with finite differences.
func Check(c Case) error {
	t, err := run(c, tensor.Float64)
	if err != nil {
		return err
	}
	return differences(t)
}
