package kernel

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// No operand is touched outside of its elements, wherever these lie, and the gaps between rows of C keep what they hold.
func testGemmBounds[T tensor.Float](t *rapid.T, g *guards) {
	p := drawProduct[T](t, g)
	before := slices.Clone(p.c)
	workspace := guarded(g, 3, noise[T](9, GemmWorkspace(p.m, p.n, p.k)))
	got := p.compute(workspace)
	for i := range got {
		if i%p.ldc >= p.n {
			sameBits(t, got[i:i+1], before[i:i+1])
			continue
		}
		row, column := i/p.ldc, i%p.ldc
		total, scale := 0.0, 1.0
		for q := range p.k {
			product := at(p.transA, p.a, p.lda, row, q) * at(p.transB, p.b, p.ldb, q, column)
			total, scale = total+product, scale+math.Abs(product)
		}
		near(t, got[i], float64(p.alpha)*total+float64(p.beta)*float64(before[i]), scale, "C[%d,%d]", row, column)
	}
}

// Every element has the bits of a product of one row and one column, computed alone.
func testGemmElements[T tensor.Float](t *rapid.T, g *guards) {
	p := drawProduct[T](t, g)
	before := slices.Clone(p.c)
	workspace := make([]T, GemmWorkspace(p.m, p.n, p.k))
	whole := p.compute(workspace)
	row, column := make([]T, p.k), make([]T, p.k)
	for i := range p.m {
		for j := range p.n {
			for q := range p.k {
				row[q], column[q] = T(at(p.transA, p.a, p.lda, i, q)), T(at(p.transB, p.b, p.ldb, q, j))
			}
			alone := []T{before[i*p.ldc+j]}
			Gemm(false, false, 1, 1, p.k, p.alpha, row, p.k, column, 1, p.beta, alone, 1, workspace)
			sameBits(t, alone, whole[i*p.ldc+j:][:1])
		}
	}
}

func TestGemmTouchesItsOperandsOnly(t *testing.T) {
	g := newGuards(t, 4)
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmBounds[float32](t, g) }) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmBounds[float64](t, g) }) })
	})
}

func TestGemmElementsStandAlone(t *testing.T) {
	g := newGuards(t, 3)
	eachLevel(t, func(t *testing.T) {
		t.Run("float32", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmElements[float32](t, g) }) })
		t.Run("float64", func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { testGemmElements[float64](t, g) }) })
	})
}

// The same bits come out with AVX2 and AVX-512.
func TestGemmLevelsAgree(t *testing.T) {
	if simd.Available() < simd.AVX512 {
		t.Skip("this machine has one level of vector instructions at most")
	}
	g := newGuards(t, 3)
	rapid.Check(t, func(t *rapid.T) {
		p := drawProduct[float32](t, g)
		before := slices.Clone(p.c)
		workspace := make([]float32, GemmWorkspace(p.m, p.n, p.k))
		want := p.compute(workspace)
		defer simd.Use(simd.AVX2)()
		copy(p.c, before)
		sameBits(t, p.compute(workspace), want)
	})
}

// Large operands take the copying paths, which must not change a bit of a row either.
func TestGemmPackingKeepsBits(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, call := range []struct {
			transA bool
			m, k   int
		}{{false, vectorRows + 640, 40}, {true, vectorRows + 640, 40}, {false, vectorRows + 6, 1024}} {
			const n = 1030
			transA, m, k := call.transA, call.m, call.k
			a, b := noise[float32](1, m*k), noise[float32](2, k*n)
			workspace := make([]float32, GemmWorkspace(m, n, k))
			lda := k
			if transA {
				lda = m
			}
			c, row, part := make([]float32, m*n), make([]float32, k), make([]float32, n)
			Gemm(transA, false, m, n, k, 1, a, lda, b, n, 0, c, n, workspace)
			for _, i := range []int{0, 5, vectorRows - 1, vectorRows, m - 1} {
				for q := range row {
					row[q] = float32(at(transA, a, lda, i, q))
				}
				Gemm(false, false, 1, n, k, 1, row, k, b, n, 0, part, n, workspace)
				sameBits(t, part, c[i*n:][:n])
			}
		}
	})
}

// A NaN or infinity goes into the row and the column that it belongs to, and nowhere else.
func TestGemmKeepsSpecialValuesInPlace(t *testing.T) {
	inf := math.Inf(1)
	eachLevel(t, func(t *testing.T) {
		for _, special := range []float64{math.NaN(), inf, -inf, 1e-42} {
			for _, n := range []int{1, 3, 13, 40} {
				const m, k = 15, 9
				a, b := positive[float32](1, m*k), positive[float32](2, k*n)
				a[4*k+2] = float32(special)
				c, workspace := make([]float32, m*n), make([]float32, GemmWorkspace(m, n, k))
				for i := range c {
					c[i] = float32(math.NaN())
				}
				Gemm(false, false, m, n, k, 1, a, k, b, n, 0, c, n, workspace)
				for i := range c {
					want := 0.0
					for q := range k {
						want += float64(a[i/n*k+q]) * float64(b[q*n+i%n])
					}
					near(t, c[i], want, 1, "%v, n %d: C[%d,%d]", special, n, i/n, i%n)
				}
			}
		}
	})
}
