package opkit

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestSizeSaturates(t *testing.T) {
	for _, c := range []struct {
		dims []int64
		want int64
	}{
		{nil, 1}, {[]int64{-1, 3, 4}, 12}, {[]int64{0, 1 << 40}, 0}, {[]int64{1 << 62, 1 << 62}, 1 << 44}, {[]int64{math.MaxInt64}, 1 << 44},
	} {
		if got := Size(c.dims); got != c.want {
			t.Errorf("size of %v is %d, want %d", c.dims, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOf(rapid.Int64()).Draw(t, "dims")
		if n := Size(dims); n < 0 || n > 1<<44 {
			t.Fatalf("size of %v is %d", dims, n)
		}
	})
}

func TestMatrixDims(t *testing.T) {
	for _, c := range []struct {
		dims       []int64
		axes       int
		rows, cols int64
	}{
		{[]int64{2, 3, 4}, 1, 2, 12}, {[]int64{2, 3, 4}, 3, 24, 1}, {[]int64{-1, 3, 4}, 2, -1, 4}, {[]int64{2, 1 << 62, 4}, 1, 2, -1},
	} {
		if rows, cols := MatrixDims(c.dims, c.axes); rows != c.rows || cols != c.cols {
			t.Errorf("%v at %d is %d x %d", c.dims, c.axes, rows, cols)
		}
	}
}
