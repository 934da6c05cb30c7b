package gradcheck

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// inPlace runs op with each output that may share the buffer of an input in that buffer, and compares bits.
func inPlace(t *trace, op *program.Op) error {
	def, _ := ops.Lookup(op.Type)
	for to, from := range def.InPlace {
		in, out := t.Vars[op.In(from)], t.Vars[op.Out(to)]
		if in == nil || out == nil || in.DType() != out.DType() || in.Len() != out.Len() {
			continue
		}
		apart, shared := t.copyFor(op), t.copyFor(op)
		if err := apart.Run(context.Background(), op); err != nil {
			return err
		}
		buffer, err := shared.Vars[op.In(from)].Reshape(out.Dims()...)
		if err != nil {
			return err
		}
		shared.Vars[op.Out(to)] = withRows(buffer, out)
		if err := shared.Run(context.Background(), op); err != nil {
			return err
		}
		for _, name := range op.OutputNames() {
			if err := sameBits(shared.Vars[name], apart.Vars[name]); err != nil {
				return fmt.Errorf("%s with %s in the buffer of %s: %w", name, to, from, err)
			}
		}
	}
	return nil
}

// copyFor returns an interpreter that holds copies of what op reads.
func (t *trace) copyFor(op *program.Op) *Interpreter {
	vars := map[string]*tensor.Tensor{}
	for _, name := range op.InputNames() {
		vars[name] = t.Vars[name].Clone()
	}
	return NewInterpreter(vars, *t.Env.Step)
}

// rowSliced runs a RowSliced op on the rows of parameter-shaped arguments from the second on, and compares bits with
// those rows of the whole. Arguments of other dims are given as they are.
func rowSliced(t *trace, op *program.Op) error {
	def, _ := ops.Lookup(op.Type)
	first := t.Vars[op.Out(def.Outputs[0].Name)]
	if !def.RowSliced || first == nil || first.IsSelected() || len(first.Dims()) == 0 || first.Dims()[0] < 2 {
		return nil
	}
	whole, sliced := t.copyFor(op), t.copyFor(op)
	if err := whole.Run(context.Background(), op); err != nil {
		return err
	}
	rows := first.Dims()[0]
	for name, v := range maps.Clone(sliced.Vars) {
		switch {
		case v.IsSelected():
			return nil // rows are not cut
		case slices.Equal(v.Dims(), first.Dims()):
			sliced.Vars[name] = must(v.Rows(1, rows))
		case v.Len() != 1:
			return nil // Y lies over some of the axes: not an update of a parameter
		}
	}
	if err := sliced.Run(context.Background(), op); err != nil {
		return err
	}
	for _, name := range op.OutputNames() {
		if err := sameBits(sliced.Vars[name], must(whole.Vars[name].Rows(1, rows))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func sameBits(got, want *tensor.Tensor) error {
	if !slices.Equal(got.Dims(), want.Dims()) || !sameRows(got, want) {
		return fmt.Errorf("dims %v, want %v", got.Dims(), want.Dims())
	}
	g, w := numbers(got), numbers(want)
	for i := range w {
		if math.Float64bits(g[i]) != math.Float64bits(w[i]) {
			return fmt.Errorf("element %d is %v, want %v", i, g[i], w[i])
		}
	}
	return nil
}
