package math_test

import (
	"context"
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// curveCase applies an op with attributes to x; want is what comes out.
func curveCase(name, about string, a attrs, x []float64, want ...float64) Case {
	c := unaryCase(name, x, want...)
	c.Name, c.Attrs = about, a
	return c
}

var (
	e       = math.E
	sigmoid = func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	tanh    = math.Tanh
)

var curveCases = []Case{
	curveCase("relu6", "", nil, []float64{-1, 2.5, 7}, 0, 2.5, 6),
	curveCase("relu6", "threshold", attrs{"threshold": float32(2)}, []float64{-1, 1.5, 7}, 0, 1.5, 2),
	curveCase("leaky_relu", "", attrs{"alpha": float32(0.25)}, []float64{-2, 3}, -0.5, 3),
	curveCase("hard_sigmoid", "", attrs{"slope": float32(0.25), "offset": float32(0.5)}, []float64{-3, -1, 1, 3}, 0, 0.25, 0.75, 1),
	curveCase("hard_swish", "", nil, []float64{-4, -1.5, 1.5, 4}, 0, -0.375, 1.125, 4),
	curveCase("hard_swish", "scaled", attrs{"threshold": float32(4), "scale": float32(2), "offset": float32(1)}, []float64{-2, 1, 5}, 0, 1, 10),
	curveCase("hard_shrink", "", nil, []float64{-0.75, -0.25, 0.25, 0.75}, -0.75, 0, 0, 0.75),
	curveCase("softshrink", "", attrs{"lambda": float32(0.25)}, []float64{-1, -0.125, 0.125, 1}, -0.75, 0, 0, 0.75),
	curveCase("thresholded_relu", "", nil, []float64{-2, 0.5, 1.5}, 0, 0, 1.5),
	curveCase("brelu", "", attrs{"t_min": float32(-1), "t_max": float32(2)}, []float64{-2, -0.5, 3}, -1, -0.5, 2),
	curveCase("elu", "", attrs{"alpha": float32(0.5)}, []float64{-math.Ln2, 2}, -0.25, 2),
	curveCase("celu", "", attrs{"alpha": float32(0.5)}, []float64{-math.Ln2 / 2, 2}, -0.25, 2),
	curveCase("selu", "", attrs{"scale": float32(2), "alpha": float32(0.5)}, []float64{-math.Ln2, 2}, -0.5, 4),
	curveCase("gelu", "", nil, []float64{-1, 0, 1}, -0.15865525393145707, 0, 0.8413447460685429),
	curveCase("gelu", "approximate", attrs{"approximate": true}, []float64{-1, 0, 1}, -0.15880800939172324, 0, 0.8411919906082768),
	curveCase("swish", "", attrs{"beta": float32(2)}, []float64{-1, 0, 1.5}, -sigmoid(-2), 0, 1.5*sigmoid(3)),
	curveCase("silu", "", nil, []float64{-1, 0, 1.5}, -sigmoid(-1), 0, 1.5*sigmoid(1.5)),
	curveCase("mish", "", nil, []float64{-1, 0, 1.5}, -tanh(math.Log(1+1/e)), 0, 1.5*tanh(math.Log(1+math.Exp(1.5)))),
	curveCase("softplus", "", nil, []float64{-1, 0, 25}, math.Log(1+1/e), math.Ln2, 25),
	curveCase("softplus", "sharp", attrs{"beta": float32(2), "threshold": float32(4)}, []float64{-0.5, 1, 2.5}, math.Log(1+1/e)/2, math.Log(1+e*e)/2, 2.5),
	curveCase("soft_relu", "", attrs{"threshold": float32(2)}, []float64{-3, 0, 1, 3}, math.Log(1+math.Exp(-2)), math.Ln2, math.Log(1+e), math.Log(1+e*e)),
	curveCase("logsigmoid", "", nil, []float64{-800, 0, 1}, -800, -math.Ln2, -math.Log(1+1/e)),
	curveCase("stanh", "", attrs{"scale_a": float32(0.5), "scale_b": float32(2)}, []float64{-2, 0, 1}, -2*tanh(1), 0, 2*tanh(0.5)),
	curveCase("tanh_shrink", "", nil, []float64{-2, 0, 1}, -2+tanh(2), 0, 1-tanh(1)),
	curveCase("pow", "", attrs{"factor": float32(3)}, []float64{-2, 0.5, 3}, -8, 0.125, 27),
	curveCase("pow", "square", attrs{"factor": float32(2)}, []float64{-2, 0.5, 3}, 4, 0.25, 9),
	{Type: "pow", Name: "integers", Attrs: attrs{"factor": float32(3.5)}, Inputs: slots{"X": One(Ints(dims{3}, -2, 0, 3))}, Want: slots{"Out": One(Ints(dims{3}, -8, 0, 27))}},
	curveCase("pow", "zero", attrs{"factor": float32(0)}, []float64{-2, 0.5, 3}, 1, 1, 1),
}

// Far from 0 and at the infinities every activation has its limit, and the gradient has the slope of the limit. A NaN stays one.
func TestActivationsFarFromZero(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for op, want := range map[string][]float64{ // of -Inf, -1e4, 1e4, Inf
		"relu6": {0, 0, 6, 6}, "hard_swish": {0, 0, 1e4, inf}, "brelu": {0, 0, 24, 24}, "gelu": {0, 0, 1e4, inf}, "swish": {0, 0, 1e4, inf},
		"silu": {0, 0, 1e4, inf}, "mish": {0, 0, 1e4, inf}, "softplus": {0, 0, 1e4, inf}, "elu": {-1, -1, 1e4, inf}, "logsigmoid": {-inf, -1e4, 0, 0},
		"hard_sigmoid": {0, 0, 1, 1},
	} {
		for _, float := range []tensor.DType{tensor.Float32, tensor.Float64} {
			got, slopes := slopesAt(t, op, float, -inf, -1e4, 1e4, inf, nan)
			for i, w := range want {
				if got[i] != w && !(math.Abs(got[i]-w) < 1e-9) {
					t.Errorf("%s of %v number %d is %v, want %v", op, float, i, got[i], w)
				}
				if slope := slopes[i]; i%3 != 0 && !(slope >= 0 && slope <= 1) || math.IsNaN(slope) {
					t.Errorf("the slope of %s of %v at number %d is %v", op, float, i, slope)
				}
			}
			if !math.IsNaN(got[len(want)]) {
				t.Errorf("%s of NaN is %v", op, got[len(want)])
			}
		}
	}
}

// slopesAt returns the results of an activation at x, and its derivatives there.
func slopesAt(t *testing.T, name string, float tensor.DType, x ...float64) (results, slopes []float64) {
	t.Helper()
	at, ones := Floats(dims{int64(len(x))}, x...), Floats(dims{int64(len(x))}, 1, 1, 1, 1, 1)
	if float == tensor.Float32 {
		at, ones = single(t, at), single(t, ones)
	}
	m := NewInterpreter(map[string]*tensor.Tensor{"X": at, "Out@GRAD": ones}, ops.Step{})
	op := &program.Op{Type: name, Inputs: map[string][]string{"X": {"X"}}, Outputs: map[string][]string{"Out": {"Out"}}}
	def, _ := ops.Lookup(name)
	yes := func(string) bool { return true }
	backward, err := def.Gradient(ops.NewGrad(op, def, yes, yes))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(context.Background(), append([]*program.Op{op}, backward...)...); err != nil {
		t.Fatal(err)
	}
	return doubles(m.Vars["Out"]), doubles(m.Vars["X@GRAD"])
}

func single(t *testing.T, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	out, err := tensor.New(tensor.Float32, x.Dims()...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range x.Float64s() {
		out.Float32s()[i] = float32(v)
	}
	return out
}

func doubles(x *tensor.Tensor) []float64 {
	if x.DType() == tensor.Float64 {
		return x.Float64s()
	}
	out := make([]float64, x.Len())
	for i, v := range x.Float32s() {
		out[i] = float64(v)
	}
	return out
}
