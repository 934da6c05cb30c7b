package kernel

import "testing"

func TestEmbedding(t *testing.T) {
	table := []float32{0, 1, 10, 11, 20, 21}
	ids := []int64{2, 1, 2, 0}
	for _, c := range []struct {
		padding   int64
		out, grad []float64
	}{
		{NoPadding, []float64{20, 21, 10, 11, 20, 21, 0, 1}, []float64{7, 8, 3, 4, 6, 8}},
		{2, []float64{0, 0, 10, 11, 0, 0, 0, 1}, []float64{7, 8, 3, 4, 0, 0}},
	} {
		out, grad := make([]float32, 8), []float32{9, 9, 9, 9, 9, 9}
		Embedding(out, table, ids, 2, c.padding)
		nearAll(t, "rows", out, c.out)
		for _, rows := range [][2]int{{2, 3}, {0, 2}} {
			EmbeddingGrad(grad, ids, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, c.padding, rows[0], rows[1])
		}
		nearAll(t, "gradient", grad, c.grad)
	}
}

func TestFirstBadID(t *testing.T) {
	for _, c := range []struct {
		ids  []int64
		want int
	}{{nil, -1}, {[]int64{0, 2}, -1}, {[]int64{0, 3, -1}, 1}, {[]int64{-1}, 0}, {[]int64{1 << 62}, 0}} {
		if got := FirstBadID(c.ids, 3); got != c.want {
			t.Errorf("first bad id of %v is %d, want %d", c.ids, got, c.want)
		}
	}
}
