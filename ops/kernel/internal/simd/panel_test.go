package simd

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func testCopyPanel[T Float](t *rapid.T) {
	full := panelBytes / int(unsafe.Sizeof(T(0)))
	rows, columns := rapid.IntRange(0, 40).Draw(t, "rows"), rapid.SampledFrom([]int{full, full, 1, full - 1, full + 1}).Draw(t, "columns")
	srcStep, dstStep := columns+rapid.IntRange(0, 3).Draw(t, "gap in src"), columns+rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "gap in dst")
	src, dst := make([]T, max(0, (rows-1)*srcStep+columns)), make([]T, rows*dstStep+1)
	testMove(t, dst, src, func(want []T) {
		for r := range rows {
			copy(want[r*dstStep:][:columns], src[r*srcStep:])
		}
	}, func() { CopyPanel(dst, dstStep, src, srcStep, rows, columns) })
}

func TestCopyPanel(t *testing.T) { eachLevel(t, testCopyPanel[float32], testCopyPanel[float64]) }
