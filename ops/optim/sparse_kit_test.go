package optim

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// sparse replaces the gradient of u by rows of random values. It returns u with the dense gradient.
func (u *update) sparse(t testing.TB, rows []int64, seed uint64) (dense *update) {
	t.Helper()
	param := u.in[paramSlot]
	height, width := param.Dims()[0], param.Dims()[1]
	rng := rand.New(rand.NewPCG(seed, 7))
	value := filled(t, param.DType(), rng.NormFloat64, int64(len(rows)), width)
	dense = u.rows(t, 0, height)
	whole, err := tensor.New(param.DType(), height, width)
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		for j := range width {
			from, to := i*int(width)+int(j), int(row*width+j)
			if param.DType() == tensor.Float32 {
				whole.Float32s()[to] += value.Float32s()[from]
			} else {
				whole.Float64s()[to] += value.Float64s()[from]
			}
		}
	}
	dense.in[gradSlot] = whole
	grad, err := (&tensor.SelectedRows{Rows: rows, Height: height, Value: value}).Tensor()
	if err != nil {
		t.Fatal(err)
	}
	u.in[gradSlot] = grad
	return dense
}

// bindParts binds with garbage in scratch memory, for workers goroutines.
func (u *update) bindParts(t testing.TB, workers int) (*ops.Binding, ops.Kernel) {
	t.Helper()
	scratch := func(dtype tensor.DType, n int) *tensor.Tensor {
		x := filled(t, dtype, func() float64 { return 1e30 }, int64(n))
		for i := range x.Int64s() {
			x.Int64s()[i] = -1 << 50
		}
		return x
	}
	b := u.binding(&ops.Env{Step: &ops.Step{}, Workers: workers}, scratch)
	run, err := u.def.Bind(b)
	if err != nil {
		t.Fatal(err)
	}
	return b, run
}

func (u *update) runSparse(t testing.TB) {
	t.Helper()
	_, run := u.bindParts(t, 1)
	if err := run(context.Background()); err != nil {
		t.Fatal(err)
	}
}
