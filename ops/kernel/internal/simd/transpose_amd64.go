//go:build !purego

package simd

import "unsafe"

func transposeBlocks[T Float](side int, dst []T, dstStep, dstNext int, src []T, srcStep, srcNext, blocks int) {
	to, from := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	if size := int(unsafe.Sizeof(T(0))); size == 4 && side == wideSide {
		transposeBlocksWide(to, from, 4*dstStep, 4*srcStep, 4*dstNext, 4*srcNext, blocks)
	} else if size == 4 {
		transposeBlocksFloat32(to, from, 4*dstStep, 4*srcStep, 4*dstNext, 4*srcNext, blocks)
	} else {
		transposeBlocksFloat64(to, from, 8*dstStep, 8*srcStep, 8*dstNext, 8*srcNext, blocks)
	}
}

//go:noescape
func transposeBlocksFloat32(dst, src unsafe.Pointer, dstStep, srcStep, dstNext, srcNext, blocks int)

//go:noescape
func transposeBlocksFloat64(dst, src unsafe.Pointer, dstStep, srcStep, dstNext, srcNext, blocks int)

//go:noescape
func transposeBlocksWide(dst, src unsafe.Pointer, dstStep, srcStep, dstNext, srcNext, blocks int)
