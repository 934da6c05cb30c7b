package optimizer

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A source gives a learning rate.
type source struct {
	constant float64
	schedule Schedule // nil for a constant
}

// Rate is the type of a learning rate: a number or a Schedule.
type Rate interface{ float64 | int | Schedule }

func sourceOf[R Rate](rate R) source {
	switch r := any(rate).(type) {
	case float64:
		return source{constant: r}
	case int:
		return source{constant: float64(r)}
	case Schedule:
		if r == nil {
			return source{constant: math.NaN()} // build refuses it
		}
		return source{schedule: r}
	}
	return source{}
}

// build returns the variable of the learning rate, [1]. A constant is a persistable variable with an initial value, so that a feed or a load can
// change it.
func (s source) build(m *layers.Model, dtype tensor.DType) layers.Variable {
	if s.schedule == nil && !isRate(s.constant) {
		m.Report(fault.E(fault.InvalidArgument, fault.Gotf("a learning rate %v", s.constant),
			fault.Want("a finite number that is not negative, or a schedule that is not nil")))
		return layers.Variable{}
	}
	if s.schedule == nil {
		return m.State(m.UniqueName("learning_rate"), dtype, []int64{1}, layers.Constant(s.constant))
	}
	var rate layers.Variable
	m.As(program.RoleLRSched, nil, func() { rate = s.schedule(step(m, dtype)) })
	if rate.OK() && !slices.Equal(rate.Dims(), []int64{1}) {
		m.Report(fault.E(fault.ShapeMismatch, fault.Var(rate.Name()), fault.Gotf("a learning rate %v", rate), fault.Want("dims [1]")))
		return layers.Variable{}
	}
	return rate
}

// isRate reports whether a learning rate is one: it is finite and not negative.
func isRate(rate float64) bool { return rate >= 0 && !math.IsInf(rate, 0) }

// A Schedule builds the learning rate [1] of a step. Its argument is the number of the step, [1], which is 0 in the first step and exact below 2²⁴.
// The ops run once per global step, however many machines take part.
type Schedule func(step layers.Variable) layers.Variable

// step returns the number of the step as a number of the given type. Its counter starts at -1 and is incremented before it is read.
func step(m *layers.Model, dtype tensor.DType) layers.Variable {
	counter, ok := m.Variable(program.LRDecayCounter)
	if !ok {
		counter = m.State(program.LRDecayCounter, tensor.Int64, []int64{1}, layers.Constant(-1))
		layers.Increment(counter, 1)
	}
	return layers.Cast(counter, dtype)
}

// constant returns a value [1] with the type of like.
func constant(like layers.Variable, value float64) layers.Variable {
	if !like.OK() {
		return like
	}
	return layers.FillConstant(like.Model(), value, []int64{1}, layers.DType(like.DType()))
}

// atLeast checks that value is at least least. If not, it reports a mistake on the model of step and returns a poisoned variable.
func atLeast(step layers.Variable, name string, value, least float64) (layers.Variable, bool) {
	if value >= least && !math.IsInf(value, 0) {
		return step, true
	}
	if step.OK() {
		step.Model().Report(fault.E(fault.InvalidArgument, fault.At("schedule"), fault.Gotf("%s %v", name, value),
			fault.Wantf("at least %v", least)))
	}
	return layers.Variable{}, false
}

// rates is atLeast for learning rates, which are at least 0.
func rates(step layers.Variable, values ...float64) (layers.Variable, bool) {
	for _, v := range values {
		if bad, ok := atLeast(step, "learning rate", v, 0); !ok {
			return bad, false
		}
	}
	return step, true
}

// Exponential is rate · decay^(step/steps). With staircase, the exponent is rounded down.
func Exponential(rate float64, steps int, decay float64, staircase bool) Schedule {
	return func(step layers.Variable) layers.Variable {
		periods, ok := periods(step, steps, staircase)
		if !ok {
			return periods
		}
		if bad, ok := rates(step, rate); !ok {
			return bad
		}
		factor := layers.Pow(constant(step, decay), periods)
		return layers.Mul(factor, constant(step, rate))
	}
}

// NaturalExp is rate · exp(-decay · step/steps). With staircase, the quotient is rounded down.
func NaturalExp(rate float64, steps int, decay float64, staircase bool) Schedule {
	return func(step layers.Variable) layers.Variable {
		periods, ok := periods(step, steps, staircase)
		if !ok {
			return periods
		}
		if bad, ok := rates(step, rate); !ok {
			return bad
		}
		return layers.Scale(layers.Exp(layers.Scale(periods, -decay, 0)), rate, 0)
	}
}

// InverseTime is rate / (1 + decay · step/steps). With staircase, the quotient is rounded down.
func InverseTime(rate float64, steps int, decay float64, staircase bool) Schedule {
	return func(step layers.Variable) layers.Variable {
		periods, ok := periods(step, steps, staircase)
		if !ok {
			return periods
		}
		if bad, ok := rates(step, rate); !ok {
			return bad
		}
		return layers.Div(constant(step, rate), layers.Scale(periods, decay, 1))
	}
}

// periods is step/steps, rounded down for a staircase.
func periods(step layers.Variable, steps int, staircase bool) (layers.Variable, bool) {
	if bad, ok := atLeast(step, "steps", float64(steps), 1); !ok {
		return bad, false
	}
	quotient := layers.Div(step, constant(step, float64(steps)))
	if staircase {
		quotient = layers.Floor(quotient)
	}
	return quotient, true
}

// Polynomial falls from rate to end within a number of steps: (rate - end) · (1 - min(step, steps)/steps)^power + end. With cycle, steps grows to
// the next multiple that step has not passed, so the rate rises again after each end.
func Polynomial(rate float64, steps int, end, power float64, cycle bool) Schedule {
	return func(step layers.Variable) layers.Variable {
		if bad, ok := atLeast(step, "steps", float64(steps), 1); !ok {
			return bad
		}
		if bad, ok := rates(step, rate, end); !ok {
			return bad
		}
		total := constant(step, float64(steps))
		if cycle {
			cycles := layers.Max(layers.Ceil(layers.Div(step, total)), constant(step, 1))
			total = layers.Mul(total, cycles)
		} else {
			step = layers.Min(step, total)
		}
		left := layers.Scale(layers.Div(step, total), -1, 1)
		return layers.Scale(layers.Pow(left, constant(step, power)), rate-end, end)
	}
}

// Noam rises over warmup steps and then falls with the root of the step: d^-½ · min(n^-½, n · warmup^-1.5), where n is step+1 and d
// the width of the model. (Vaswani et al. 2017.)
func Noam(width, warmup int) Schedule {
	return func(step layers.Variable) layers.Variable {
		if bad, ok := atLeast(step, "width", float64(width), 1); !ok {
			return bad
		}
		if bad, ok := atLeast(step, "warmup", float64(warmup), 1); !ok {
			return bad
		}
		n := layers.Scale(step, 1, 1)
		falling := layers.Pow(n, constant(step, -0.5))
		rising := layers.Scale(n, math.Pow(float64(warmup), -1.5), 0)
		return layers.Scale(layers.Min(falling, rising), math.Pow(float64(width), -0.5), 0)
	}
}

// Cosine falls along half a cosine over all epochs: rate · ½(cos(epoch · π/epochs) + 1), where epoch is step/stepsPerEpoch rounded down.
func Cosine(rate float64, stepsPerEpoch, epochs int) Schedule {
	return func(step layers.Variable) layers.Variable {
		if bad, ok := atLeast(step, "epochs", float64(epochs), 1); !ok {
			return bad
		}
		epoch, ok := periods(step, stepsPerEpoch, true)
		if !ok {
			return epoch
		}
		if bad, ok := rates(step, rate); !ok {
			return bad
		}
		return layers.Scale(layers.Cos(layers.Scale(epoch, math.Pi/float64(epochs), 0)), rate/2, rate/2)
	}
}

// Piecewise is constant between boundaries: values[i] while step < boundaries[i], and the last value afterwards. There is one value more than
// boundaries. The rate is the sum of every value times an indicator. Exactly one indicator is 1 and the others are 0, so each step has exactly one
// of the values, bit for bit.
func Piecewise(boundaries []int, values []float64) Schedule {
	boundaries, values = slices.Clone(boundaries), slices.Clone(values)
	return func(step layers.Variable) layers.Variable {
		if !step.OK() {
			return step
		}
		if len(values) != len(boundaries)+1 || !slices.IsSorted(boundaries) {
			step.Model().Report(fault.E(fault.InvalidArgument, fault.At("schedule Piecewise"),
				fault.Gotf("boundaries %v and values %v", boundaries, values), fault.Want("rising boundaries and one value more")))
			return layers.Variable{}
		}
		if bad, ok := rates(step, values...); !ok {
			return bad
		}
		if len(boundaries) == 0 {
			return constant(step, values[0])
		}
		var pieces []layers.Variable
		var before layers.Variable // 1 below the last boundary
		for i, boundary := range boundaries {
			below := indicator(step, float64(boundary))
			inside := below
			if i > 0 {
				inside = layers.Sub(below, before)
			}
			pieces = append(pieces, layers.Scale(inside, values[i], 0))
			before = below
		}
		last := layers.Scale(before, -1, 1)
		pieces = append(pieces, layers.Scale(last, values[len(boundaries)], 0))
		return layers.Sums(pieces)
	}
}

// LinearWarmup rises from start to end over warmup steps. Afterwards it follows the inner rate.
func LinearWarmup[R Rate](inner R, warmup int, start, end float64) Schedule {
	source := sourceOf(inner)
	return func(step layers.Variable) layers.Variable {
		if bad, ok := atLeast(step, "warmup", float64(warmup), 1); !ok {
			return bad
		}
		if bad, ok := rates(step, start, end, source.constant); !ok {
			return bad
		}
		after := constant(step, source.constant)
		if source.schedule != nil {
			after = source.schedule(step)
		}
		warm := indicator(step, float64(warmup))
		rising := layers.Scale(step, (end-start)/float64(warmup), start)
		cold := layers.Scale(warm, -1, 1)
		return layers.Add(layers.Mul(rising, warm), layers.Mul(after, cold))
	}
}

// indicator is 1 while step is below boundary, and 0 afterwards.
func indicator(step layers.Variable, boundary float64) layers.Variable {
	return layers.Cast(layers.LessThan(step, constant(step, boundary)), step.DType())
}
