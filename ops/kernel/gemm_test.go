package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/tensor"
)

// at reads op(X)[i, j] of a stored matrix.
func at[T tensor.Float](trans bool, x []T, ld, i, j int) float64 {
	if trans {
		i, j = j, i
	}
	return float64(x[i*ld+j])
}

func testGemm[T tensor.Float](t *rapid.T) {
	transA, transB := rapid.Bool().Draw(t, "transA"), rapid.Bool().Draw(t, "transB")
	m, n := rapid.IntRange(0, 20).Draw(t, "m"), rapid.IntRange(0, 20).Draw(t, "n")
	k := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(gemmDepth-2, 2*gemmDepth+3)).Draw(t, "k")
	alpha := T(rapid.SampledFrom([]float64{0, 1, -0.5}).Draw(t, "alpha"))
	beta := T(rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "beta"))
	aRows, lda, bRows, ldb := m, k, k, n
	if transA {
		aRows, lda = k, m
	}
	if transB {
		bRows, ldb = n, k
	}
	pad := rapid.IntRange(0, 3).Draw(t, "pad")
	lda, ldb = lda+pad, ldb+pad
	ldc := n + pad
	seed := rapid.Int64().Draw(t, "seed")
	a, b, c := noise[T](seed, aRows*lda), noise[T](seed+1, bRows*ldb), noise[T](seed+2, m*ldc)
	workspace := make([]T, GemmWorkspace(m, n, k))

	whole := slices.Clone(c)
	if beta == 0 {
		for i := range m {
			for j := range n {
				whole[i*ldc+j] = T(math.NaN())
			}
		}
	}
	Gemm(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, whole, ldc, workspace)
	for i := range m {
		for j := range ldc {
			want := float64(c[i*ldc+j])
			scale := 1.0
			if j < n {
				sum := 0.0
				for p := range k {
					product := at(transA, a, lda, i, p) * at(transB, b, ldb, p, j)
					sum += product
					scale += math.Abs(product)
				}
				want = float64(alpha)*sum + float64(beta)*want
			}
			near(t, whole[i*ldc+j], want, scale, "C[%d,%d]", i, j)
		}
	}

	if m == 0 {
		return
	}
	from := rapid.IntRange(0, m-1).Draw(t, "from")
	to := rapid.IntRange(from, m).Draw(t, "to")
	offset := from * lda
	if transA {
		offset = from
	}
	part := slices.Clone(c[from*ldc : to*ldc])
	if len(a) > 0 {
		Gemm(transA, transB, to-from, n, k, alpha, a[min(offset, len(a)):], lda, b, ldb, beta, part, ldc, workspace)
		sameBits(t, part, whole[from*ldc:to*ldc])
	}
}

func TestGemm(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, testGemm[float32]) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, testGemm[float64]) })
	})
}

// Shapes over every block size, where rapid's small ones would stay within one block.
func TestGemmBlocks(t *testing.T) {
	const m, n, k = gemmRows + 3, gemmCols + 5, gemmDepth + 7
	a, b := noise[float32](1, m*k), noise[float32](2, k*n)
	workspace := make([]float32, GemmWorkspace(m, n, k))
	c := make([]float32, m*n)
	Gemm(false, false, m, n, k, 1, a, k, b, n, 0, c, n, workspace)
	for i := range m {
		for j := range n {
			sum := 0.0
			for p := range k {
				sum += float64(a[i*k+p]) * float64(b[p*n+j])
			}
			near(t, c[i*n+j], sum, k, "C[%d,%d]", i, j)
		}
	}
	one := make([]float32, n)
	Gemm(false, false, 1, n, k, 1, a[(m-1)*k:], k, b, n, 0, one, n, workspace)
	sameBits(t, one, c[(m-1)*n:])
}

func TestGemmAllocatesNothing(t *testing.T) {
	const size = 33
	a := noise[float32](1, size*size)
	c, workspace := make([]float32, size*size), make([]float32, GemmWorkspace(size, size, size))
	noAllocation(t, func() { Gemm(true, false, size, size, size, 1, a, size, a, size, 0, c, size, workspace) })
}

func TestGemmSkipsOperandsWithoutAlpha(t *testing.T) {
	nan := math.NaN()
	c := []float32{1, 2}
	Gemm(false, false, 1, 2, 1, 0, []float32{float32(nan)}, 1, []float32{1, 1}, 2, 3, c, 2, make([]float32, GemmWorkspace(1, 2, 1)))
	nearAll(t, "alpha 0", c, []float64{3, 6})
}

func TestGemmWorkspaceGrowsOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		extent := rapid.IntRange(0, 2000)
		m, n, k := extent.Draw(t, "m"), extent.Draw(t, "n"), extent.Draw(t, "k")
		more := rapid.IntRange(0, 600)
		if got, than := GemmWorkspace(m+more.Draw(t, "rows"), n+more.Draw(t, "columns"), k+more.Draw(t, "depth")), GemmWorkspace(m, n, k); got < than {
			t.Fatalf("the larger call needs %d elements, the smaller %d", got, than)
		}
	})
}

func ExampleGemm() {
	a := []float32{1, 2, 3, 4} // 2 x 2
	b := []float32{1, 0, 0, 1}
	c := make([]float32, 4)
	Gemm(false, false, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2, make([]float32, GemmWorkspace(2, 2, 2)))
	fmt.Println(c)
	// Output: [1 2 3 4]
}
