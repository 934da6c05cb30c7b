//go:build !purego

package simd

//go:noescape
func float32ToFloat16(out []uint16, x []float32)

//go:noescape
func float16ToFloat32(out []float32, x []uint16)

//go:noescape
func bfloat16ToFloat32(out []float32, x []uint16)

//go:noescape
func float32ToBFloat16(out []uint16, x []float32)
