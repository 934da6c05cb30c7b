package transpiler_test

import (
	"math/rand/v2"
	"strings"
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

// batch draws values for the fed variables of p: 0 or 1 for integers and for what is called a label.
func batch(t testing.TB, p *program.Program, random *rand.Rand) executor.Feed {
	feed := executor.Feed{}
	for _, v := range p.Global().Vars() {
		if !v.NeedCheckFeed {
			continue
		}
		dims := append([]int64{batchRows}, v.Dims[1:]...)
		value, err := tensor.New(v.DType, dims...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range value.Len() {
			if strings.HasPrefix(v.Name, "key") { // of a table that grows
				value.Int64s()[i] = []int64{-1, 1, random.Int64N(50) << 40, -random.Int64N(9)}[random.IntN(4)]
			} else if strings.HasPrefix(v.Name, "label") && v.DType == tensor.Float32 {
				value.Float32s()[i] = float32(random.Int64N(2))
			} else if v.DType == tensor.Int64 {
				value.Int64s()[i] = random.Int64N(2)
			} else {
				value.Float32s()[i] = float32(random.NormFloat64())
			}
		}
		feed[v.Name] = value
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
