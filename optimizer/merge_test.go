package optimizer_test

import (
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

// A step of three merged batches is a step on the mean of their gradients, and momentum and the parameter rest in between.
func TestGradientMerge(t *testing.T) {
	p, run := slope(t, func(_ *layers.Model, loss layers.Variable) {
		optimizer.GradientMerge(optimizer.Momentum(0.1, 0.5, optimizer.ClipGradients(optimizer.ByValue(-1, 1))), 3).Minimize(loss)
	})
	w, v := 0.0, 0.0
	for step := 1; step <= 12; step++ {
		if step%3 == 0 {
			v = 0.5*v + max(-1, min(1, -2*(1-w))) // the gradients of the three batches are equal
			w -= 0.1 * v
		}
		if got := run(p, "w"); !near(got[0], w) {
			t.Fatalf("w is %v after step %d, want %v", got[0], step, w)
		}
	}
}

// Steps that are merged may be merged again: every fourth counts, and is a step of Adam.
func TestGradientMergeOfAdam(t *testing.T) {
	merged, run := slope(t, func(_ *layers.Model, loss layers.Variable) {
		optimizer.GradientMerge(optimizer.GradientMerge(optimizer.Adam(0.1), 2), 2).Minimize(loss)
	})
	p, plain := slope(t, func(_ *layers.Model, loss layers.Variable) { optimizer.Adam(0.1).Minimize(loss) })
	for step := 1; step <= 3; step++ {
		want := plain(p, "w")[0]
		for k := range 4 {
			if got := run(merged, "w")[0]; k == 3 && !near(got, want) {
				t.Errorf("w is %v after %d merged steps, want %v", got, step, want)
			}
		}
	}
}

func TestMistakesOfGradientMerge(t *testing.T) {
	for _, k := range []int{0, -1, 1 << 24} {
		m, loss := line()
		optimizer.GradientMerge(optimizer.SGD(0.1), k).Minimize(loss)
		if _, err := m.Program(); err == nil {
			t.Errorf("k %d is accepted", k)
		}
	}
}
