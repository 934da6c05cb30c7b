package optim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TestLazyAdam holds rows with a gradient to the bits of the dense update, and all others to what they were.
func TestLazyAdam(t *testing.T) {
	const height, width = 5000, 10
	rows := make([]int64, 1500)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i] = int64(rng.Float64() * rng.Float64() * height)
	}
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
		u := newUpdate(t, "adam", map[string]program.Attr{"lazy_mode": true}, dtype, 2, height, width)
		before := u.rows(t, 0, height)
		dense := u.sparse(t, rows, 3)
		u.runSparse(t)
		dense.run(t, 1)
		for out, in := range u.def.InPlace {
			got, updated, untouched := bitsOf(u.out[out]), bitsOf(dense.out[out]), bitsOf(before.in[in])
			for row := range height {
				want := untouched
				if slices.Contains(rows, int64(row)) {
					want = updated
				}
				if a, b := row*width, (row+1)*width; !slices.Equal(got[a:b], want[a:b]) {
					t.Fatalf("%v: row %d of %s is %v, want %v", dtype, row, out, got[a:b], want[a:b])
				}
			}
		}
	}
}
