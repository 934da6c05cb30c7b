package simd

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func testTranspose[T Float](t *rapid.T) {
	extent := rapid.IntRange(0, 40)
	rows, columns := extent.Draw(t, "rows"), extent.Draw(t, "columns")
	srcStep, dstStep := columns+rapid.IntRange(0, 3).Draw(t, "gap in src"), rows+rapid.IntRange(0, 3).Draw(t, "gap in dst")
	src, dst := make([]T, rows*srcStep), make([]T, columns*dstStep)
	for i := range src {
		src[i] = T(i + 1)
	}
	for i := range dst {
		dst[i] = -T(i + 1)
	}
	want := slices.Clone(dst)
	for r := range rows {
		for c := range columns {
			want[c*dstStep+r] = src[r*srcStep+c]
		}
	}
	Transpose(dst, dstStep, src, srcStep, rows, columns)
	if !slices.Equal(dst, want) {
		t.Fatalf("%d x %d gives %v, want %v", rows, columns, dst, want)
	}
}

func TestTranspose(t *testing.T) {
	for level := None; level <= Available(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer Use(level)()
			t.Run("float32", func(t *testing.T) { rapid.Check(t, testTranspose[float32]) })
			t.Run("float64", func(t *testing.T) { rapid.Check(t, testTranspose[float64]) })
		})
	}
}

// Tiles cover any number of columns, never take more than there are, and fill their vectors as far as that saves work.
func TestTileColumns(t *testing.T) {
	for _, level := range []Level{AVX2, AVX512} {
		for n := 1; n <= 200; n++ {
			left := n
			for left > 0 {
				columns := TileColumns[float32](level, left)
				if columns < 1 || columns > left || 4*columns > 2*vectorBytes(level) {
					t.Fatalf("%v: a tile of %d columns where %d are left", level, columns, left)
				}
				left -= columns
			}
		}
	}
	if got := TileColumns[float32](AVX512, 20); got != 16 {
		t.Errorf("of 20 columns the first tile takes %d, want one vector of 16 and 4 for a short tile", got)
	}
	if got := TileColumns[float32](AVX512, 30); got != 30 {
		t.Errorf("of 30 columns the first tile takes %d, want all", got)
	}
}

func TestUseNeverExceedsTheMachine(t *testing.T) {
	before := Current()
	restore := Use(AVX512)
	if Current() > Available() {
		t.Errorf("%v is used, %v is available", Current(), Available())
	}
	if restore(); Current() != before {
		t.Errorf("restored %v, want %v", Current(), before)
	}
}
