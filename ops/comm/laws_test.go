package comm_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// looksUp builds a model with a table.
func looksUp(o *optimizer.Optimizer, options ...layers.Option) func(m *layers.Model) {
	return func(m *layers.Model) {
		id := layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
		rows := layers.Embedding(id, 9, 4, append(options, layers.Sparse())...)
		o.Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), layers.Data(m, "y", layers.Dims(1)))))
	}
}

// dividesMeans builds a model whose loss is a quotient of two means, plus a mean over words, beside images that are normalized.
func dividesMeans(m *layers.Model) {
	x, mask := layers.Data(m, "x", layers.Dims(3)), layers.Data(m, "mask", layers.Dims(1))
	cost := layers.Square(layers.FC(layers.BatchNorm(layers.FC(x, 4)), 1))
	quotient := layers.Div(layers.Mean(layers.Mul(cost, mask)), layers.Scale(layers.Mean(layers.Square(mask)), 1, 1e-3))
	words := layers.Mean(layers.Square(layers.FC(layers.Data(m, "words", layers.Dims(3), layers.LoD(1)), 1)))
	optimizer.Adagrad(0.1).Minimize(layers.Add(quotient, words))
}

func TestClustersTrainOverEachOp(t *testing.T) {
	lawcheck.Law(t, "comm", nil,
		lawcheck.Program{Name: "a table", Build: looksUp(optimizer.Adagrad(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.02))))},
		lawcheck.Program{Name: "a table that servers hold", Build: looksUp(optimizer.Adagrad(0.1), layers.Distributed())},
		lawcheck.Program{Name: "devices", Build: looksUp(optimizer.SGD(0.1)), Config: func(c *transpiler.Config) { c.Devices = true }},
		lawcheck.Program{Name: "totals", Build: dividesMeans},
		lawcheck.Program{Name: "halves", Build: looksUp(optimizer.SGD(0.1)), Config: func(c *transpiler.Config) {
			c.CompressGradients, c.CompressParameters = "bf16", "fp16"
		}},
		lawcheck.Program{Name: "the largest elements", Build: looksUp(optimizer.SGD(0.1)), Config: func(c *transpiler.Config) { c.CompressGradients = "topk:0.2:1" }},
	)
}
