package transpiler_test

import (
	"context"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// silent is a wire that moves nothing.
type silent struct{}

func (silent) Send(context.Context, ops.Message) error { return nil }
func (silent) SendBarrier(context.Context) error       { return nil }
func (silent) Recv(context.Context, ops.Message) error { return nil }
func (silent) FetchBarrier(context.Context) error      { return nil }

// BenchmarkTrainerStep is what a step costs a trainer beside reading and the wire: MLP 784-200-200-10, 64 rows of it, SGD, two pservers. Slices of rows
// that are views cost nothing; copied is the same step without views.
func BenchmarkTrainerStep(b *testing.B) {
	m := layers.NewModel().Seed(3)
	h := layers.Data(m, "x", layers.Dims(784))
	y := layers.Data(m, "y", layers.Dims(1), layers.DType(tensor.Int64))
	for range 2 {
		h = layers.FC(h, 200, layers.Act("relu"))
	}
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(h, 10), y)
	optimizer.SGD(0.01).Minimize(layers.Mean(cost, layers.Name("loss")))
	p := transpile(b, built(b, m), transpiler.Config{Trainers: 2, PServers: 2}).Trainer
	feed := executor.Feed{"x": testkit.Random(b, tensor.Float32, 1, 64, 784), "y": testkit.Random(b, tensor.Int64, 1, 64, 1)}
	clear(feed["y"].Int64s())
	for name, without := range map[string][]executor.Option{"views": nil, "copied": {executor.WithoutFusion(executor.FuseViews)}} {
		b.Run(name, func(b *testing.B) {
			local := executor.New(append(without, executor.WithComm(silent{}), executor.WithStage(program.StageTrainer))...)
			defer local.Close()
			prepared, err := local.Prepare(b.Context(), p, feed, "loss")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := prepared.Run(b.Context(), feed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
