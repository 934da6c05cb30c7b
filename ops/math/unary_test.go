package math_test

import (
	"math"

	. "github.com/edl-go/edl/ops/gradcheck"
)

// unaryCase applies an op to x; want is what comes out.
func unaryCase(name string, x []float64, want ...float64) Case {
	n := dims{int64(len(x)), 1}
	return Case{Type: name, Inputs: slots{"X": One(Floats(n, x...))}, Want: slots{"Out": One(Floats(n, want...))}}
}

var unaryCases = []Case{
	unaryCase("relu", []float64{-1.5, 0.5, 2}, 0, 0.5, 2),
	unaryCase("sigmoid", []float64{0, math.Log(3), -math.Log(3)}, 0.5, 0.75, 0.25),
	unaryCase("tanh", []float64{0, math.Log(2)}, 0, 0.6),
	unaryCase("softsign", []float64{3, -1, 0.25}, 0.75, -0.5, 0.2),
	unaryCase("square", []float64{3, -1.5, 0}, 9, 2.25, 0),
	unaryCase("sqrt", []float64{4, 2.25, 1}, 2, 1.5, 1),
	unaryCase("exp", []float64{0, math.Log(5)}, 1, 5),
	unaryCase("log", []float64{1, math.E * math.E}, 0, 2),
	unaryCase("abs", []float64{-3, 2, -0.5}, 3, 2, 0.5),
	unaryCase("sign", []float64{-3, 2, 0.5}, -1, 1, 1),
	unaryCase("floor", []float64{-1.5, 1.5, 2.25}, -2, 1, 2),
	unaryCase("ceil", []float64{-1.5, 1.5, 2.25}, -1, 2, 3),
	unaryCase("cos", []float64{0, math.Pi / 3, math.Pi}, 1, 0.5, -1),
	unaryCase("reciprocal", []float64{2, -4, 0.5}, 0.5, -0.25, 2),
	unaryCase("round", []float64{-1.6, 1.4, 2.75}, -2, 1, 3),
	unaryCase("rsqrt", []float64{4, 0.25, 1}, 0.5, 2, 1),
	unaryCase("sin", []float64{0, math.Pi / 6, -math.Pi / 2}, 0, 0.5, -1),
	unaryCase("tan", []float64{0, math.Pi / 4, -math.Pi / 4}, 0, 1, -1),
	unaryCase("asin", []float64{0, 0.5, -0.5}, 0, math.Pi/6, -math.Pi/6),
	unaryCase("acos", []float64{0, 0.5, -0.5}, math.Pi/2, math.Pi/3, 2*math.Pi/3),
	unaryCase("atan", []float64{0, 1, -1}, 0, math.Pi/4, -math.Pi/4),
	unaryCase("sinh", []float64{0, math.Log(2), -math.Log(2)}, 0, 0.75, -0.75),
	unaryCase("cosh", []float64{0, math.Log(2), -math.Log(2)}, 1, 1.25, 1.25),
	unaryCase("erf", []float64{0, 0.5, -0.5}, 0, 0.5204998778130465, -0.5204998778130465),
	unaryCase("expm1", []float64{0, math.Log(3), 1e-6}, 0, 2, 1.0000005000001667e-06),
	unaryCase("log1p", []float64{0, 3, -0.75}, 0, 2*math.Ln2, -2*math.Ln2),
	unaryCase("log2", []float64{1, 8, 0.25}, 0, 3, -2),
	unaryCase("log10", []float64{1, 100, 0.1}, 0, 2, -1),
}
