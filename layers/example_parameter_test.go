package layers_test

import (
	"fmt"

	"github.com/edl-go/edl/layers"
)

// firstValues prints the op that gives the weight of a layer [100, 50] its first values.
func firstValues(init layers.Initializer) {
	m := layers.NewModel()
	layers.FC(layers.Data(m, "x", layers.Dims(100)), 50, layers.Param(layers.ParamAttr{Initializer: init}))
	p, err := m.Program()
	if err != nil {
		fmt.Println(err)
		return
	}
	op := p.Startup.Global().Ops[0]
	fmt.Print(op.Type)
	for _, name := range []string{"value", "min", "max", "mean", "std"} {
		if value, ok := op.Float(name); ok {
			fmt.Printf(" %s=%.3g", name, value)
		}
	}
	fmt.Println()
}

func ExampleConstant() {
	firstValues(layers.Constant(0.5))
	// Output: fill_constant value=0.5
}

func ExampleUniform() {
	firstValues(layers.Uniform(-0.1, 0.1))
	// Output: uniform_random min=-0.1 max=0.1
}

func ExampleNormal() {
	firstValues(layers.Normal(0, 0.01))
	// Output: gaussian_random mean=0 std=0.01
}

func ExampleTruncatedNormal() {
	firstValues(layers.TruncatedNormal(0, 0.01))
	// Output: truncated_gaussian_random mean=0 std=0.01
}

func ExampleXavier() {
	firstValues(layers.Xavier())
	// Output: uniform_random min=-0.2 max=0.2
}

func ExampleXavierNormal() {
	firstValues(layers.XavierNormal())
	// Output: gaussian_random mean=0 std=0.115
}

func ExampleMSRA() {
	firstValues(layers.MSRA())
	// Output: uniform_random min=-0.245 max=0.245
}

func ExampleMSRANormal() {
	firstValues(layers.MSRANormal())
	// Output: gaussian_random mean=0 std=0.141
}

// One parameter may have a regularizer of its own; optimizer.Regularize is for all others. The gradient of this penalty is the weight, times
// the coefficient.
func ExampleL2() {
	s := newSketch()
	decay := layers.ParamAttr{Name: "w", Regularizer: layers.L2(0.1)}
	layers.FC(s.numbers("x", 3, 1, 2, 3), 5, layers.Param(decay))
	s.print(layers.L2(0.1)(s.numbers("weight", 3, -2, 0, 4)))
	// Output: [1 3] [-0.2 0 0.4]
}

// The gradient of the penalty is the sign of each weight, times the coefficient.
func ExampleL1() {
	s := newSketch()
	s.print(layers.L1(0.1)(s.numbers("w", 3, -2, 0, 4)))
	// Output: [1 3] [-0.1 0 0.1]
}
