package kernel

import (
	"math"
	"testing"
)

func TestReduceMin(t *testing.T) {
	nan := math.NaN()
	x := []float64{3, 1, 2, -1, 5, nan}
	rows, columns := NewReducePlan([]int{2, 3}, []bool{false, true}), NewReducePlan([]int{2, 3}, []bool{true, false})
	out := make([]float64, 2)
	ReduceMin(&rows, out, x, 0, 2)
	nearAll(t, "rows", out, []float64{1, nan})
	out = make([]float64, 3)
	ReduceMin(&columns, out, x, 0, 3)
	nearAll(t, "columns", out, []float64{-1, 1, nan})
	nothing := NewReducePlan([]int{0}, []bool{true})
	ReduceMin(&nothing, out[:1], nil, 0, 1)
	if !math.IsInf(out[0], 1) {
		t.Errorf("the smallest of nothing is %v", out[0])
	}
}
