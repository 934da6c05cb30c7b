package optim_test

import (
	"testing"

	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	_ "github.com/edl-go/edl/ops/all"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// trainedBy is a model of two layers and a table, whose gradient is sparse.
func trainedBy(name string, o *optimizer.Optimizer) lawcheck.Program {
	return lawcheck.Program{Name: name, Build: func(m *layers.Model) { minimize(m, o, 5) }}
}

// minimize builds the model, whose first layer has width numbers.
func minimize(m *layers.Model, o *optimizer.Optimizer, width int64) []optimizer.Pair {
	x, id := layers.Data(m, "x", layers.Dims(width)), layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
	hidden := layers.FC(layers.Sums([]layers.Variable{x, layers.Embedding(id, 4, width, layers.Sparse())}), width, layers.Act("tanh"))
	loss, _ := layers.SoftmaxWithCrossEntropy(layers.FC(hidden, 3), layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64)))
	return o.Minimize(layers.Mean(loss))
}

// asPaddleScales writes the check of the gradients of a scaled loss as Paddle 1.8 did: with the reciprocal of the scale.
func asPaddleScales(p *program.Program) {
	b := p.Global()
	for i, op := range b.Ops {
		if op.Type != "check_finite_and_unscale" {
			continue
		}
		scale, _ := b.Find(op.In("Scale"))
		inverse := scale.Copy("inverse")
		inverse.Persistable = false
		b.EnsureVar(inverse)
		op.Type, op.Inputs["Scale"] = "amp_check_finite_and_scale", []string{"inverse"}
		made := &program.Op{Type: "reciprocal", Inputs: map[string][]string{"X": {scale.Name}}, Outputs: map[string][]string{"Out": {"inverse"}}}
		made.SetRole(op.Role())
		b.Insert(i, made)
		return
	}
}

func TestClustersTrainWithEachOp(t *testing.T) {
	lawcheck.Law(t, "optim", nil,
		trainedBy("sgd", optimizer.SGD(0.1)),
		trainedBy("momentum", optimizer.Momentum(0.1, 0.9)),
		trainedBy("adagrad", optimizer.Adagrad(0.1)),
		trainedBy("decayed adagrad", optimizer.DecayedAdagrad(0.1)),
		trainedBy("adadelta", optimizer.Adadelta()),
		trainedBy("adam", optimizer.Adam(0.1)),
		trainedBy("adamw", optimizer.AdamW(0.1)),
		trainedBy("adamax", optimizer.Adamax(0.1)),
		trainedBy("rmsprop", optimizer.RMSProp(0.1, optimizer.Centered())),
		trainedBy("ftrl", optimizer.Ftrl(0.1)),
		trainedBy("lars momentum", optimizer.LarsMomentum(0.1, 0.9, 0.1)),
		trainedBy("lamb", optimizer.Lamb(0.1)),
		trainedBy("dpsgd", optimizer.Dpsgd(0.1, 0.5, 4, 0.1, 7)),
		trainedBy("proximal gd", optimizer.ProximalGD(0.1, optimizer.Penalties(0.01, 0.02))),
		trainedBy("proximal adagrad", optimizer.ProximalAdagrad(0.1, optimizer.Penalties(0.01, 0.02))),
		trainedBy("scaled loss", optimizer.ScaleLoss(optimizer.SGD(0.1), optimizer.LossScaling{GrowAfter: 1})),
		lawcheck.Program{Name: "scaled loss of Paddle 1.8", Change: asPaddleScales, Build: func(m *layers.Model) {
			minimize(m, optimizer.ScaleLoss(optimizer.Momentum(0.1, 0.9), optimizer.LossScaling{GrowAfter: 1}), 5)
		}},
		lawcheck.Program{Name: "dgc", Build: func(m *layers.Model) {
			x := layers.Data(m, "x", layers.Dims(128))
			loss := layers.SquareErrorCost(layers.FC(layers.FC(x, 128, layers.Act("tanh")), 1), layers.Data(m, "y", layers.Dims(1)))
			optimizer.DGCMomentum(0.1, 0.9, 1, optimizer.RampUp(2, 0.9, 0.999)).Minimize(layers.Mean(loss))
		}},
		lawcheck.Program{Name: "averages", Build: func(m *layers.Model) {
			optimizer.ModelAverage(minimize(m, optimizer.SGD(0.1), 5), 1, 2, 3)
		}},
	)
}
