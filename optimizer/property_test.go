package optimizer_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// Nets of any shape: variables and parameters that are used often, once or never, and branches that pass no gradient on.
func TestGradientsOfRandomNetsEqualCentralDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := layers.NewModel().Seed(rapid.Int64().Draw(t, "seed"))
		nodes := []layers.Variable{layers.Data(m, "x", layers.Dims(2), double)}
		pick := func(label string) layers.Variable {
			return nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, label)]
		}
		trainable := layers.FC(nodes[0], 2, layers.Act("tanh"))
		nodes = append(nodes, trainable)
		for range rapid.IntRange(1, 8).Draw(t, "layers") {
			x := pick("x")
			switch rapid.IntRange(0, 5).Draw(t, "layer") {
			case 0:
				x = layers.FC(x, 2)
			case 1:
				x = layers.FC(x, 2, layers.Param(layers.ParamAttr{Name: "shared"}))
			case 2:
				x = layers.Mul(x, pick("y"))
			case 3:
				x = layers.Sums([]layers.Variable{x, pick("y"), pick("z")})
			case 4:
				x = layers.Sub(x, pick("y"))
			case 5:
				x = layers.Scale(nodes[0], 0.5, 0.1).StopGradient()
			}
			nodes = append(nodes, layers.Tanh(x))
		}
		loss := layers.Mean(layers.Sums([]layers.Variable{trainable, pick("first"), pick("second"), nodes[len(nodes)-1]}))
		checkGradients(t, m, loss, map[string]*tensor.Tensor{"x": floats(7, 3, 2)})
	})
}
