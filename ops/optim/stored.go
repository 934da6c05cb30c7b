package optim

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A table may be stored as bfloat16. Its gradient, its accumulators and all arithmetic are float32: an update widens the rows that it changes, runs the rule on
// them, and rounds them by chance (kernel.Rounding), once in each step. Chance follows from the attribute rounding_seed, the number of the step, and the place of the
// element in the whole table. So a slice of the table gets the bits that these rows get in the whole.

const (
	seedAttr    = "rounding_seed"
	firstAttr   = "first_row"
	stripedAttr = "striped_rows"
)

// stores reports whether a rule updates parameters that are stored as bfloat16. A rule with norms does not: it is not for tables.
func (r *rule) stores() bool { return r.whole32 == nil }

func paramDoc(r *rule) string {
	if !r.stores() {
		return "the parameter, float32 or float64"
	}
	return "the parameter, float32 or float64; or bfloat16, where all else is float32"
}

func storedAttrs(r *rule) []ops.Attr {
	if !r.stores() {
		return nil
	}
	notNegative := func(name string) func(*program.Op) error {
		return func(op *program.Op) error {
			if v, ok := op.Int(name); ok && v < 0 {
				return errors.New("a number from 0")
			}
			return nil
		}
	}
	return []ops.Attr{
		{Name: seedAttr, Default: int64(0), Doc: "key of the chance by which a Param of bfloat16 is rounded"},
		{Name: firstAttr, Default: int64(0), Doc: "of a Param of bfloat16 that is a slice: the row of the table with which it begins", Check: notNegative(firstAttr)},
		{Name: stripedAttr, Default: int64(0), Doc: "rows of the table, if first_row counts in the order of stripes (kernel.Stripes); else 0", Check: notNegative(stripedAttr)},
	}
}

// inferStored checks the inputs of an update of a parameter of bfloat16, the first of the slots.
func inferStored(s *ops.Shapes, slots []string) error {
	for _, slot := range slots[1:] {
		for i, m := range s.Ins(slot) {
			if m.DType != tensor.Float32 {
				return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().Inputs[slot][i]), fault.Gotf("%s %v", slot, m),
					fault.Want("float32, with a Param of bfloat16"))
			}
		}
	}
	param, first, total := s.In(paramSlot), s.Int(firstAttr), s.Int(stripedAttr)
	if len(param.Dims) == 0 {
		return s.Errorf(paramSlot, "a table with rows")
	}
	if total != 0 && (first > total || param.Dims[0] > total-first) {
		return opkit.BadAttr(s, stripedAttr, "the rows of the table, of which Param has %d from row %d on", param.Dims[0], first)
	}
	return nil
}

// A storedUpdate applies a rule to a parameter of bfloat16.
type storedUpdate struct {
	rowUpdate[float32]
	seed    int64
	name    uint64
	step    *ops.Step
	first   int64
	stripes *kernel.Stripes // nil: rows are in their own order
}

func bindStored(r *rule, b *ops.Binding) (ops.Kernel, error) {
	all, err := collect[float32](r, b)
	if err != nil {
		return nil, err
	}
	powers, err := bindPowers[float32](r, b)
	if err != nil {
		return nil, err
	}
	param, grad := b.In(paramSlot), b.In(gradSlot)
	if param.Len() == 0 {
		if len(powers) > 0 {
			return b.Loops(powers...)
		}
		return func(context.Context) error { return nil }, nil
	}
	u := &storedUpdate{seed: b.Int(seedAttr), name: kernel.StreamOf("bfloat16"), step: b.Env.Step, first: b.Int(firstAttr)}
	u.bound, u.update, u.grad = all, r.float32(b), grad
	u.height = param.Dims()[0]
	u.width = param.Len() / int(u.height)
	if total := b.Int(stripedAttr); total != 0 {
		stripes := kernel.StripesOf(total)
		u.stripes = &stripes
	}
	var loops []ops.Loop
	if grad.IsSelected() {
		u.rows, _ = grad.Selected()
		n := u.rows.Len()
		if err := checkOrderable(b, n, u.height); err != nil {
			return nil, err
		}
		u.order, u.spare = b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n)
		u.lazy = r.touchesRows(b.Op())
		loops = append(loops, ops.Loop{N: 1, Reads: append(r.numberSlots(), gradSlot), Writes: []string{}, Run: u.begin})
	}
	block := max(1, blockElements/u.width)
	u.makeParts(b, len(r.accumulators), block)
	run := u.touchedRows
	if !u.lazy {
		run = u.allRows
		for i := range u.parts {
			p := &u.parts[i]
			p.gathered = []*tensor.Tensor{b.Scratch(tensor.Float32, p.sums.Len())}
		}
	}
	loops = append(loops, ops.Loop{N: int(u.height), Least: block, Whole: append(r.wholeSlots(), gradSlot), Writes: r.stateSlots(), Run: run})
	return b.Loops(append(loops, powers...)...)
}

// table returns rows [from, to) of the parameter, and makes a part ready for them.
func (u *storedUpdate) table(part, from, to int) (p *rowPart[float32], ordered []int64, table []uint16) {
	p, ordered = u.part(part, from, to)
	return p, ordered, inPlace[uint16](u.bound.updated[0], from*u.width, to*u.width)
}

// store rounds rows into the table. row is the first of them, here.
func (u *storedUpdate) store(table []uint16, x []float32, row int) {
	r := kernel.Rounding{Seed: u.seed, Stream: opkit.StreamAt(u.name, u.step)}
	if u.stripes == nil {
		r.Round(table, x, uint64(u.first+int64(row))*uint64(u.width))
		return
	}
	for at := 0; at < len(x); at, row = at+u.width, row+1 {
		place := u.stripes.Row(u.first + int64(row))
		r.Round(table[at:][:u.width], x[at:][:u.width], uint64(place)*uint64(u.width))
	}
}

// allRows updates rows [from, to) of the table.
func (u *storedUpdate) allRows(part, from, to int) error {
	p, ordered, table := u.table(part, from, to)
	o, b, values := &p.whole, &p.block, u.grad.Float32s()
	room, sums := p.gathered[0].Float32s(), p.sums.Float32s()
	for row, till := from, 0; ; row = till {
		if row, till = u.next(row, len(room)/u.width, to); row >= to {
			return nil
		}
		at, end := (row-from)*u.width, (till-from)*u.width
		if u.rows != nil && u.leavesOut(o, tensor.AreZeros(table[at:end]), ordered, row, till, at, end) {
			continue
		}
		if u.rows == nil {
			b.grad = values[from*u.width:][at:end]
		} else {
			b.grad = sums[:end-at]
			clear(b.grad)
			ordered = ordered[kernel.AddRowsFrom(b.grad, int64(row), ordered, len(u.ordered), values, u.width):]
		}
		b.param = room[:end-at]
		kernel.FromBFloat16(b.param, table[at:end])
		for i, a := range o.accumulators {
			if a != nil {
				b.accumulators[i] = a[at:end]
			}
		}
		u.update(b)
		u.store(table[at:end], b.param, row)
	}
}

// touchedRows updates the rows of the gradient that lie in rows [from, to) of the table.
func (u *storedUpdate) touchedRows(part, from, to int) error {
	p, ordered, table := u.table(part, from, to)
	o, b, values := &p.whole, &p.block, u.grad.Float32s()
	sums, all := p.sums.Float32s(), p.touched.Int64s()
	for len(ordered) > 0 {
		rows, taken := kernel.MergeRows(sums, all, ordered, int64(from), len(u.ordered), values, u.width)
		ordered = ordered[taken:]
		touched, size := all[:rows], rows*u.width
		b.param, b.grad = p.gathered[0].Float32s()[:size], sums[:size]
		kernel.GatherWide(b.param, table, touched, u.width)
		for i, a := range o.accumulators {
			if a != nil {
				b.accumulators[i] = p.gathered[i+1].Float32s()[:size]
				kernel.GatherRows(b.accumulators[i], a, touched, u.width)
			}
		}
		u.update(b)
		for i, row := range touched {
			u.store(table[int(row)*u.width:][:u.width], b.param[i*u.width:][:u.width], from+int(row))
		}
		for i, a := range o.accumulators {
			if a != nil {
				kernel.ScatterRows(a, b.accumulators[i], touched, u.width)
			}
		}
	}
	return nil
}
