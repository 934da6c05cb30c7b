package kernel

import (
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"
)

func TestTopK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, width := rapid.IntRange(0, 4).Draw(t, "rows"), rapid.IntRange(0, 12).Draw(t, "width")
		k := rapid.IntRange(0, width).Draw(t, "k")
		x := noise[float32](rapid.Int64().Draw(t, "seed"), rows*width)
		for i := range x {
			if rapid.IntRange(0, 9).Draw(t, "NaN") == 0 {
				x[i] = float32(math.NaN())
			}
		}
		values, indices := make([]float32, rows*k), make([]int64, rows*k)
		TopK(values, indices, x, rows, width, k)
		for r := range rows {
			order := make([]int, width)
			for i := range order {
				order[i] = i
			}
			key := func(i int) float64 {
				if v := float64(x[r*width+i]); !math.IsNaN(v) {
					return v
				}
				return math.Inf(-1)
			}
			sort.SliceStable(order, func(a, b int) bool { return key(order[a]) > key(order[b]) })
			for i := range k {
				if indices[r*k+i] != int64(order[i]) {
					t.Fatalf("row %d: indices %v, want %v", r, indices[r*k:][:k], order[:k])
				}
			}
			want := make([]float32, k)
			for i := range want {
				want[i] = x[r*width+order[i]]
			}
			sameBits(t, values[r*k:][:k], want)
		}
	})
}

func TestAccuracyCount(t *testing.T) {
	indices := []int64{3, 1, 0, 2, 2, 0}
	for k, labels := range map[int][]int64{1: {3, 0, 0, 2, 2, 1}, 2: {1, 3, 0}} {
		want := map[int]int{1: 4, 2: 2}[k]
		if got := AccuracyCount(indices, labels, k); got != want {
			t.Errorf("top %d: %d rows are right, want %d", k, got, want)
		}
	}
	if got := AccuracyCount(nil, nil, 5); got != 0 {
		t.Errorf("no rows: %d", got)
	}
	values, largest := make([]int64, 2), make([]int64, 2)
	if TopK(values, largest, []int64{1 << 53, 1<<53 + 1, 5}, 1, 3, 2); !slices.Equal(values, []int64{1<<53 + 1, 1 << 53}) {
		t.Errorf("top of int64: %v", values)
	}
}
