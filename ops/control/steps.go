package control

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A stepper goes through the steps of a batch.
type stepper struct {
	op    *program.Op
	table *ops.RankTable
	first []int64        // of each step of the batch: its first row, and at the end the number of rows. Empty where steps are rows
	item  *tensor.Tensor // of one step of all sequences
	dims  []int64
	lod   [][]int64 // of item, in memory that is used again
}

// begin checks that a tensor has the steps of the batch, and finds the rows of each.
func (w *stepper) begin(slot string, x *tensor.Tensor) error {
	levels, steps := w.table.Levels(), w.table.Steps()
	lod := x.LoD()
	w.first = w.first[:0]
	if len(x.Dims()) > 0 && len(lod) <= levels {
		if x.Dims()[0] == steps {
			return nil
		}
		return fault.E(fault.ShapeMismatch, fault.Var(w.op.In(slot)), fault.Gotf("%v", x.Dims()), fault.Wantf("%d rows, as the batch of the rank table has", steps))
	}
	if err := tensor.CheckLoD(x); err != nil {
		return err
	}
	if got := int64(len(lod[levels])) - 1; got != steps {
		return fault.E(fault.ShapeMismatch, fault.Var(w.op.In(slot)), fault.Gotf("%d sequences in LoD level %d", got, levels), fault.Wantf("%d, as the batch of the rank table has", steps))
	}
	w.first = append(w.first, lod[levels]...)
	for _, level := range lod[levels+1:] {
		for i, at := range w.first {
			w.first[i] = level[at]
		}
	}
	return nil
}

// rows returns the rows of a step of the batch.
func (w *stepper) rows(step int64) (from, to int64) {
	if len(w.first) == 0 {
		return step, step + 1
	}
	return w.first[step], w.first[step+1]
}

// step returns the number in the batch of step t of the sequence of rank r.
func (w *stepper) step(t, r int64) int64 { return w.table.Offsets[w.table.Order[r]] + t }

// each calls do with what each step of x has of all sequences. do does not keep the tensor.
func (w *stepper) each(slot string, x *tensor.Tensor, do func(t int64, item *tensor.Tensor) error) error {
	if err := w.begin(slot, x); err != nil {
		return err
	}
	if w.item == nil {
		made, err := tensor.New(x.DType(), 0)
		if err != nil {
			return err
		}
		w.item = made
	}
	w.dims = append(w.dims[:0], x.Dims()...)
	for t := range w.table.Longest() {
		w.dims[0] = 0
		for r := range w.table.Having(t) {
			from, to := w.rows(w.step(t, r))
			w.dims[0] += to - from
		}
		if err := tensor.Resize(w.item, x.DType(), w.dims...); err != nil {
			return err
		}
		w.lod = emptied(w.lod, max(0, len(x.LoD())-w.table.Levels()))
		at := int64(0)
		for r := range w.table.Having(t) {
			step := w.step(t, r)
			from, to := w.rows(step)
			copyRows(w.item, at, x, from, to-from)
			at += to - from
			if len(w.lod) > 0 {
				appendPart(w.lod, x.LoD()[w.table.Levels():], step)
			}
		}
		tensor.CopyLoD(w.item, w.lod)
		if err := do(t, w.item); err != nil {
			return err
		}
	}
	return nil
}

// emptied returns n levels without sequences, in the memory of lod.
func emptied(lod [][]int64, n int) [][]int64 {
	lod = lod[:min(n, cap(lod))]
	for len(lod) < n {
		lod = append(lod, nil)
	}
	for i := range lod {
		lod[i] = append(lod[i][:0], 0)
	}
	return lod
}

// appendPart appends sequence i of the outermost level of lod, with all that it consists of, to dst, which has as many levels. It returns the rows of the sequence.
func appendPart(dst, lod [][]int64, i int64) (from, to int64) {
	from, to = i, i+1
	for l, level := range lod {
		last := dst[l][len(dst[l])-1]
		for k := from; k < to; k++ {
			dst[l] = append(dst[l], last+level[k+1]-level[from])
		}
		from, to = level[from], level[to]
	}
	return from, to
}

// bindJoin puts the items of the array in slot from together. They have as many sequences, or rows, as sequences of the table have the step.
func bindJoin(b *ops.Binding, from, to string) (ops.Kernel, error) {
	out := b.Out(to)
	table, err := b.RankIn("RankTable")
	if err != nil {
		return nil, err
	}
	items, err := b.ArrayIn(from)
	var dims []int64
	var ranks []int64
	var lod, all [][]int64
	return func(context.Context) error {
		if out == nil {
			return nil
		}
		dtype, inner := out.DType(), 0
		if dims = append(dims[:0], out.Dims()...); table.Longest() > 0 {
			first, err := items.At(0)
			if err != nil {
				return err
			}
			dtype, inner, dims = first.DType(), len(first.LoD()), append(dims[:0], first.Dims()...)
		}
		if len(dims) == 0 {
			return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(from)), fault.Got("items without rows"), fault.Want("rank 1 or more"))
		}
		dims[0] = 0
		for t := range table.Longest() {
			item, err := items.At(t)
			if err != nil {
				return err
			}
			if err := checkItem(b.Op().In(from), t, item, table.Having(t), dtype, dims[1:], inner); err != nil {
				return err
			}
			dims[0] += item.Dims()[0]
		}
		if err := tensor.Resize(out, dtype, dims...); err != nil {
			return err
		}
		ranks = slices.Grow(ranks[:0], len(table.Order))[:len(table.Order)]
		for r, i := range table.Order {
			ranks[i] = int64(r)
		}
		lod = emptied(lod, inner)
		at := int64(0)
		for _, r := range ranks {
			for t := range table.Lengths[r] {
				item, err := items.At(t)
				if err != nil {
					return err
				}
				first, end := appendPart(lod, item.LoD(), r)
				copyRows(out, at, item, first, end-first)
				at += end - first
			}
		}
		all = append(append(append(all[:0], table.Outer...), table.Offsets), lod...)
		tensor.CopyLoD(out, all)
		return nil
	}, err
}

// checkItem checks item t of an array.
func checkItem(array string, t int64, item *tensor.Tensor, sequences int64, dtype tensor.DType, dims []int64, levels int) error {
	d := item.Dims()
	wrong := item.DType() != dtype || len(d) != len(dims)+1 || !slices.Equal(d[1:], dims) || len(item.LoD()) != levels
	switch {
	case wrong:
	case levels == 0:
		wrong = d[0] != sequences
	default:
		if err := tensor.CheckLoD(item); err != nil {
			return err
		}
		wrong = int64(len(item.LoD()[0]))-1 != sequences
	}
	if wrong {
		what := "rows"
		if levels > 0 {
			what = "sequences"
		}
		return fault.E(fault.ShapeMismatch, fault.Var(array), fault.Gotf("item %d of %v%v with %d LoD levels", t, item.DType(), d, len(item.LoD())),
			fault.Wantf("%d %s of %v%v with %d LoD levels", sequences, what, dtype, dims, levels))
	}
	return nil
}

// bindJoinGrad puts gradients of steps together to the gradient of X. Items without elements count as zeros.
func bindJoinGrad(b *ops.Binding) (ops.Kernel, error) {
	x, out := b.In("X"), b.Out("X"+program.GradSuffix)
	table, err := b.RankIn("RankTable")
	if err != nil {
		return nil, err
	}
	items, err := b.ArrayIn(outGrad)
	w := &stepper{op: b.Op(), table: table}
	return func(context.Context) error {
		if out == nil {
			return nil
		}
		if err := w.begin("X", x); err != nil {
			return err
		}
		if err := tensor.Resize(out, x.DType(), x.Dims()...); err != nil {
			return err
		}
		tensor.CopyLoD(out, x.LoD())
		tensor.Zero(out)
		for t := range table.Longest() {
			if !items.Holds(t) {
				continue
			}
			item, err := items.At(t)
			if err != nil {
				return err
			}
			rows := int64(0)
			for r := range table.Having(t) {
				from, to := w.rows(w.step(t, r))
				rows += to - from
			}
			if d := item.Dims(); item.DType() != x.DType() || len(d) != len(x.Dims()) || d[0] != rows || !slices.Equal(d[1:], x.Dims()[1:]) {
				return fault.E(fault.ShapeMismatch, fault.Var(b.Op().In(outGrad)), fault.Gotf("item %d of %v%v", t, item.DType(), d),
					fault.Wantf("%d rows of %v%v", rows, x.DType(), x.Dims()[1:]))
			}
			at := int64(0)
			for r := range table.Having(t) {
				from, to := w.rows(w.step(t, r))
				copyRows(out, from, item, at, to-from)
				at += to - from
			}
		}
		return nil
	}, err
}

// copyRows copies n rows of axis 0. Both tensors have rows of one width.
func copyRows(to *tensor.Tensor, at int64, from *tensor.Tensor, first, n int64) {
	if n == 0 || to.Len() == 0 {
		return
	}
	width := int64(to.Len()) / to.Dims()[0]
	_ = copyElements(to, at*width, from, first*width, n*width) // the types are equal: who calls has checked it
}

// copyElements copies n elements. Both tensors must have one type that kernels compute with.
func copyElements(to *tensor.Tensor, at int64, from *tensor.Tensor, first, n int64) error {
	if to.DType() != from.DType() {
		return fault.E(fault.TypeMismatch, fault.Gotf("%v", from.DType()), fault.Wantf("%v", to.DType()))
	}
	switch to.DType() {
	case tensor.Float32:
		copy(to.Float32s()[at:at+n], from.Float32s()[first:])
	case tensor.Float64:
		copy(to.Float64s()[at:at+n], from.Float64s()[first:])
	case tensor.Int64:
		copy(to.Int64s()[at:at+n], from.Int64s()[first:])
	case tensor.Int32:
		copy(to.Int32s()[at:at+n], from.Int32s()[first:])
	case tensor.Bool:
		copy(to.Bools()[at:at+n], from.Bools()[first:])
	default:
		return fault.E(fault.Unsupported, fault.Gotf("rows of %v", to.DType()), fault.Want("float32, float64, int32, int64 or bool"))
	}
	return nil
}
