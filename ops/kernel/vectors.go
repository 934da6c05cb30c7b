package kernel

import (
	"unsafe"

	"github.com/edl-go/edl/ops/kernel/internal/simd"
)

// Vectorized reports whether loops over float32 run on vector instructions, which is ten times as fast or more.
func Vectorized() bool { return simd.Current() != simd.None }

// vectorsOf returns the vector loops for T: nil where this machine or T has none.
func vectorsOf[T any]() *simd.Vectors {
	var zero T
	if _, ok := any(zero).(float32); !ok {
		return nil
	}
	return simd.Float32()
}

// shortVector is the length below which a portable loop of the same bits is faster than a call.
const shortVector = 8

// vectorsFor is vectorsOf for loops that give the same bits as portable ones: nil where n is too short to gain.
func vectorsFor[T any](n int) *simd.Vectors {
	if n < shortVector {
		return nil
	}
	return vectorsOf[T]()
}

// singles sees x, whose elements are float32, as what it is.
func singles[T any](x []T) []float32 { return *(*[]float32)(unsafe.Pointer(&x)) }

// single is where the elements of x begin, which are float32.
func single[T any](x []T) *float32 { return unsafe.SliceData(singles(x)) }
