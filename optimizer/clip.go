package optimizer

import "github.com/edl-go/edl/layers"

// A Clip builds the ops that limit gradients, and returns the pairs with the limited ones. What it builds for one pair belongs
// inside Pair.Build.
type Clip func([]Pair) []Pair

// ByValue limits every element of every gradient to [low, high].
func ByValue(low, high float64) Clip {
	return each(func(grad layers.Variable) layers.Variable { return layers.Clip(grad, low, high) })
}

// ByNorm scales each gradient down to a Euclidean norm of limit when its norm is larger.
func ByNorm(limit float64) Clip {
	return each(func(grad layers.Variable) layers.Variable { return layers.ClipByNorm(grad, limit) })
}

func each(change func(layers.Variable) layers.Variable) Clip {
	return func(pairs []Pair) []Pair {
		for i, p := range pairs {
			p.Build(func() { pairs[i].Grad = change(p.Grad) })
		}
		return pairs
	}
}

// ByGlobalNorm scales all gradients by limit / max(norm, limit), where norm is the Euclidean norm of all of them together. The
// sum of squares of each gradient is exact and does not depend on how the gradient is sliced, and only scalars meet across
// parameters, so a distributed job clips by the same norm as a local one.
func ByGlobalNorm(limit float64) Clip {
	return func(pairs []Pair) []Pair {
		squares := make([]layers.Variable, len(pairs))
		for i, p := range pairs {
			p.Build(func() { squares[i] = layers.SquaredNorm(p.Grad) })
		}
		var factor layers.Variable
		buildFor(pairs, func() {
			norm := layers.Sqrt(layers.Sums(squares))
			most := layers.FillConstant(norm.Model(), limit, []int64{1}, layers.DType(norm.DType()))
			factor = layers.Div(most, layers.Max(norm, most))
		})
		for i, p := range pairs {
			p.Build(func() { pairs[i].Grad = layers.Mul(p.Grad, factor) })
		}
		return pairs
	}
}
