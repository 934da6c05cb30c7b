package optim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestSparseIsDense holds every op with a sparse gradient to the bits of the dense gradient, with rows that repeat, with room for more rows than there
// are, and with rows that are zeros in all state, which an op may leave out, up to one that is not quite zero.
func TestSparseIsDense(t *testing.T) {
	for _, f := range formulas {
		for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
			t.Run(fmt.Sprintf("%s/%v", f.name, dtype), func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) {
					height, width := rapid.Int64Range(1, 600).Draw(r, "height"), rapid.Int64Range(1, 12).Draw(r, "width") // up to two blocks
					rows := rapid.SliceOfN(rapid.Int64Range(0, height-1), 0, 60).Draw(r, "rows")
					u := newUpdate(t, f.opType, f.attrs, dtype, 3, height, width)
					if free := rapid.Int64Range(0, height).Draw(r, "rows in use"); free < height {
						for _, in := range u.def.InPlace {
							if value := u.in[in]; value != nil && slices.Equal(value.Dims(), []int64{height, width}) {
								clear(value.Float32s()[min(len(value.Float32s()), int(free*width)):])
								clear(value.Float64s()[min(len(value.Float64s()), int(free*width)):])
							}
						}
						if param := u.in[paramSlot]; rapid.Bool().Draw(r, "-0") && dtype == tensor.Float32 {
							param.Float32s()[param.Len()-1] = float32(math.Copysign(0, -1))
						}
					}
					dense := u.sparse(t, rows, 4)
					u.in[gradSlot] = roomier(t, u.in[gradSlot], rapid.IntRange(0, 5).Draw(r, "room"))
					u.runSparse(t)
					dense.run(t, 1)
					for out := range u.def.InPlace {
						if !slices.Equal(bitsOf(u.out[out]), bitsOf(dense.out[out])) {
							r.Fatalf("%s differs from the dense one", out)
						}
					}
				})
			})
		}
	}
}

// roomier returns a gradient with room for more rows: the first of them has the number that ends the rows, and the others have garbage.
func roomier(t testing.TB, grad *tensor.Tensor, more int) *tensor.Tensor {
	t.Helper()
	if more == 0 {
		return grad
	}
	used, height := grad.Selected()
	rows := slices.Concat(used.Int64s(), []int64{height}, make([]int64, more-1))
	value := filled(t, grad.DType(), func() float64 { return 7 }, int64(len(rows)), grad.Dims()[1])
	copy(value.Float32s(), grad.Float32s())
	copy(value.Float64s(), grad.Float64s())
	larger, err := (&tensor.SelectedRows{Rows: rows, Height: height, Value: value}).Tensor()
	if err != nil {
		t.Fatal(err)
	}
	return larger
}

// TestSparseLoopsCanBeCut runs the ranges of the loops out of order and in parts of their own.
func TestSparseLoopsCanBeCut(t *testing.T) {
	rows := []int64{7, 0, 99, 7, 50, 49, 51, 7, 98}
	for _, f := range formulas {
		whole := newUpdate(t, f.opType, f.attrs, tensor.Float32, 2, 100, 3)
		whole.sparse(t, rows, 5)
		whole.runSparse(t)
		cut := newUpdate(t, f.opType, f.attrs, tensor.Float32, 2, 100, 3)
		cut.sparse(t, rows, 5)
		b, run := cut.bindParts(t, 3)
		if b.Bound() == nil {
			if err := run(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		for _, loop := range b.Bound() {
			ends := []int{loop.N, loop.N * 2 / 3, loop.N / 2, 0}
			for i, to := range ends[:len(ends)-1] {
				if from := ends[i+1]; from < to {
					if err := loop.Run(i, from, to); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for out := range whole.def.InPlace {
			if !slices.Equal(bitsOf(cut.out[out]), bitsOf(whole.out[out])) {
				t.Errorf("%s: %s differs when the loop is cut", f.name, out)
			}
		}
	}
}

func TestSparseKernelsAllocateNothing(t *testing.T) {
	for _, f := range formulas {
		u := newUpdate(t, f.opType, f.attrs, tensor.Float32, 5, 100, 8)
		u.sparse(t, []int64{3, 99, 3}, 1)
		_, run := u.bindParts(t, 1)
		if n := testing.AllocsPerRun(20, func() { _ = run(context.Background()) }); n != 0 {
			t.Errorf("%s allocates %v times a run", f.name, n)
		}
	}
}

func TestSparseWithoutElements(t *testing.T) {
	for _, f := range formulas {
		for _, dims := range [][]int64{{0, 4}, {5, 0}, {5, 4}} {
			u := newUpdate(t, f.opType, f.attrs, tensor.Float64, 5, dims...)
			dense := u.sparse(t, nil, 1)
			u.runSparse(t)
			dense.run(t, 1)
			if !slices.Equal(bitsOf(u.out[paramOutSlot]), bitsOf(dense.out[paramOutSlot])) {
				t.Errorf("%s of %v without rows differs from a gradient of zeros", f.name, dims)
			}
		}
	}
}

func TestSparseGradientOfAnotherTable(t *testing.T) {
	for _, opType := range all {
		u := newUpdate(t, opType, nil, tensor.Float32, 1, 6, 2)
		for _, dims := range [][]int64{{7, 2}, {6, 3}, {6, 2, 1}} {
			_, err := u.infer(func(m map[string]ops.Meta) {
				m[gradSlot] = ops.Meta{Kind: program.SelectedRows, DType: tensor.Float32, Dims: dims, Rows: 3}
			})
			if !errors.Is(err, fault.ShapeMismatch) {
				t.Errorf("%s with rows of %v: %v", opType, dims, err)
			}
		}
		u.sparse(t, []int64{1}, 1)
		rows, _ := u.in[gradSlot].Selected()
		taller, err := tensor.Select(u.in[gradSlot], rows, 7)
		if err != nil {
			t.Fatal(err)
		}
		u.in[gradSlot] = taller
		if _, err := u.bind(&ops.Env{}); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%s bound to rows of a taller table: %v", opType, err)
		}
	}
}
