package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestSequenceSum(t *testing.T) {
	x, out, dx := []float32{1, 2, 3, 4, 5, 6}, make([]float32, 2), make([]float32, 6)
	SequenceSum(out, x, 2, 0.5)
	SequenceSumGrad(dx, []float32{4, 6}, 2, 0.5)
	if !slices.Equal(out, []float32{4.5, 6}) || !slices.Equal(dx, []float32{2, 3, 2, 3, 2, 3}) {
		t.Errorf("half of the sum is %v, its gradient %v", out, dx)
	}
}

func TestSequenceMax(t *testing.T) {
	nan := math.NaN()
	x := []float64{
		1, nan, -1, 2,
		3, 5, -1, nan,
		3, 9, -2, nan,
	}
	out, index, dx := make([]float64, 4), make([]int32, 4), make([]float64, len(x))
	SequenceMax(out, index, x, 4, 10)
	if !slices.Equal(index, []int32{11, 10, 10, 11}) || out[0] != 3 || out[1] == out[1] || out[2] != -1 || out[3] == out[3] {
		t.Errorf("largest %v in rows %v", out, index)
	}
	SequenceMaxGrad(dx, []float64{1, 2, 3, 4}, index, 4, 10)
	if !slices.Equal(dx, []float64{0, 2, 3, 0, 1, 0, 0, 4, 0, 0, 0, 0}) {
		t.Errorf("gradient %v", dx)
	}
}

func TestSequencePoolAllocatesNothing(t *testing.T) {
	x, out, index := make([]float32, 300), make([]float32, 30), make([]int32, 30)
	if n := testing.AllocsPerRun(5, func() {
		SequenceSum(out, x, 30, 2)
		SequenceMax(out, index, x, 30, 0)
		SequenceMaxGrad(x, out, index, 30, 0)
		SequenceSumGrad(x, out, 30, 2)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
