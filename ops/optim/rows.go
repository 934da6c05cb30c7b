package optim

import (
	"cmp"
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A sparse gradient holds rows of a table. A row may occur several times: each occurrence is a place. The update first sums the places of one
// row, in the order of the batch, which gives the bits of the dense gradient. So a row has one gradient on one machine and on a cluster, whose trainers send
// sums. Then the rule runs on blocks of rows that fit into the cache. A rule that changes all rows runs on one block of the table after another, with zeros
// for rows without a gradient. Where the rule leaves zeros as they are, it leaves out blocks that are zeros: free rows of a table that grows, which then take no
// memory. A lazy rule runs on blocks gathered from rows of the gradient, or steps on them in place. No memory grows with the table.

// blockElements is about how many elements of each operand a block has. All operands of adam for one block fit into the L2 cache.
const blockElements = 4096

// always is the lazy of a rule that changes nothing where the gradient is zero.
const always = "always"

// touchesRows reports whether op changes only rows that a sparse gradient has.
func (r *rule) touchesRows(op *program.Op) bool {
	lazy, _ := op.Bool(r.lazy)
	return lazy || r.lazy == always
}

// A rowUpdate applies a rule to a sparse gradient.
type rowUpdate[T tensor.Float] struct {
	bound  *bound[T]
	update func(*operands[T])
	grad   *tensor.Tensor
	rows   *tensor.Tensor
	height int64
	width  int
	lazy   bool // only rows of the gradient change
	steps  bool // by kernel.SGDRows

	order, spare *tensor.Tensor // of the length of rows
	ordered      []int64        // of one of them, as kernel.OrderRows left it: an entry for each row that the gradient holds
	parts        []rowPart[T]

	// Of a rule that changes all rows: one element that is zero in all operands, and whether it stays so in this run.
	zero  operands[T]
	ofIt  []T // the elements of zero
	stays bool
	live  []tensor.RowRange // rows in use, in this run; nil: all
}

// A rowPart is the memory for one block.
type rowPart[T tensor.Float] struct {
	whole, block operands[T]
	sums         *tensor.Tensor   // merged gradients
	touched      *tensor.Tensor   // rows of the block; touched and gathered are for lazy rules only
	gathered     []*tensor.Tensor // Param and each accumulator
}

// bindRows binds a rule to a sparse gradient. The loops in powers run afterwards.
func bindRows[T tensor.Float](r *rule, b *ops.Binding, bound *bound[T], update func(*operands[T]), powers []ops.Loop) (ops.Kernel, error) {
	param, grad := b.In(paramSlot), b.In(gradSlot)
	rows, height := grad.Selected()
	if param.Len() == 0 {
		if len(powers) > 0 {
			return b.Loops(powers...)
		}
		return func(context.Context) error { return nil }, nil
	}
	u := &rowUpdate[T]{bound: bound, update: update, grad: grad, rows: rows, height: height, width: param.Len() / int(height)}
	n := rows.Len()
	if err := checkOrderable(b, n, height); err != nil {
		return nil, err
	}
	u.order, u.spare = b.Scratch(tensor.Int64, n), b.Scratch(tensor.Int64, n)
	u.lazy, u.steps = r.touchesRows(b.Op()), r.steps
	block := max(1, blockElements/u.width)
	u.makeParts(b, len(r.accumulators), block)
	run := u.allRows
	if u.lazy {
		run = u.touchedRows
	}
	return b.Loops(append([]ops.Loop{
		{N: 1, Reads: append(r.numberSlots(), gradSlot), Writes: []string{}, Run: u.begin},
		{N: int(u.height), Least: block, Whole: append(r.wholeSlots(), gradSlot), Writes: r.stateSlots(), Run: run},
	}, powers...)...)
}

// checkOrderable checks that n rows of a gradient of a given height can be ordered.
func checkOrderable(b *ops.Binding, n int, height int64) error {
	if kernel.OrderableRows(n, height) {
		return nil
	}
	return fault.E(fault.TooLarge, fault.Var(b.Op().In(gradSlot)), fault.Gotf("%d rows of %d", n, height), fault.Want("a product of both below 2^62"))
}

func (u *rowUpdate[T]) makeParts(b *ops.Binding, accumulators, block int) {
	most := int(u.height)
	if u.lazy {
		most = max(1, u.rows.Len())
	}
	if !u.lazy {
		u.zero, u.ofIt = u.bound.operands(), make([]T, 2+accumulators)
		u.zero.param, u.zero.grad = u.ofIt[:1:1], u.ofIt[1:2:2]
		for i := range accumulators {
			if !u.bound.updated[1+i].absent() {
				u.zero.accumulators[i] = u.ofIt[2+i:][:1:1]
			}
		}
	}
	block = min(block, most)
	u.parts = make([]rowPart[T], b.Parts())
	for i := range u.parts {
		p := &u.parts[i]
		p.whole, p.block = u.bound.operands(), u.bound.operands()
		p.sums = b.Scratch(tensor.Of[T](), block*u.width)
		if !u.lazy {
			continue
		}
		p.touched = b.Scratch(tensor.Int64, block)
		if u.steps {
			continue
		}
		for range 1 + accumulators {
			p.gathered = append(p.gathered, b.Scratch(tensor.Of[T](), block*u.width))
		}
	}
}

// begin orders the places of the gradient by row, and finds whether zeros stay zeros in this run: that may depend on its numbers.
func (u *rowUpdate[T]) begin(int, int, int) error {
	u.ordered = kernel.OrderRows(u.order.Int64s(), u.spare.Int64s(), tensor.UsedRows(u.grad), u.height)
	if u.ofIt == nil {
		return nil
	}
	p, _ := u.part(0, 0, 0)
	u.zero.rate, u.zero.numbers = p.whole.rate, p.whole.numbers
	clear(u.ofIt)
	u.update(&u.zero)
	u.stays, u.live = tensor.AreZeros(u.ofIt), tensor.Live(u.grad)
	return nil
}

// next returns the next rows to update at once: at most n rows from row on, before end. It leaves out rows that are known to be free, if zeros stay zeros. There are
// none left where from is end.
func (u *rowUpdate[T]) next(row, n, end int) (from, to int) {
	if u.live == nil || !u.stays {
		return row, min(row+n, end)
	}
	at, _ := slices.BinarySearchFunc(u.live, int64(row), func(r tensor.RowRange, row int64) int { return cmp.Compare(r.To, row+1) })
	if at == len(u.live) || u.live[at].From >= int64(end) {
		return end, end
	}
	from = max(row, int(u.live[at].From))
	return from, min(from+n, end, int(u.live[at].To))
}

// leavesOut reports whether nothing changes in a block: rows [from, to), of which param and elements [at, end) of the accumulators are zeros, without a gradient.
func (u *rowUpdate[T]) leavesOut(o *operands[T], zeros bool, ordered []int64, from, to, at, end int) bool {
	if !u.stays || !zeros || len(kernel.OrderedBetween(ordered, len(u.ordered), int64(from), int64(to))) > 0 {
		return false
	}
	for _, a := range o.accumulators {
		if a != nil && !tensor.AreZeros(a[at:end]) {
			return false
		}
	}
	return true
}

// checkGradient checks that a gradient is dense and like the parameter, or rows of a tensor like it.
func checkGradient(grad *tensor.Tensor, dtype tensor.DType, param *tensor.Tensor) error {
	if grad == nil || !grad.IsSelected() {
		return like(gradSlot, grad, dtype, param)
	}
	whole := ops.MetaOfValue(grad).Dims
	if grad.DType() != dtype || !slices.Equal(whole, param.Dims()) {
		return fault.E(fault.ShapeMismatch, fault.Got(gradSlot+" "+grad.String()), fault.Want("rows of "+param.String()+", like Param"))
	}
	return nil
}

// part makes a part ready for rows [from, to) of the table. It returns it with the places of the gradient that lie there, in order.
func (u *rowUpdate[T]) part(part, from, to int) (p *rowPart[T], ordered []int64) {
	p = &u.parts[part]
	u.bound.load(&p.whole, from*u.width, to*u.width)
	p.block.rate, p.block.numbers = p.whole.rate, p.whole.numbers
	return p, kernel.OrderedBetween(u.ordered, len(u.ordered), int64(from), int64(to))
}

// allRows updates rows [from, to) of the table.
func (u *rowUpdate[T]) allRows(part, from, to int) error {
	p, ordered := u.part(part, from, to)
	o, b, n, values := &p.whole, &p.block, len(u.ordered), tensor.Data[T](u.grad)
	sums := tensor.Data[T](p.sums)
	for row, till := from, 0; ; row = till {
		if row, till = u.next(row, len(sums)/u.width, to); row >= to {
			return nil
		}
		at, end := (row-from)*u.width, (till-from)*u.width
		if u.leavesOut(o, tensor.AreZeros(o.param[at:end]), ordered, row, till, at, end) {
			continue
		}
		b.grad = sums[:end-at]
		clear(b.grad)
		ordered = ordered[kernel.AddRowsFrom(b.grad, int64(row), ordered, n, values, u.width):]
		b.param = o.param[at:end]
		for i, a := range o.accumulators {
			if a != nil {
				b.accumulators[i] = a[at:end]
			}
		}
		u.update(b)
	}
}

// touchedRows updates the rows of the gradient that lie in rows [from, to) of the table.
func (u *rowUpdate[T]) touchedRows(part, from, to int) error {
	p, ordered := u.part(part, from, to)
	o, b, n, values := &p.whole, &p.block, len(u.ordered), tensor.Data[T](u.grad)
	sums, all := tensor.Data[T](p.sums), p.touched.Int64s()
	for len(ordered) > 0 {
		rows, taken := kernel.MergeRows(sums, all, ordered, int64(from), n, values, u.width)
		ordered = ordered[taken:]
		touched, size := all[:rows], rows*u.width
		if u.steps {
			kernel.SGDRows(o.param, touched, sums[:size], u.width, o.rate)
			continue
		}
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
