//go:build !purego

package peak

import "github.com/edl-go/edl/ops/kernel/internal/simd"

// run does rounds of the loop and returns the number of operations.
func run(level simd.Level, rounds int) float64 {
	switch level {
	case simd.AVX512:
		multiplyAddAVX512(rounds)
		return float64(rounds) * 24 * 16 * 2
	case simd.AVX2:
		multiplyAddAVX2(rounds)
		return float64(rounds) * 12 * 8 * 2
	}
	return 0
}

func multiplyAddAVX2(rounds int)

func multiplyAddAVX512(rounds int)
