package simd

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// eachLevel checks a property of both element types at every level that this machine has.
func eachLevel(t *testing.T, float32s, float64s func(*rapid.T)) {
	for level := None; level <= Available(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer Use(level)()
			t.Run("float32", func(t *testing.T) { rapid.Check(t, float32s) })
			t.Run("float64", func(t *testing.T) { rapid.Check(t, float64s) })
		})
	}
}

// testMove fills src and dst with elements that all differ and compares what move makes of dst with what wanted does.
func testMove[T Float](t *rapid.T, dst, src []T, wanted func(dst []T), move func()) {
	for i := range src {
		src[i] = T(i + 1)
	}
	for i := range dst {
		dst[i] = -T(i + 1)
	}
	want := slices.Clone(dst)
	wanted(want)
	move()
	if !slices.Equal(dst, want) {
		t.Fatalf("got %v, want %v", dst, want)
	}
}

func testTranspose[T Float](t *rapid.T) {
	extent := rapid.IntRange(0, 40)
	rows, columns := extent.Draw(t, "rows"), extent.Draw(t, "columns")
	srcStep, dstStep := columns+rapid.IntRange(0, 3).Draw(t, "gap in src"), rows+rapid.IntRange(0, 3).Draw(t, "gap in dst")
	src, dst := make([]T, rows*srcStep), make([]T, columns*dstStep)
	testMove(t, dst, src, func(want []T) {
		for r := range rows {
			for c := range columns {
				want[c*dstStep+r] = src[r*srcStep+c]
			}
		}
	}, func() { Transpose(dst, dstStep, src, srcStep, rows, columns) })
}

func TestTranspose(t *testing.T) { eachLevel(t, testTranspose[float32], testTranspose[float64]) }

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
