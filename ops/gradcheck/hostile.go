package gradcheck

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// attempts is the number of mutated ops that Hostile tries.
const attempts = 30000

// A Seed is an op that is legal with variables like these. Metas has what the op reads, and what it writes where inference leaves that to the declaration.
type Seed struct {
	Op    *program.Op
	Metas map[string]ops.Meta
}

// Hostile mutates seeds. Inference must return, with the same error each time. If it accepts a small op, the op must bind and run; a kernel may
// return an error for its data. Every run makes the same mutations.
func Hostile(t *testing.T, seeds []Seed) {
	t.Helper()
	m := mutator{rand.New(rand.NewPCG(2018, 2))}
	for i := range attempts {
		s := seeds[i%len(seeds)]
		op, metas := s.Op.Clone(), maps.Clone(s.Metas)
		for range 1 + m.IntN(3) {
			m.mutate(op, metas)
		}
		if err := survives(op, metas, m); err != nil {
			t.Fatalf("%v of %v\nattributes %v\n%v", op.Type, op.Inputs, op.Attrs, err)
		}
	}
}

// SeedOf makes a seed of the definition of an op alone: a variable in each slot, and attributes that must be set.
func SeedOf(def *ops.Def) Seed {
	s := Seed{Op: &program.Op{Type: def.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]program.Attr{}}, Metas: map[string]ops.Meta{}}
	meta := ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{4, 3}}
	for _, slot := range def.Inputs {
		s.Op.Inputs[slot.Name], s.Metas[slot.Name] = []string{slot.Name}, meta
	}
	for _, slot := range def.Outputs {
		s.Op.Outputs[slot.Name], s.Metas[slot.Name] = []string{slot.Name}, meta
	}
	for _, a := range def.Attrs {
		if a.Kind != nil {
			s.Op.Attrs[a.Name] = a.Kind
		}
	}
	return s
}

// seedsOf returns the ops of cases and of their gradients.
func seedsOf(t *testing.T, cases []Case) (seeds []Seed) {
	for _, c := range cases {
		trace, err := run(c, tensor.Float64)
		if err != nil {
			t.Fatal(c, err)
		}
		for _, op := range append(trace.backward, trace.forward) {
			metas := map[string]ops.Meta{}
			for _, name := range op.InputNames() {
				metas[name] = ops.MetaOfValue(trace.Vars[name])
			}
			seeds = append(seeds, Seed{op, metas})
		}
	}
	return seeds
}

// survives infers, binds and runs op and turns a panic into an error.
func survives(op *program.Op, metas map[string]ops.Meta, m mutator) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("inputs %v: panic: %v\n%s", metas, p, debug.Stack())
		}
	}()
	given := func(name string) (ops.Meta, bool) { v, ok := metas[name]; return v, ok }
	shapes, refused := ops.Infer(op, given)
	if refused != nil {
		if _, again := ops.Infer(op, given); again == nil || again.Error() != refused.Error() {
			return fmt.Errorf("inputs %v: refused with %q, and again with %q", metas, refused, again)
		}
		return nil
	}
	if err := costs(shapes); err != nil {
		return err
	}
	vars := map[string]*tensor.Tensor{}
	for _, name := range op.InputNames() { // in their order, so that every run draws the same
		meta := metas[name]
		if !small(meta) {
			return nil
		}
		vars[name] = m.values(meta)
	}
	for _, name := range op.OutputNames() {
		if meta, declared := metas[name]; declared && vars[name] == nil && meta.Kind == program.LoDTensor && small(meta) {
			vars[name] = m.values(meta)
		}
	}
	interpreter := NewInterpreter(vars, ops.Step{})
	interpreter.Env = offering(interpreter.Env)
	if shapes, refused = interpreter.Infer(op); refused != nil { // which knows offsets and values, too
		return nil
	}
	for slot := range op.Outputs {
		if slices.ContainsFunc(shapes.Outs(slot), func(meta ops.Meta) bool { return meta.Kind != 0 && !small(meta) }) {
			return nil
		}
	}
	if def, _ := ops.Lookup(op.Type); def.Bind != nil { // executors run the others
		_ = interpreter.Run(context.Background(), op)
	}
	return nil
}

func small(m ops.Meta) bool {
	n, ok := tensor.Count(m.Dims)
	if m.Kind == program.SelectedRows {
		if len(m.Dims) == 0 {
			return false // no table
		}
		stored, fits := tensor.Count(m.Stored())
		n, ok = max(n, stored), ok && fits && m.Rows <= 512 && (m.Rows == 0 || n > 0)
	}
	return ok && n <= 512 && len(m.Dims) <= tensor.MaxRank && m.DType.Computable()
}

// A mutator draws mutations.
type mutator struct{ *rand.Rand }

func pick[T any](m mutator, from ...T) T { return from[m.IntN(len(from))] }

func (m mutator) extent() int64 {
	if m.IntN(8) == 0 {
		return pick[int64](m, -5, math.MinInt64, 1<<31, 1<<40, 1<<62, math.MaxInt64)
	}
	return pick[int64](m, -1, 0, 1, 1, 2, 3, 4, 5)
}

func (m mutator) dims() []int64 {
	dims := make([]int64, pick(m, 0, 1, 2, 3, 4, 5, 17))
	for i := range dims {
		dims[i] = m.extent()
	}
	return dims
}

func (m mutator) dtype() tensor.DType {
	return pick(m, tensor.Bool, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64, tensor.UInt8, tensor.DType(99))
}

// mutate changes one thing about an op.
func (m mutator) mutate(op *program.Op, metas map[string]ops.Meta) {
	names := slices.Sorted(maps.Keys(metas))
	switch kind := m.IntN(10); {
	case kind < 3 && len(names) > 0:
		name := pick(m, names...)
		meta := metas[name]
		meta.Dims = slices.Clone(meta.Dims)
		if len(meta.Dims) == 0 || m.IntN(3) == 0 {
			meta.Dims = m.dims()
		} else {
			meta.Dims[m.IntN(len(meta.Dims))] = m.extent()
		}
		metas[name] = meta
	case kind == 3 && len(names) > 0:
		name := pick(m, names...)
		meta := metas[name]
		switch m.IntN(3) {
		case 0:
			meta.Kind, meta.Rows = program.SelectedRows, m.extent()
		case 1:
			meta.Kind, meta.Rows = pick(m, program.LoDTensor, program.SelectedRows, program.Reader, program.VarKind(99)), 3
		default:
			meta.DType = m.dtype()
		}
		metas[name] = meta
	case kind == 4:
		m.mutateSlot(op.Inputs)
	case kind == 5:
		m.mutateSlot(op.Outputs)
	default:
		m.mutateAttr(op)
	}
}

func (m mutator) mutateSlot(slots map[string][]string) {
	if len(slots) == 0 {
		return
	}
	slot := pick(m, slices.Sorted(maps.Keys(slots))...)
	switch m.IntN(4) {
	case 0:
		delete(slots, slot)
	case 1:
		slots[slot] = append(slots[slot], program.Empty)
	case 2:
		slots[slot] = append(slots[slot], slots[slot]...)
	default:
		slots[slot] = slots[slot][:len(slots[slot])/2]
	}
}

func (m mutator) mutateAttr(op *program.Op) {
	def, _ := ops.Lookup(op.Type)
	if len(def.Attrs) == 0 {
		return
	}
	a := pick(m, def.Attrs...)
	switch a.Default.(type) {
	case float32:
		op.SetAttr(a.Name, pick(m, float32(math.NaN()), float32(math.Inf(1)), -1, 0, 1, 1e-30))
	case bool:
		op.SetAttr(a.Name, m.IntN(2) == 0)
	default:
		op.SetAttr(a.Name, m.attr())
	}
	if m.IntN(10) == 0 {
		delete(op.Attrs, a.Name)
	}
}

func (m mutator) attr() program.Attr {
	ints := make([]int32, m.IntN(5))
	longs := make([]int64, len(ints))
	for i := range ints {
		longs[i] = m.extent()
		ints[i] = int32(longs[i])
	}
	return pick[program.Attr](m, int32(m.extent()), m.extent(), m.extent(), ints, ints, longs, "", "max", "avg", m.IntN(2) == 0, float32(-1),
		[]string{"x"})
}

// values makes a tensor of small numbers, or, of a few tensors, of any.
func (m mutator) values(meta ops.Meta) *tensor.Tensor {
	t := must(tensor.New(meta.DType, meta.Stored()...))
	hostile := m.IntN(8) == 0 // as sizes and places that a program computes may be
	for i := range t.Len() {
		v := m.IntN(7) - 2
		if hostile {
			v = int(m.extent())
		}
		switch meta.DType {
		case tensor.Bool:
			t.Bools()[i] = v > 0
		case tensor.Int32:
			t.Int32s()[i] = int32(v)
		case tensor.Int64:
			t.Int64s()[i] = int64(v)
		case tensor.Float32:
			t.Float32s()[i] = float32(v)
		default:
			t.Float64s()[i] = float64(v)
		}
	}
	if meta.Kind != program.SelectedRows {
		t.SetLoD(m.lod(meta))
		return t
	}
	rows := make([]int64, meta.Rows) // legal ones, as the only ops that make them see to
	for i := range rows {
		rows[i] = m.Int64N(max(1, meta.Dims[0]))
	}
	return must((&tensor.SelectedRows{Rows: rows, Height: meta.Dims[0], Value: t}).Tensor())
}
