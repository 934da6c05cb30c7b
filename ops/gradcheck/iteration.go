package gradcheck

import (
	"fmt"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// alone runs one iteration of a loop where nothing that it does not own holds its value.
func alone(t *trace, op *program.Op, whole *Interpreter, workers, at, i int) error {
	m, loops, err := before(t, op, workers, at)
	if err != nil {
		return err
	}
	l := loops[0]
	var kept []string // variables of which it may read everything
	for slot, names := range op.Inputs {
		if slices.Contains(l.Whole, slot) && (l.Reads == nil || slices.Contains(l.Reads, slot)) {
			kept = append(kept, names...)
		}
	}
	for _, name := range op.InputNames() {
		v := m.Vars[name]
		own := v.Clone()
		if !slices.Contains(kept, name) {
			garble(v)
			if l.Reads == nil || reads(op, l, name) {
				if v.Len()%l.N != 0 {
					return fmt.Errorf("%s has %d elements", name, v.Len())
				}
				copyElements(v, own, i*v.Len()/l.N, (i+1)*v.Len()/l.N)
			}
		}
	}
	for _, name := range op.OutputNames() {
		if !slices.Contains(op.InputNames(), name) {
			garble(m.Vars[name])
		}
	}
	untouched := map[string]*tensor.Tensor{}
	for _, name := range op.OutputNames() {
		untouched[name] = m.Vars[name].Clone()
	}
	if err := l.Run(0, i, i+1); err != nil {
		return err
	}
	for _, name := range op.OutputNames() {
		want := untouched[name]
		if slices.Contains(written(op, l), name) {
			copyElements(want, whole.Vars[name], i*want.Len()/l.N, (i+1)*want.Len()/l.N)
		}
		if err := sameBits(m.Vars[name], want); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func reads(op *program.Op, l ops.Loop, name string) bool {
	return slices.ContainsFunc(l.Reads, func(slot string) bool { return slices.Contains(op.Inputs[slot], name) })
}

// written returns the variables that a loop of op writes.
func written(op *program.Op, l ops.Loop) []string {
	var names []string
	for slot, list := range op.Outputs {
		if l.Writes == nil || slices.Contains(l.Writes, slot) {
			names = append(names, list...)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == program.Empty })
}

func copyElements(to, from *tensor.Tensor, first, last int) {
	switch to.DType() {
	case tensor.Float32:
		copy(to.Float32s()[first:last], from.Float32s()[first:last])
	case tensor.Float64:
		copy(to.Float64s()[first:last], from.Float64s()[first:last])
	case tensor.Int32:
		copy(to.Int32s()[first:last], from.Int32s()[first:last])
	case tensor.Int64:
		copy(to.Int64s()[first:last], from.Int64s()[first:last])
	case tensor.Bool:
		copy(to.Bools()[first:last], from.Bools()[first:last])
	}
}
