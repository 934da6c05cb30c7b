package peak

import (
	"testing"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// BenchmarkPeak prints the limits that docs/performance.md quotes.
func BenchmarkPeak(b *testing.B) {
	for level := simd.AVX2; level <= simd.Available(); level++ {
		b.Run(level.String(), func(b *testing.B) {
			flops := 0.0
			for b.Loop() {
				flops = max(flops, Flops(level))
			}
			b.ReportMetric(flops/1e9, "GFLOP/s")
		})
	}
}
