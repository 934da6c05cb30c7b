package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/tensor"
)

// eachLevel runs f as a subtest at every level that this machine has, without any vector instructions first.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	for level := simd.None; level <= simd.Available(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer simd.Use(level)()
			f(t)
		})
	}
}

// A matrixProduct is one drawn call of Gemm, with its operands between guards.
type matrixProduct[T tensor.Float] struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    T
	a, b, c        []T
	lda, ldb, ldc  int
}

func drawProduct[T tensor.Float](t *rapid.T, g *guards) matrixProduct[T] {
	extent := rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 70), rapid.SampledFrom([]int{6, 12, 16, 32, 64}))
	depth := rapid.OneOf(extent, rapid.IntRange(vectorDepth-1, 2*vectorDepth+9))
	p := matrixProduct[T]{
		transA: rapid.Bool().Draw(t, "transA"), transB: rapid.Bool().Draw(t, "transB"),
		m: extent.Draw(t, "m"), n: extent.Draw(t, "n"), k: depth.Draw(t, "k"),
		alpha: T(rapid.SampledFrom([]float64{1, -0.5}).Draw(t, "alpha")),
		beta:  T(rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "beta")),
	}
	gap := func(what string) int { return rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, what) }
	aRows, aColumns, bRows, bColumns := p.m, p.k, p.k, p.n
	if p.transA {
		aRows, aColumns = aColumns, aRows
	}
	if p.transB {
		bRows, bColumns = bColumns, bRows
	}
	p.lda, p.ldb, p.ldc = aColumns+gap("gap of A"), bColumns+gap("gap of B"), p.n+gap("gap of C")
	seed := rapid.Int64().Draw(t, "seed")
	p.a = guarded(g, 0, noise[T](seed, (aRows-1)*p.lda+aColumns))
	p.b = guarded(g, 1, noise[T](seed+1, (bRows-1)*p.ldb+bColumns))
	p.c = guarded(g, 2, noise[T](seed+2, (p.m-1)*p.ldc+p.n))
	return p
}

// compute returns C after the call, which writes into p.c.
func (p *matrixProduct[T]) compute(workspace []T) []T {
	Gemm(p.transA, p.transB, p.m, p.n, p.k, p.alpha, p.a, p.lda, p.b, p.ldb, p.beta, p.c, p.ldc, workspace)
	return slices.Clone(p.c)
}

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
