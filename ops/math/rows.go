package math

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// The ops that limit gradients take sparse ones, too. A row that occurs several times has the sum of its values as its gradient, and only the sum
// may be limited. So these ops first sum the values of each row, in the order of the batch, as updates and clusters do (kernel.MergeRows). Rows that a
// gradient does not hold are zeros, which no op here changes. Fluid's clip, clip_by_norm and merge_selected_rows do the same.

// mergedRows sums the values of each row of a sparse gradient.
type mergedRows[T tensor.Float] struct {
	x            *tensor.Tensor
	height       int64
	width        int
	order, spare *tensor.Tensor // of the length of rows
	rows, sums   *tensor.Tensor // room for all rows of x
}

// bindMergedRows binds the sum of rows of x. Its memory is as large as that of x.
func bindMergedRows[T tensor.Float](b *ops.Binding, x *tensor.Tensor) (*mergedRows[T], error) {
	rows, height := x.Selected()
	n := rows.Len()
	if !kernel.OrderableRows(n, height) {
		return nil, fault.E(fault.TooLarge, fault.On(b.Op()), fault.Gotf("%d rows of %d", n, height), fault.Want("a product of both below 2^62"))
	}
	numbers := func() *tensor.Tensor { return b.Scratch(tensor.Int64, n) }
	return &mergedRows[T]{x: x, height: height, width: x.Len() / max(1, n), order: numbers(), spare: numbers(), rows: numbers(),
		sums: b.Scratch(tensor.Of[T](), x.Len())}, nil
}

// merge returns the numbers of the different rows of x, in rising order, and their values. They are good until the next call, and the values may be
// those of x.
func (m *mergedRows[T]) merge() (rows []int64, values []T) {
	rows, values = tensor.UsedRows(m.x), tensor.Data[T](m.x)
	if rising(rows) {
		return rows, values[:len(rows)*m.width]
	}
	ordered := kernel.OrderRows(m.order.Int64s()[:len(rows)], m.spare.Int64s()[:len(rows)], rows, m.height)
	sums, merged := tensor.Data[T](m.sums), m.rows.Int64s()
	n, _ := kernel.MergeRows(sums, merged, ordered, 0, len(ordered), values, m.width)
	return merged[:n], sums[:n*m.width]
}

// rising reports whether each number is above the one before. Servers get rows so.
func rising(rows []int64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i] <= rows[i-1] {
			return false
		}
	}
	return true
}

// limitRows makes the kernel of an op that changes the values of a sparse gradient: limit writes to out what becomes of values.
func limitRows[T tensor.Float](b *ops.Binding, limit func(out, values []T)) (ops.Kernel, error) {
	to := b.Out("Out")
	all, height := to.Selected()
	m, err := bindMergedRows[T](b, b.In("X"))
	if err != nil {
		return nil, err
	}
	return func(context.Context) error {
		rows, values := m.merge()
		out, given := tensor.Data[T](to), len(tensor.UsedRows(m.x))*m.width
		limit(out[:len(values)], values)
		clear(out[len(values):given]) // what rows that repeat have left: one result for one input
		numbers := all.Int64s()
		if n := copy(numbers, rows); n < len(numbers) {
			numbers[n] = height // ends the rows (tensor.UsedRows)
		}
		return nil
	}, nil
}
