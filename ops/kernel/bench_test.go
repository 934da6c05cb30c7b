package kernel

import (
	"fmt"
	"testing"
	"time"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
	"github.com/edl-go/edl/ops/kernel/peak"
	"github.com/edl-go/edl/tensor"
)

// benchmarkFlops runs f, which does so many floating-point operations, and reports its mean and its best speed, and the
// best as a part of what the core does in a loop of multiply-adds right before. The best is what counts where other
// processes use the machine.
func benchmarkFlops[T tensor.Float](b *testing.B, operations float64, f func()) {
	limit := peak.Flops(simd.Current().String()) * 4 / float64(sizeOf[T]())
	shortest := time.Duration(1 << 62)
	for b.Loop() {
		start := time.Now()
		f()
		shortest = min(shortest, time.Since(start))
	}
	fastest := operations / shortest.Seconds()
	b.ReportMetric(operations*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(fastest/1e9, "best-GFLOP/s")
	if limit > 0 {
		b.ReportMetric(100*fastest/limit, "%peak")
	}
}

// Shapes are those of training: a fully connected layer forward, its input gradient (B transposed) and its parameter gradient
// (A transposed), convolutions of the book's digit recogniser, matrix-vector products, and squares.
func BenchmarkGemm(b *testing.B) {
	type shape struct {
		transA, transB bool
		m, n, k        int
	}
	shapes := []shape{
		{false, false, 512, 512, 512}, {false, false, 1024, 1024, 1024}, {false, false, 64, 200, 784}, {false, false, 128, 1024, 1024},
		{false, false, 512, 400, 400}, {false, true, 512, 400, 400}, {true, false, 400, 400, 512},
		{false, false, 64, 200, 200}, {false, true, 64, 200, 200}, {true, false, 784, 200, 64}, {false, false, 64, 10, 200},
		{false, false, 100, 2073, 256}, {false, false, 128, 2048, 512},
		{false, false, 50, 64, 500}, {true, false, 500, 64, 50}, {false, false, 50, 500, 64}, {false, false, 20, 576, 25}, {false, false, 20, 25, 576},
		{false, false, 1, 200, 784}, {false, false, 512, 1, 400}, {true, false, 400, 1, 512}, {false, false, 20, 1, 13},
	}
	for level := simd.AVX2; level <= simd.Available(); level++ {
		defer simd.Use(level)()
		for _, s := range shapes {
			b.Run(fmt.Sprintf("%v/%dx%dx%d,transA=%v,transB=%v", level, s.m, s.n, s.k, s.transA, s.transB), func(b *testing.B) {
				x, y := noise[float32](1, s.m*s.k), noise[float32](2, s.k*s.n)
				c, workspace := make([]float32, s.m*s.n), make([]float32, GemmWorkspace(s.m, s.n, s.k))
				lda, ldb := s.k, s.n
				if s.transA {
					lda = s.m
				}
				if s.transB {
					ldb = s.k
				}
				benchmarkFlops[float32](b, 2*float64(s.m*s.n*s.k), func() {
					Gemm(s.transA, s.transB, s.m, s.n, s.k, 1, x, lda, y, ldb, 0, c, s.n, workspace)
				})
			})
		}
	}
}

func BenchmarkGemmFloat64(b *testing.B) {
	const size = 512
	x, c := noise[float64](1, size*size), make([]float64, size*size)
	workspace := make([]float64, GemmWorkspace(size, size, size))
	benchmarkFlops[float64](b, 2*size*size*size, func() {
		Gemm(false, false, size, size, size, 1, x, size, x, size, 0, c, size, workspace)
	})
}
