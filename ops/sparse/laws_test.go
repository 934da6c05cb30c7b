package sparse_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// grows is a model with a table that grows by rules.
func grows(name string, rules ...layers.Option) lawcheck.Program {
	return lawcheck.Program{Name: name, Build: func(m *layers.Model) {
		key := layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64))
		rows := layers.SparseEmbedding(key, 500, 4, rules...)
		optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(rows, 1), layers.Data(m, "y", layers.Dims(1)))))
	}}
}

func TestClustersTrainThroughEachOp(t *testing.T) {
	lawcheck.Law(t, "sparse", nil,
		grows("keys"),
		grows("keys that come and go", layers.CountFilterEntry(2), layers.EvictUnseen(1)),
		lawcheck.Program{Name: "hash", Build: func(m *layers.Model) {
			ids := layers.Hash(layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64)), 50, 2)
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(layers.Embedding(ids, 50, 4), 1), layers.Data(m, "y", layers.Dims(1)))))
		}},
	)
}
