package kernel

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestPackedGemmHasTheBitsOfGemm compares products with a packed matrix with those of the matrix as it was.
func TestPackedGemmHasTheBitsOfGemm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n, k := rapid.IntRange(0, 9).Draw(t, "m"), rapid.IntRange(0, 70).Draw(t, "n"), rapid.IntRange(0, 300).Draw(t, "k")
		trans := rapid.Bool().Draw(t, "trans")
		beta := rapid.SampledFrom([]float32{0, 1, -0.5}).Draw(t, "beta")
		ldb := n
		if trans {
			ldb = k
		}
		ldb += rapid.IntRange(0, 3).Draw(t, "gap")
		a, b := make([]float32, m*k), make([]float32, max(n, k)*ldb)
		for i := range a {
			a[i] = float32(math.Sin(float64(3 * i)))
		}
		for i := range b {
			b[i] = float32(math.Cos(float64(5 * i)))
		}
		want, got := make([]float32, m*n), make([]float32, m*n)
		for i := range want {
			want[i], got[i] = float32(i), float32(i)
		}
		Gemm(false, trans, m, n, k, 0.5, a, k, b, ldb, beta, want, n, make([]float32, GemmWorkspace(m, n, k)))
		packed := make([]float32, n*k)
		PackGemm(trans, n, k, b, ldb, packed)
		GemmPacked(m, n, k, 0.5, a, k, packed, beta, got, n, make([]float32, GemmPackedWorkspace(m, n, k)))
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("element %d of %d x %d: %v, want %v", i, m, n, got[i], want[i])
			}
		}
	})
}
