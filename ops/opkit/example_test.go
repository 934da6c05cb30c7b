package opkit_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The op leaky_cube is Out = X*X*X, or slope*X*X*X where X is negative.
func init() {
	opkit.Register(ops.Def{
		Type:    "leaky_cube",
		Doc:     "The cube of each element: Out = X*X*X, times slope where X < 0.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   []ops.Attr{{Name: "slope", Doc: "factor of negative elements, at least 0", Default: float32(0.1)}},
		Infer: func(s *ops.Shapes) error {
			if !(s.Float("slope") >= 0) {
				return opkit.BadAttr(s, "slope", "a number of at least 0")
			}
			s.Like("Out", "X")
			return s.IsFloat("X")
		},
		Cost:      opkit.PerElement(3),
		Bind:      opkit.BindFloats("X", bindLeakyCube[float32], bindLeakyCube[float64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:    "dX = 3*X*X*dOut, times slope where X < 0.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(4),
		Bind:   opkit.BindFloats("X", bindLeakyCubeGrad[float32], bindLeakyCubeGrad[float64]),
	})
}

// Bind looks at attributes and tensors once. The loop asks for the elements on every run, because a feed replaces them.
func bindLeakyCube[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, slope := b.In("X"), b.Out("Out"), T(b.Float("slope"))
	return opkit.Loop(b, x.Len(), func(from, to int) {
		x, out := tensor.Data[T](x), tensor.Data[T](out)
		for i := from; i < to; i++ {
			cube := x[i] * x[i] * x[i]
			if x[i] < 0 {
				cube *= slope
			}
			out[i] = cube
		}
	})
}

func bindLeakyCubeGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx, slope := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD"), T(b.Float("slope"))
	return opkit.Loop(b, x.Len(), func(from, to int) {
		x, dout, dx := tensor.Data[T](x), tensor.Data[T](dout), tensor.Data[T](dx)
		for i := from; i < to; i++ {
			d := 3 * x[i] * x[i] * dout[i]
			if x[i] < 0 {
				d *= slope
			}
			dx[i] = d
		}
	})
}

// A model uses the op by its type. The backward pass finds its gradient.
func Example() {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(1))
	wx := layers.FC(x, 1, layers.NoBias(), layers.Param(layers.ParamAttr{Name: "w", Initializer: layers.Constant(2)}))
	y := layers.Op(m, "leaky_cube", layers.In{"X": {wx}}, layers.Attrs{"slope": 0.5}).One("Out")
	optimizer.SGD(0.01).Minimize(layers.Mean(y))
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	local := executor.New()
	defer local.Close()
	one, _ := tensor.FromSlice([]float32{1}, 1, 1)
	values, err := local.Run(context.Background(), p, executor.Feed{"x": one}, y.Name(), "w")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("y = %v, w = 2 - 0.01*12 = %.2f\n", values[0].Float32s()[0], values[1].Float32s()[0])
	// Output: y = 8, w = 2 - 0.01*12 = 1.88
}

// The test kit compares the gradient with finite differences, and checks the other laws of ops.
func TestLeakyCube(t *testing.T) {
	x, err := tensor.FromSlice([]float64{-2, -0.5, 0.5, 3})
	if err != nil {
		t.Fatal(err)
	}
	cubes, err := tensor.FromSlice([]float64{-0.8, -0.0125, 0.125, 27})
	if err != nil {
		t.Fatal(err)
	}
	gradcheck.LawsOf(t, gradcheck.Case{
		Type: "leaky_cube", Inputs: map[string][]*tensor.Tensor{"X": {x}}, Attrs: map[string]program.Attr{"slope": 0.1},
		Want: map[string][]*tensor.Tensor{"Out": {cubes}},
	})
}
