package simd

import (
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func testCopyPanel[T Float](t *rapid.T) {
	full := panelBytes / int(unsafe.Sizeof(T(0)))
	rows, columns := rapid.IntRange(0, 40).Draw(t, "rows"), rapid.SampledFrom([]int{full, full, 1, full - 1, full + 1}).Draw(t, "columns")
	srcStep, dstStep := columns+rapid.IntRange(0, 3).Draw(t, "gap in src"), columns+rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "gap in dst")
	src, dst := make([]T, max(0, (rows-1)*srcStep+columns)), make([]T, rows*dstStep+1)
	for i := range src {
		src[i] = T(i + 1)
	}
	for i := range dst {
		dst[i] = -T(i + 1)
	}
	want := slices.Clone(dst)
	for r := range rows {
		copy(want[r*dstStep:][:columns], src[r*srcStep:])
	}
	CopyPanel(dst, dstStep, src, srcStep, rows, columns)
	if !slices.Equal(dst, want) {
		t.Fatalf("%d x %d gives %v, want %v", rows, columns, dst, want)
	}
}

func TestCopyPanel(t *testing.T) {
	for level := None; level <= Available(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer Use(level)()
			t.Run("float32", func(t *testing.T) { rapid.Check(t, testCopyPanel[float32]) })
			t.Run("float64", func(t *testing.T) { rapid.Check(t, testCopyPanel[float64]) })
		})
	}
}
