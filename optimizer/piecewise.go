package optimizer

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
)

// Piecewise is constant between boundaries: values[i] while step < boundaries[i], and the last value, of which there is one
// more than boundaries, afterwards. The rate is the sum of every value times an indicator that is exactly 0 or 1, of
// which exactly one is 1, so each step sees one of the values to the bit.
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

// LinearWarmup rises from start to end over warmup steps, and follows the inner rate afterwards.
func LinearWarmup[R Rate](inner R, warmup int, start, end float64) Schedule {
	source := sourceOf(inner)
	return func(step layers.Variable) layers.Variable {
		if bad, ok := atLeast(step, "warmup", float64(warmup), 1); !ok {
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
