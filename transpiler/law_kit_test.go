package transpiler_test

import (
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// steps is how many rounds the law is tested for: enough for accumulators to matter.
const steps = 3

// batch draws values for the fed variables of p.
func batch(t testing.TB, p *program.Program, random *rand.Rand) executor.Feed {
	t.Helper()
	feed, err := lawcheck.Draw(p, batchRows, random)
	if err != nil {
		t.Fatal(err)
	}
	return feed
}

// batchRows is the number of rows of the batches that the law is tested with: no multiple of 2, 3 or 4.
const batchRows = 7

// checkLaw trains p for some steps in the reference executor and on a cluster, and returns the first difference in what
// is fetched or saved.
func checkLaw(t testing.TB, p *program.Program, cfg transpiler.Config, fetch ...string) error {
	var batches []executor.Feed
	random := rand.New(rand.NewPCG(1, 2))
	for range steps {
		batches = append(batches, batch(t, p, random))
	}
	return lawcheck.Check(t.Context(), p, cfg, batches, batchRows, fetch...)
}

// perceptron is a model of two layers with a parameter that a small MinBlockSize slices unevenly.
func perceptron(t testing.TB, o *optimizer.Optimizer) *program.Program {
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(7))
	y := layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	hidden := layers.FC(x, 5, layers.Act("tanh"), layers.Param(layers.ParamAttr{LearningRate: 0.5}))
	loss, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.Dropout(hidden, 0.3), 3), y)
	o.Minimize(layers.Mean(loss, layers.Name("loss")))
	return built(t, m)
}
