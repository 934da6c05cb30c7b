package gradcheck

import (
	"testing"

	G "gorgonia.org/gorgonia"
	T "gorgonia.org/tensor"

	_ "github.com/edl-go/edl/ops/math"
	_ "github.com/edl-go/edl/ops/nn"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type attrs = map[string]program.Attr

// A node is how an op is written in gorgonia: from the nodes of the inputs x and y to that of the output.
type node func(in ...*G.Node) (*G.Node, error)

func one(f func(*G.Node) (*G.Node, error)) node {
	return func(in ...*G.Node) (*G.Node, error) { return f(in[0]) }
}

func both(f func(x, y *G.Node) (*G.Node, error)) node {
	return func(in ...*G.Node) (*G.Node, error) { return f(in[0], in[1]) }
}

// positive makes numbers above 1/2.
func positive(seed int, dims ...int64) *tensor.Tensor {
	t := Spread(seed, dims...)
	for i, v := range t.Float64s() {
		t.Float64s()[i] = v + 1.75
	}
	return t
}

// TestGorgonia compares outputs and gradients with those of gorgonia's automatic differentiation, which shares no code with
// ours.
func TestGorgonia(t *testing.T) {
	x, y, square := Spread(1, 3, 4), positive(2, 3, 4), Spread(3, 4, 3)
	image, filter := Spread(1, 2, 3, 5, 6), Spread(2, 4, 3, 3, 2)
	halves := Floats([]int64{3, 4}, 0.5, 0.5, 0, 0, 0, 0.5, 0, 0.5, 0.5, 0, 0.5, 0)
	xs := func(slot string, t *tensor.Tensor) map[string][]*tensor.Tensor {
		return map[string][]*tensor.Tensor{slot: {t}}
	}
	xys := func(x, y *tensor.Tensor) map[string][]*tensor.Tensor {
		return map[string][]*tensor.Tensor{"X": {x}, "Y": {y}}
	}
	for _, c := range []struct {
		Case
		inputs []string
		node   node
	}{
		{Case{Type: "mul", Inputs: xys(x, square)}, []string{"X", "Y"}, both(G.Mul)},
		{Case{Type: "matmul", Inputs: xys(x, square)}, []string{"X", "Y"}, both(G.Mul)},
		{Case{Type: "matmul", Name: "batched", Inputs: xys(Spread(1, 2, 3, 4), Spread(2, 2, 4, 2))}, []string{"X", "Y"},
			both(func(x, y *G.Node) (*G.Node, error) { return G.BatchedMatMul(x, y) })},
		{Case{Type: "elementwise_add", Inputs: xys(x, y)}, []string{"X", "Y"}, both(G.Add)},
		{Case{Type: "elementwise_sub", Inputs: xys(x, y)}, []string{"X", "Y"}, both(G.Sub)},
		{Case{Type: "elementwise_mul", Inputs: xys(x, y)}, []string{"X", "Y"}, both(G.HadamardProd)},
		{Case{Type: "elementwise_div", Inputs: xys(x, y)}, []string{"X", "Y"}, both(G.HadamardDiv)},
		{Case{Type: "elementwise_add", Name: "broadcast", Inputs: xys(x, positive(5, 4))}, []string{"X", "Y"},
			both(func(x, y *G.Node) (*G.Node, error) {
				return G.BroadcastAdd(x, G.Must(G.Reshape(y, T.Shape{1, 4})), nil, []byte{0})
			})},
		{Case{Type: "square", Inputs: xs("X", x)}, []string{"X"}, one(G.Square)},
		{Case{Type: "sqrt", Inputs: xs("X", y)}, []string{"X"}, one(G.Sqrt)},
		{Case{Type: "exp", Inputs: xs("X", x)}, []string{"X"}, one(G.Exp)},
		{Case{Type: "log", Inputs: xs("X", y)}, []string{"X"}, one(G.Log)},
		{Case{Type: "abs", Inputs: xs("X", x)}, []string{"X"}, one(G.Abs)},
		{Case{Type: "cos", Inputs: xs("X", x)}, []string{"X"}, one(G.Cos)},
		{Case{Type: "sigmoid", Inputs: xs("X", x)}, []string{"X"}, one(G.Sigmoid)},
		{Case{Type: "tanh", Inputs: xs("X", x)}, []string{"X"}, one(G.Tanh)},
		{Case{Type: "relu", Inputs: xs("X", x)}, []string{"X"}, one(G.Rectify)},
		{Case{Type: "reciprocal", Inputs: xs("X", y)}, []string{"X"}, one(G.Inverse)},
		{Case{Type: "softmax", Inputs: xs("X", x)}, []string{"X"}, one(func(x *G.Node) (*G.Node, error) { return G.SoftMax(x) })},
		{Case{Type: "mean", Inputs: xs("X", x)}, []string{"X"}, one(func(x *G.Node) (*G.Node, error) { return G.Mean(x) })},
		{Case{Type: "reduce_sum", Inputs: xs("X", x), Attrs: attrs{"dim": int32(1)}}, []string{"X"},
			one(func(x *G.Node) (*G.Node, error) { return G.Sum(x, 1) })},
		{Case{Type: "reduce_mean", Inputs: xs("X", x), Attrs: attrs{"dim": int32(0)}}, []string{"X"},
			one(func(x *G.Node) (*G.Node, error) { return G.Mean(x, 0) })},
		{Case{Type: "conv2d", Inputs: map[string][]*tensor.Tensor{"Input": {image}, "Filter": {filter}},
			Attrs: attrs{"paddings": []int32{1, 2}, "strides": []int32{2, 1}}}, []string{"Input", "Filter"},
			both(func(x, f *G.Node) (*G.Node, error) {
				return G.Conv2d(x, f, T.Shape{3, 2}, []int{1, 2}, []int{2, 1}, []int{1, 1})
			})},
		{Case{Type: "pool2d", Inputs: xs("X", image), Attrs: attrs{"pooling_type": "max", "ksize": []int32{2, 3}, "strides": []int32{1, 2}}}, []string{"X"},
			one(func(x *G.Node) (*G.Node, error) { return G.MaxPool2D(x, T.Shape{2, 3}, []int{0, 0}, []int{1, 2}) })},
		{Case{Type: "batch_norm", Loss: []string{"Y"}, Constant: []string{"Scale", "Bias", "Mean", "Variance"}, Attrs: attrs{"epsilon": float32(0.5)},
			Inputs: map[string][]*tensor.Tensor{"X": {image}, "Scale": {Floats([]int64{3}, 2, 2, 2)}, "Bias": {Floats([]int64{3}, 0.5, 0.5, 0.5)},
				"Mean": {Spread(1, 3)}, "Variance": {positive(1, 3)}}}, []string{"X"},
			one(func(x *G.Node) (*G.Node, error) {
				scale, bias := everywhere(x, "scale", 2), everywhere(x, "bias", 0.5)
				y, _, _, _, err := G.BatchNorm(x, scale, bias, 0.9, 0.5)
				return y, err
			})},
		{Case{Type: "softmax_with_cross_entropy", Loss: []string{"Loss"}, Constant: []string{"Label"}, Attrs: attrs{"soft_label": true},
			Inputs: map[string][]*tensor.Tensor{"Logits": {x}, "Label": {halves}}}, []string{"Logits"},
			one(func(x *G.Node) (*G.Node, error) {
				logarithm := G.Must(G.Log(G.Must(G.SoftMax(x))))
				return G.Sum(G.Must(G.Neg(G.Must(G.HadamardProd(variableNode(x.Graph(), "label", halves), logarithm)))), 1)
			})},
	} {
		t.Run(c.String(), func(t *testing.T) {
			if err := compare(c.Case, c.inputs, c.node); err != nil {
				t.Error(err)
			}
		})
	}
}
