package optim

import (
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// part makes a part ready for rows [from, to) of the table. It returns it with the places of the gradient that lie there, in order.
func (u *rowUpdate[T]) part(part, from, to int) (p *rowPart[T], ordered []int64) {
	p = &u.parts[part]
	u.bound.load(&p.whole, from*u.width, to*u.width)
	p.block.rate, p.block.numbers = p.whole.rate, p.whole.numbers
	return p, kernel.OrderedBetween(u.ordered, u.rows.Len(), int64(from), int64(to))
}

// allRows updates rows [from, to) of the table.
func (u *rowUpdate[T]) allRows(part, from, to int) error {
	p, ordered := u.part(part, from, to)
	o, b, n, values := &p.whole, &p.block, u.rows.Len(), tensor.Data[T](u.grad)
	sums := tensor.Data[T](p.sums)
	for at := 0; at < len(o.param); at += len(sums) {
		end := min(at+len(sums), len(o.param))
		b.grad = sums[:end-at]
		clear(b.grad)
		ordered = ordered[kernel.AddRowsFrom(b.grad, int64(from+at/u.width), ordered, n, values, u.width):]
		b.param = o.param[at:end]
		for i, a := range o.accumulators {
			if a != nil {
				b.accumulators[i] = a[at:end]
			}
		}
		u.update(b)
	}
	return nil
}

// touchedRows updates those of rows [from, to) of the table that the gradient holds.
func (u *rowUpdate[T]) touchedRows(part, from, to int) error {
	p, ordered := u.part(part, from, to)
	o, b, n, values := &p.whole, &p.block, u.rows.Len(), tensor.Data[T](u.grad)
	sums, all := tensor.Data[T](p.sums), p.touched.Int64s()
	for len(ordered) > 0 {
		rows, taken := kernel.MergeRows(sums, all, ordered, int64(from), n, values, u.width)
		ordered = ordered[taken:]
		touched, size := all[:rows], rows*u.width
		b.param, b.grad = tensor.Data[T](p.gathered[0])[:size], sums[:size]
		kernel.GatherRows(b.param, o.param, touched, u.width)
		for i, a := range o.accumulators {
			if a != nil {
				b.accumulators[i] = tensor.Data[T](p.gathered[i+1])[:size]
				kernel.GatherRows(b.accumulators[i], a, touched, u.width)
			}
		}
		u.update(b)
		kernel.ScatterRows(o.param, b.param, touched, u.width)
		for i, a := range o.accumulators {
			if a != nil {
				kernel.ScatterRows(a, b.accumulators[i], touched, u.width)
			}
		}
	}
	return nil
}
