package optimizer_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// slope is the model y = w x with w 0 at first, and a step of it: x and y are 1.
func slope(t testing.TB, extend func(m *layers.Model, loss layers.Variable)) (*program.Program, func(p *program.Program, fetch ...string) []float64) {
	t.Helper()
	m := layers.NewModel()
	x, y := layers.Data(m, "x", layers.Dims(1)), layers.Data(m, "y", layers.Dims(1))
	w := layers.ParamAttr{Name: "w", Initializer: layers.Constant(0)}
	predicted := layers.FC(x, 1, layers.Param(w), layers.NoBias(), layers.Name("predicted"))
	extend(m, layers.Mean(layers.SquareErrorCost(predicted, y)))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	local := executor.New()
	t.Cleanup(func() { _ = local.Close() })
	one, _ := tensor.FromSlice([]float32{1}, 1, 1)
	return p, func(p *program.Program, fetch ...string) []float64 {
		feed := executor.Feed{"x": one, "y": one}
		values, err := local.Run(context.Background(), p, feed, fetch...)
		if err != nil {
			t.Fatal(err)
		}
		var out []float64
		for _, v := range values {
			out = append(out, float64(v.Float32s()[0]))
		}
		return out
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b)) }

// The mean follows its formula, and only the program of means computes with it.
func TestExponentialMovingAverage(t *testing.T) {
	var average *optimizer.Average
	p, run := slope(t, func(_ *layers.Model, loss layers.Variable) {
		average = optimizer.ExponentialMovingAverage(optimizer.SGD(0.1).Minimize(loss), 0.75)
	})
	means, err := average.Apply(p)
	if err != nil {
		t.Fatal(err)
	}
	w, s := 0.0, 0.0
	for step := 1; step <= 6; step++ {
		w += 0.1 * 2 * (1 - w)
		s = 0.75*s + 0.25*w
		if got := run(p, "w"); !near(got[0], w) {
			t.Fatalf("w is %v after step %d, want %v", got[0], step, w)
		}
		want := s / (1 - math.Pow(0.75, float64(step)))
		if got := run(means, "predicted"); !near(got[0], want) {
			t.Errorf("the mean is %v after step %d, want %v", got[0], step, want)
		}
		if got := run(p.CloneForTest(), "predicted"); !near(got[0], w) {
			t.Errorf("without the mean the model predicts %v, want %v", got[0], w)
		}
	}
}

// The mean is over the windows of the last steps.
func TestModelAverage(t *testing.T) {
	var average *optimizer.Average
	p, run := slope(t, func(_ *layers.Model, loss layers.Variable) {
		average = optimizer.ModelAverage(optimizer.SGD(0.1).Minimize(loss), 1, 2, 3)
	})
	means, err := average.Apply(p)
	if err != nil {
		t.Fatal(err)
	}
	var ws []float64
	from, begun := 0, 0 // of the window before and of this one
	for step := 1; step <= 9; step++ {
		w := 0.0
		if step > 1 {
			w = ws[step-2]
		}
		ws = append(ws, w+0.1*2*(1-w))
		run(p, "w")
		if n := step - begun; n >= 2 && n >= min(3, step) {
			from, begun = begun, step
		}
		sum := 0.0
		for _, v := range ws[from:] {
			sum += v
		}
		if want, got := sum/float64(step-from), run(means, "predicted"); !near(got[0], want) {
			t.Errorf("the mean is %v after step %d, want %v", got[0], step, want)
		}
	}
}

func TestLookahead(t *testing.T) {
	p, run := slope(t, func(_ *layers.Model, loss layers.Variable) {
		optimizer.Lookahead(optimizer.Momentum(0.1, 0.5), 0.25, 3).Minimize(loss)
	})
	w, slow, v := 0.0, 0.0, 0.0
	for step := 1; step <= 10; step++ {
		v = 0.5*v - 2*(1-w)
		w -= 0.1 * v
		if step%3 == 0 {
			slow += 0.25 * (w - slow)
			w = slow
		}
		if got := run(p, "w"); !near(got[0], w) {
			t.Fatalf("w is %v after step %d, want %v", got[0], step, w)
		}
	}
}

func TestMistakesOfAveragesAndLookahead(t *testing.T) {
	for _, o := range []*optimizer.Optimizer{
		optimizer.Lookahead(optimizer.SGD(0.1), 2, 3), optimizer.Lookahead(optimizer.SGD(0.1), math.NaN(), 3), optimizer.Lookahead(optimizer.SGD(0.1), 0.5, 0),
	} {
		m, loss := line()
		o.Minimize(loss)
		if _, err := m.Program(); err == nil {
			t.Error("a mistake of Lookahead is not reported")
		}
	}
	m, loss := line()
	optimizer.ModelAverage(optimizer.SGD(0.1).Minimize(loss), 1, 0, 3)
	if _, err := m.Program(); err == nil {
		t.Error("a window of no steps is not reported")
	}
	m, loss = line()
	a := optimizer.ExponentialMovingAverage(optimizer.SGD(0.1).Minimize(loss), 1)
	if _, err := m.Program(); err == nil {
		t.Error("a decay of 1 is not reported")
	}
	if _, err := a.Apply(program.New()); err != nil {
		t.Error(err) // it has no parameters
	}
	_, loss = line()
	a = optimizer.ExponentialMovingAverage(optimizer.SGD(0.1).Minimize(loss), 0.5)
	if _, err := a.Apply(program.New()); err == nil {
		t.Error("another program is accepted")
	}
}

// The inner optimizer takes five steps, and Lookahead goes half of the way.
func ExampleLookahead() {
	m, loss := line()
	optimizer.Lookahead(optimizer.SGD(0.2), 0.5, 5).Minimize(loss)
	train(m, 400)
	// Output: y = 3.00 x + 1.00
}

// The means of all parameters predict; training goes on with the parameters themselves.
func ExampleExponentialMovingAverage() {
	m, loss := line()
	pairs := optimizer.SGD(0.1).Minimize(loss)
	average := optimizer.ExponentialMovingAverage(pairs, 0.9)
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	x, _ := tensor.FromSlice([]float32{-1, 0, 1, 2}, 4, 1)
	y, _ := tensor.FromSlice([]float32{-2, 1, 4, 7}, 4, 1)
	local := executor.New()
	defer local.Close()
	for range 300 {
		if _, err := local.Run(context.Background(), p, executor.Feed{"x": x, "y": y}); err != nil {
			fmt.Println(err)
			return
		}
	}
	means, err := average.Apply(p)
	if err != nil {
		fmt.Println(err)
		return
	}
	values, err := local.Run(context.Background(), means, executor.Feed{"x": x, "y": y}, "w@MEAN", "b@MEAN")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("y = %.2f x + %.2f\n", values[0].Float32s()[0], values[1].Float32s()[0])
	// Output: y = 3.00 x + 1.00
}
