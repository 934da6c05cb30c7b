//go:build !amd64 || purego

package simd

// transposeBlocks is never called: there is no level but None.
func transposeBlocks[T Float](side int, dst []T, dstStep, dstNext int, src []T, srcStep, srcNext, blocks int) {
}
