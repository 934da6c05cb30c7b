// Package peak measures how many floating-point operations a core does when nothing else holds it up. Benchmarks of package
// kernel report what part of that they reach.
package peak

import (
	"time"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// Flops returns the float32 operations a second of one core at level, where a multiplication fused with an addition
// counts as two: the best of several short runs. It returns 0 at level None.
func Flops(level simd.Level) float64 {
	const rounds = 200_000
	best := 0.0
	for range 20 {
		start := time.Now()
		operations := run(level, rounds)
		best = max(best, operations/time.Since(start).Seconds())
	}
	return best
}
