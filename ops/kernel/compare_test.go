package kernel

import (
	"math"
	"slices"
	"testing"
)

func TestComparisons(t *testing.T) {
	nan := math.NaN()
	x, y := []float64{1, 2, 3, nan, nan}, []float64{2, 2, 2, 1, nan}
	for _, c := range []struct {
		name string
		f    func(out []bool, x, y []float64)
		want []bool
	}{
		{"less_than", LessThan[float64], []bool{true, false, false, false, false}},
		{"less_equal", LessEqual[float64], []bool{true, true, false, false, false}},
		{"greater_than", GreaterThan[float64], []bool{false, false, true, false, false}},
		{"greater_equal", GreaterEqual[float64], []bool{false, true, true, false, false}},
		{"equal", Equal[float64], []bool{false, true, false, false, false}},
		{"not_equal", NotEqual[float64], []bool{true, false, true, true, true}},
	} {
		out := make([]bool, 5)
		if c.f(out, x, y); !slices.Equal(out, c.want) {
			t.Errorf("%s = %v, want %v", c.name, out, c.want)
		}
	}
	big := make([]bool, 1)
	if LessThan(big, []int64{1 << 53}, []int64{1<<53 + 1}); !big[0] {
		t.Error("int64 is compared with the precision of a float")
	}
}

func TestLogical(t *testing.T) {
	x, y := []bool{false, false, true, true}, []bool{false, true, false, true}
	out := make([]bool, 4)
	if LogicalNot(out, x); !slices.Equal(out, []bool{true, true, false, false}) {
		t.Errorf("not: %v", out)
	}
	if LogicalAnd(out, x, y); !slices.Equal(out, []bool{false, false, false, true}) {
		t.Errorf("and: %v", out)
	}
	if LogicalOr(out, x, y); !slices.Equal(out, []bool{false, true, true, true}) {
		t.Errorf("or: %v", out)
	}
}
