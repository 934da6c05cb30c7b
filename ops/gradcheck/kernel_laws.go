package gradcheck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// inPlace runs op with each output in the buffer of the input that it may share, and compares bits.
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

// rowSliced runs a RowSliced op without the first row of arguments with the shape of the parameter, and compares bits with the run on all rows.
func rowSliced(t *trace, op *program.Op) error {
	def, _ := ops.Lookup(op.Type)
	if !def.RowSliced {
		return nil
	}
	first := t.Vars[op.Out(def.Outputs[0].Name)]
	if first == nil || first.IsSelected() || len(first.Dims()) == 0 || first.Dims()[0] < 2 {
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

// unwanted runs op with one output after the other replaced by program.Empty. The other outputs must keep their bits. It leaves out random ops,
// which key their numbers by the name of an output.
func unwanted(t *trace, op *program.Op) error {
	if def, _ := ops.Lookup(op.Type); def.Class == ops.Random {
		return nil
	}
	whole := t.copyFor(op)
	if err := whole.Run(context.Background(), op); err != nil {
		return err
	}
	for slot, names := range op.Outputs {
		for i, name := range names {
			if name == program.Empty {
				continue
			}
			without := op.Clone()
			without.Outputs[slot][i] = program.Empty
			part := t.copyFor(op)
			if err := part.Run(context.Background(), without); err != nil {
				return fmt.Errorf("without %s: %w", name, err)
			}
			for _, other := range without.OutputNames() {
				if err := sameBits(part.Vars[other], whole.Vars[other]); err != nil {
					return fmt.Errorf("%s without %s: %w", other, name, err)
				}
			}
		}
	}
	return nil
}

// ranges checks the law of loops (see ops.Loop): ranges in any order and with different parts give the bits of the whole, and each range reads and
// writes only what its iterations own. A loop that says that it copies does so.
func ranges(t *trace, op *program.Op) error {
	whole := t.copyFor(op)
	if err := whole.Run(context.Background(), op); err != nil {
		return err
	}
	for _, workers := range []int{1, 2} {
		if err := rangesOf(t, op, whole, workers); err != nil {
			return fmt.Errorf("%d workers: %w", workers, err)
		}
	}
	return nil
}

func rangesOf(t *trace, op *program.Op, whole *Interpreter, workers int) error {
	m := t.copyFor(op)
	m.Env.Workers = workers
	_, loops, err := m.bind(op)
	if err != nil {
		return err
	}
	for at, l := range loops {
		if err := copies(op, l, whole); err != nil {
			return fmt.Errorf("loop %d: %w", at, err)
		}
		for _, from := range []int{0, l.N / 2, l.N - 1} {
			if from < 0 || from >= l.N {
				continue
			}
			if err := backwards(t, op, whole, workers, at, from); err != nil {
				return fmt.Errorf("loop %d cut at %d of %d: %w", at, from, l.N, err)
			}
			if l.Apart {
				continue
			}
			if err := alone(t, op, whole, workers, at, from); err != nil {
				return fmt.Errorf("iteration %d of %d of loop %d: %w", from, l.N, at, err)
			}
		}
	}
	return nil
}

// copies checks of a loop that copies that both slots have the same elements, one variable after the other.
func copies(op *program.Op, l ops.Loop, whole *Interpreter) error {
	if !l.Copies {
		return nil
	}
	from, err := inARow(whole, op.Inputs[l.Reads[0]])
	if err != nil {
		return err
	}
	to, err := inARow(whole, op.Outputs[l.Writes[0]])
	if err != nil {
		return err
	}
	return sameBits(to, from)
}

// inARow returns the elements of several variables, one after the other.
func inARow(m *Interpreter, names []string) (*tensor.Tensor, error) {
	n := 0
	for _, name := range names {
		if name == program.Empty {
			return nil, fmt.Errorf("it copies, and a variable is missing")
		}
		n += m.Vars[name].Len()
	}
	all, err := tensor.New(m.Vars[names[0]].DType(), int64(n))
	at := int64(0)
	for _, name := range names {
		v := m.Vars[name]
		part, cut := all.Rows(at, at+int64(v.Len()))
		if err = errors.Join(err, cut); err == nil {
			err = part.CopyFrom(v)
		}
		if err != nil {
			return nil, err
		}
		at += int64(v.Len())
	}
	return all, nil
}

// before binds op in a new interpreter, runs the loops before one of them, and returns that loop and the later ones.
func before(t *trace, op *program.Op, workers, at int) (*Interpreter, []ops.Loop, error) {
	m := t.copyFor(op)
	m.Env.Workers = workers
	_, loops, err := m.bind(op)
	if err != nil {
		return nil, nil, err
	}
	return m, loops[at:], runAll(loops[:at])
}

func runAll(loops []ops.Loop) error {
	for _, l := range loops {
		if l.N == 0 {
			continue
		}
		if err := l.Run(0, 0, l.N); err != nil {
			return err
		}
	}
	return nil
}

// backwards runs the later iterations of a loop before the earlier ones, and then the later loops.
func backwards(t *trace, op *program.Op, whole *Interpreter, workers, at, from int) error {
	m, loops, err := before(t, op, workers, at)
	if err != nil {
		return err
	}
	l := loops[0]
	if err := l.Run(workers-1, from, l.N); err != nil {
		return err
	}
	if from > 0 {
		if err := l.Run(0, 0, from); err != nil {
			return err
		}
	}
	if err := runAll(loops[1:]); err != nil {
		return err
	}
	for _, name := range op.OutputNames() {
		if err := sameBits(m.Vars[name], whole.Vars[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// alone runs one iteration of a loop while all elements that it does not own hold garbage.
func alone(t *trace, op *program.Op, whole *Interpreter, workers, at, i int) error {
	m, loops, err := before(t, op, workers, at)
	if err != nil {
		return err
	}
	l := loops[0]
	var kept []string // variables that it may read as a whole
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
