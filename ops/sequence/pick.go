package sequence

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file's kind copy rows: each row of Out is a row of X, or a filling. A picker says which. An op has one picker for itself and its gradient.

// A picker fills in for each row of the output which row of the input it copies, -1 for none. A batch whose offsets ask for another number of rows than the
// plan was compiled for is an error.
type picker func(rows []int64) error

// leastPicked is how many rows are worth a goroutine.
const leastPicked = 64

// width returns how many elements follow each index of the first axes of t.
func width(t *tensor.Tensor, axes int) int {
	_, columns := opkit.Matrix(t.Dims(), axes)
	return columns
}

// bindPick copies rows from one tensor to another. Rows without a source become fill, which may be nil for zeros, have one element, or as many as a row.
func bindPick[T tensor.Element](b *ops.Binding, from, to, fill *tensor.Tensor, columns int, pick picker) (ops.Kernel, error) {
	rows := to.Len() / max(1, columns)
	sources := b.Scratch(tensor.Int64, rows)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		return pick(sources.Int64s())
	}}, ops.Loop{N: rows, Least: leastPicked, Apart: true, Run: func(_, first, end int) error {
		x, out := tensor.Data[T](from), tensor.Data[T](to)
		for i := first; i < end; i++ {
			source := sources.Int64s()[i]
			switch target := row(out, i, columns); {
			case source >= 0:
				copy(target, row(x, int(source), columns))
			case fill == nil:
				clear(target)
			case fill.Len() == columns:
				copy(target, tensor.Data[T](fill))
			default:
				for j := range target {
					target[j] = tensor.Data[T](fill)[0]
				}
			}
		}
		return nil
	}})
}

// bindUnpick is the gradient of bindPick for a picker that takes no row twice: dX is dOut in the rows that were taken, and 0 in the others.
func bindUnpick[T tensor.Float](b *ops.Binding, dout, dx *tensor.Tensor, columns int, pick picker) (ops.Kernel, error) {
	rows := dout.Len() / max(1, columns)
	sources := b.Scratch(tensor.Int64, rows)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		clear(tensor.Data[T](dx))
		return pick(sources.Int64s())
	}}, ops.Loop{N: rows, Least: leastPicked, Apart: true, Run: func(_, first, end int) error {
		for i := first; i < end; i++ {
			if source := sources.Int64s()[i]; source >= 0 {
				copy(row(tensor.Data[T](dx), int(source), columns), row(tensor.Data[T](dout), i, columns))
			}
		}
		return nil
	}})
}

// otherRows is the error of a run whose offsets or values ask for another number of rows.
func otherRows(op *program.Op, got, want int) error {
	return fault.E(fault.ShapeMismatch, fault.On(op), fault.Gotf("%d rows of output", got), fault.Wantf("%d, for which the plan was compiled", want))
}

// always is ops.Def.MakesLoD of an op whose outputs follow from offsets in any case.
func always(*program.Op) bool { return true }

// offsetsOf makes offsets of the lengths of sequences.
func offsetsOf(lengths []int64) []int64 {
	offsets := make([]int64, len(lengths)+1)
	for i, n := range lengths {
		offsets[i+1] = offsets[i] + n
	}
	return offsets
}

// withRows returns dims with another first extent.
func withRows(rows int64, dims []int64) []int64 { return slices.Concat([]int64{rows}, dims[1:]) }
