package transpiler_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// steps is how many rounds the law is tested for: enough for accumulators to matter.
const steps = 3

// batch draws values for the fed variables of p: labels for integers.
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

func same(a, b *tensor.Tensor) bool {
	return a != nil && b != nil && bytes.Equal(tensor.AppendStream(nil, a), tensor.AppendStream(nil, b))
}

// dayRounds are the rounds of a day, for tables that evict by days.
const dayRounds = 2

// checkLaw trains p for some steps in the reference executor and on a cluster, and returns the first difference in what
// is fetched or saved.
func checkLaw(t testing.TB, p *program.Program, cfg transpiler.Config, fetch ...string) error {
	cfg.Fetch = fetch
	r, err := transpiler.Transpile(context.Background(), p, cfg)
	if err != nil {
		return err
	}
	oracle, err := reference.New(p, cfg.Trainers, executor.WithDayRounds(dayRounds))
	if err != nil {
		return err
	}
	defer oracle.Close()
	if err := oracle.Compress(cfg.CompressGradients, cfg.CompressParameters); err != nil {
		return err
	}
	oracle.Slice(r.Placement.Rows)
	c := start(t, r, cfg.Trainers)
	defer c.stop()
	random := rand.New(rand.NewPCG(1, 2))
	for step := range steps {
		feed := batch(t, p, random)
		want, err := oracle.Run(context.Background(), p, feed, fetch...)
		if err != nil {
			return fmt.Errorf("reference, step %d: %w", step, err)
		}
		got, err := c.step(feed, batchRows, fetch...)
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		for i, name := range fetch {
			if name != "loss" && !same(got[i], want[i]) { // each trainer reports the loss of its own rows
				return fmt.Errorf("step %d: fetched %s differs", step, name)
			}
		}
	}
	saved, err := c.saved()
	if err != nil {
		return fmt.Errorf("save: %w", err)
	}
	names := executor.Persistables(p)
	if len(saved) != len(names) {
		return fmt.Errorf("%d files for %d persistable variables", len(saved), len(names))
	}
	for _, name := range names {
		if want, _ := oracle.Scope().Find(name); !same(saved[name], want) {
			return fmt.Errorf("%s differs:\n got %v\nwant %v", name, show(saved[name]), show(want))
		}
	}
	return nil
}

func show(t *tensor.Tensor) string {
	if t == nil {
		return "nothing"
	}
	if t.DType() == tensor.Float32 {
		return fmt.Sprint(t, t.Float32s()[:min(8, t.Len())])
	}
	return t.String()
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
