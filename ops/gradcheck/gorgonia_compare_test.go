package gradcheck

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	T "gorgonia.org/tensor"

	_ "github.com/edl-go/edl/ops/math"
	_ "github.com/edl-go/edl/ops/nn"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// compare runs a case here and its node in gorgonia.
func compare(c Case, inputs []string, build node) error {
	const tolerance = 1e-9
	ours, err := run(c, tensor.Float64)
	if err != nil {
		return err
	}
	graph := G.NewGraph()
	nodes := make([]*G.Node, len(inputs))
	for i, slot := range inputs {
		nodes[i] = variableNode(graph, slot, c.Inputs[slot][0])
	}
	out, err := build(nodes...)
	if err != nil {
		return err
	}
	cost, err := weighted(graph, out, ours)
	if err != nil {
		return err
	}
	gradients, err := G.Grad(cost, nodes...)
	if err != nil {
		return err
	}
	// The machine computes in place where it can, so what is to be compared is read when it is made.
	var output G.Value
	G.Read(out, &output)
	values := make([]G.Value, len(inputs))
	for i, g := range gradients {
		G.Read(g, &values[i])
	}
	machine := G.NewTapeMachine(graph)
	defer machine.Close()
	if err := machine.RunAll(); err != nil {
		return err
	}
	if err := closeTo(ours.Vars[ours.losses[0]], output, tolerance); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	for i, slot := range inputs {
		if err := closeTo(ours.Vars[program.GradName(variable(slot, 0))], values[i], tolerance); err != nil {
			return fmt.Errorf("gradient of %s: %w", slot, err)
		}
	}
	return nil
}

// weighted returns the loss that run takes the gradient of.
func weighted(graph *G.ExprGraph, out *G.Node, ours *trace) (*G.Node, error) {
	weight := ours.Vars[program.GradName(ours.losses[0])]
	if out.IsScalar() {
		return G.Mul(out, G.NewConstant(weight.Float64s()[0]))
	}
	dims := make([]int64, out.Dims())
	for i, extent := range out.Shape() {
		dims[i] = int64(extent)
	}
	weight, err := weight.Reshape(dims...)
	if err != nil {
		return nil, err
	}
	product, err := G.HadamardProd(out, variableNode(graph, "weight", weight))
	if err != nil {
		return nil, err
	}
	return G.Sum(product)
}

// everywhere makes a node of the shape of x that holds one value.
func everywhere(x *G.Node, name string, value float64) *G.Node {
	return G.NewTensor(x.Graph(), T.Float64, x.Dims(), G.WithName(name), G.WithShape(x.Shape()...), G.WithInit(G.ValuesOf(value)))
}

func variableNode(graph *G.ExprGraph, name string, t *tensor.Tensor) *G.Node {
	shape := make(T.Shape, len(t.Dims()))
	for i, d := range t.Dims() {
		shape[i] = int(d)
	}
	value := T.New(T.WithShape(shape...), T.WithBacking(append([]float64(nil), t.Float64s()...)))
	return G.NewTensor(graph, T.Float64, len(shape), G.WithName(name), G.WithShape(shape...), G.WithValue(value))
}

func closeTo(ours *tensor.Tensor, theirs G.Value, tolerance float64) error {
	var want []float64
	switch d := theirs.Data().(type) {
	case []float64:
		want = d
	case float64:
		want = []float64{d}
	}
	if len(want) != ours.Len() {
		return fmt.Errorf("%d elements, in gorgonia %d", ours.Len(), len(want))
	}
	for i, v := range ours.Float64s() {
		if !near(v, want[i], tolerance) {
			return fmt.Errorf("element %d is %v, in gorgonia %v", i, v, want[i])
		}
	}
	return nil
}
