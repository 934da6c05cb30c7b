package kernel

import "testing"

func TestOneHot(t *testing.T) {
	out := []float32{9, 9, 9, 9, 9, 9}
	OneHot(out, []int64{2, 0}, 3)
	nearAll(t, "rows", out, []float64{0, 0, 1, 1, 0, 0})
}

func TestLabelSmooth(t *testing.T) {
	x := []float64{0, 1, 1, 0}
	out := make([]float64, 4)
	LabelSmooth(out, x, nil, 2, 0.5)
	nearAll(t, "uniform", out, []float64{0.25, 0.75, 0.75, 0.25})
	LabelSmooth(out, x, []float64{0.25, 0.75}, 2, 0.5)
	nearAll(t, "prior", out, []float64{0.125, 0.875, 0.625, 0.375})
}
