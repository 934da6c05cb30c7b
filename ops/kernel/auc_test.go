package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The area is the share of pairs of a positive and a negative that the scores put in the right order.
func TestAUCCountsPairs(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	const rows, bins = 200, 11
	scores, labels := make([]float64, rows), make([]int64, rows)
	for i := range rows {
		scores[i] = float64(chance.IntN(bins)) / (bins - 1) // whole bins, so that no two scores share one unless they are equal
		labels[i] = int64(chance.IntN(2))
	}
	right, pairs := 0.0, 0.0
	for i, p := range scores {
		for j, n := range scores {
			if labels[i] != 1 || labels[j] != 0 {
				continue
			}
			pairs++
			if p > n {
				right++
			} else if p == n {
				right += 0.5
			}
		}
	}
	positive, negative := make([]int64, bins), make([]int64, bins)
	CountScores(positive, negative, scores, labels, 1)
	if got := AUC(positive, negative); math.Abs(got-right/pairs) > 1e-12 {
		t.Errorf("AUC is %g, want %g", got, right/pairs)
	}
}

func TestFirstNoProbability(t *testing.T) {
	for want, p := range [][]float32{{-0.1, 0}, {0, 1.1}, {0, 1, float32(math.NaN())}} {
		if got := FirstNoProbability(p); got != want {
			t.Errorf("%v: %d, want %d", p, got, want)
		}
	}
	if got := FirstNoProbability([]float64{0, 0.5, 1}); got != -1 {
		t.Errorf("got %d of probabilities", got)
	}
}
