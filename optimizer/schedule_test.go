package optimizer_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
)

// rates runs the learning-rate ops of a schedule for a number of steps.
func rates(t *testing.T, schedule optimizer.Schedule, steps int) []float64 {
	t.Helper()
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2))
	optimizer.SGD(schedule).Minimize(layers.Mean(layers.FC(x, 1, layers.NoBias())))
	p := build(t, m)
	machine := start(t, p, nil)
	update := withRole(p, program.RoleOptimize)[0]
	all := make([]float64, steps)
	for i := range all {
		machine.run(withRole(p, program.RoleLRSched))
		all[i] = machine.scalar(update.In("LearningRate"))
	}
	return all
}

func TestSchedulesFollowTheirFormulas(t *testing.T) {
	cases := []struct {
		name     string
		schedule optimizer.Schedule
		formula  func(step float64) float64
	}{
		{"exponential", optimizer.Exponential(0.1, 7, 0.5, false), func(s float64) float64 { return 0.1 * math.Pow(0.5, s/7) }},
		{"exponential staircase", optimizer.Exponential(0.1, 7, 0.5, true), func(s float64) float64 { return 0.1 * math.Pow(0.5, math.Floor(s/7)) }},
		{"natural exp", optimizer.NaturalExp(0.1, 7, 0.5, false), func(s float64) float64 { return 0.1 * math.Exp(-0.5*s/7) }},
		{"natural exp staircase", optimizer.NaturalExp(0.1, 7, 0.5, true), func(s float64) float64 { return 0.1 * math.Exp(-0.5*math.Floor(s/7)) }},
		{"inverse time", optimizer.InverseTime(0.1, 7, 0.5, false), func(s float64) float64 { return 0.1 / (1 + 0.5*s/7) }},
		{"inverse time staircase", optimizer.InverseTime(0.1, 7, 0.5, true), func(s float64) float64 { return 0.1 / (1 + 0.5*math.Floor(s/7)) }},
		{"polynomial", optimizer.Polynomial(0.1, 20, 0.01, 2, false), func(s float64) float64 {
			return (0.1-0.01)*math.Pow(1-math.Min(s, 20)/20, 2) + 0.01
		}},
		{"polynomial in cycles", optimizer.Polynomial(0.1, 20, 0.01, 2, true), func(s float64) float64 {
			n := 20 * math.Max(1, math.Ceil(s/20))
			return (0.1-0.01)*math.Pow(1-s/n, 2) + 0.01
		}},
		{"noam", optimizer.Noam(512, 10), func(s float64) float64 {
			n := s + 1
			return math.Pow(512, -0.5) * math.Min(math.Pow(n, -0.5), n*math.Pow(10, -1.5))
		}},
		{"cosine", optimizer.Cosine(0.1, 4, 10), func(s float64) float64 { return 0.1 * 0.5 * (math.Cos(math.Floor(s/4)*math.Pi/10) + 1) }},
		{"linear warmup", optimizer.LinearWarmup(0.1, 8, 0.01, 0.09), func(s float64) float64 {
			if s < 8 {
				return 0.01 + (0.09-0.01)*s/8
			}
			return 0.1
		}},
		{"linear warmup of a schedule", optimizer.LinearWarmup(optimizer.InverseTime(0.1, 7, 0.5, false), 8, 0, 0.1), func(s float64) float64 {
			if s < 8 {
				return 0.1 * s / 8
			}
			return 0.1 / (1 + 0.5*s/7)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for step, got := range rates(t, c.schedule, 50) {
				want := c.formula(float64(step))
				if math.Abs(got-want) > 1e-6*want+1e-8 {
					t.Errorf("step %d: rate %v, want %v", step, got, want)
				}
			}
		})
	}
}

func TestPiecewiseYieldsItsValuesToTheBit(t *testing.T) {
	values := []float64{0.1, 0.03, 1e-7, 0.7}
	for step, got := range rates(t, optimizer.Piecewise([]int{3, 10, 11}, values), 50) {
		want := values[0]
		for i, boundary := range []int{3, 10, 11} {
			if step >= boundary {
				want = values[i+1]
			}
		}
		if got != float64(float32(want)) {
			t.Errorf("step %d: rate %v, want %v", step, got, want)
		}
	}
}

func TestSchedulesShareOneCounter(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(2))
	a, b := layers.FC(x, 1, layers.NoBias()), layers.FC(x, 1, layers.NoBias())
	pairs := optimizer.AppendBackward(layers.Mean(layers.Add(a, b)))
	optimizer.SGD(optimizer.Noam(8, 4)).Apply(pairs[:1])
	optimizer.Adam(optimizer.Cosine(1, 4, 10)).Apply(pairs[1:])
	if got := strings.Count(opTypes(build(t, m)), "increment"); got != 1 {
		t.Errorf("%d counters", got)
	}
}

func TestMistakesInSchedules(t *testing.T) {
	for name, schedule := range map[string]optimizer.Schedule{
		"steps 0":          optimizer.Exponential(0.1, 0, 0.5, false),
		"steps -1":         optimizer.Polynomial(0.1, -1, 0, 1, false),
		"width 0":          optimizer.Noam(0, 1),
		"warmup 0":         optimizer.LinearWarmup(0.1, 0, 0, 1),
		"epochs 0":         optimizer.Cosine(0.1, 1, 0),
		"boundaries [3]":   optimizer.Piecewise([]int{3}, []float64{1}),
		"boundaries [3 1]": optimizer.Piecewise([]int{3, 1}, []float64{1, 2, 3}),
		"dims [1]":         func(step layers.Variable) layers.Variable { return layers.FillConstant(step.Model(), 1, []int64{2}) },
	} {
		m := layers.NewModel()
		optimizer.SGD(schedule).Minimize(regression(m))
		_, err := m.Program()
		if err == nil || !strings.Contains(err.Error(), name) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A rate that is no number, or a schedule that is not there, is refused when the model is built: a rate of 0 would train nothing, silently.
func TestRatesThatAreNone(t *testing.T) {
	for name, o := range map[string]*optimizer.Optimizer{
		"not a number": optimizer.SGD(math.NaN()), "infinite": optimizer.SGD(math.Inf(1)), "no schedule": optimizer.SGD(optimizer.Schedule(nil)),
		"negative": optimizer.SGD(-0.1), "a negative schedule": optimizer.SGD(optimizer.Exponential(-0.1, 1, 1, false)),
		"a schedule that falls below 0": optimizer.SGD(optimizer.Polynomial(0.1, 10, -0.1, 1, false)),
		"a negative piece":              optimizer.SGD(optimizer.Piecewise([]int{1}, []float64{0.1, -0.1})),
		"a negative rate after warmup":  optimizer.SGD(optimizer.LinearWarmup(-0.1, 2, 0, 0.1)),
	} {
		m := layers.NewModel()
		x := layers.Data(m, "x", layers.Dims(3))
		o.Minimize(layers.Mean(layers.FC(x, 1)))
		if _, err := m.Program(); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), "learning rate") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
