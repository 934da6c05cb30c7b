//go:build !purego

package peak

import "github.com/edl-go/edl/ops/kernel/internal/simd"

// Loops returns the loops that this machine can run, from narrow to wide vectors: none without AVX2 and FMA.
func Loops() []Loop {
	all := []Loop{{simd.AVX2.String(), 12 * 8 * 2, multiplyAddAVX2}, {simd.AVX512.String(), 24 * 16 * 2, multiplyAddAVX512}}
	return all[:simd.Available()]
}

//go:noescape
func multiplyAddAVX2(rounds int)

//go:noescape
func multiplyAddAVX512(rounds int)
