package remote_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// totalled is a model whose loss is a function of several sums and means over the batch: the mean cost of rows that count, whose number is kept from 0, plus a sum of costs
// which are divided by another number of rows, plus a mean over the words of sentences.
func totalled(t *testing.T) subject {
	m := layers.NewModel().Seed(3)
	x, label := layers.Data(m, "x", layers.Dims(4)), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	words := layers.Data(m, "words", layers.Dims(3), layers.LoD(1))
	kind := layers.Cast(label, tensor.Float32)
	cost := layers.CrossEntropy(layers.Softmax(layers.FC(layers.FC(x, 3, layers.Act("tanh")), testkit.Classes)), label)
	smooth := func(v layers.Variable) layers.Variable { return layers.Scale(v, 1, 1e-3) }
	means := layers.Div(layers.Mean(layers.Mul(cost, kind)), smooth(layers.Mean(kind)))
	other := layers.Square(kind)
	sums := layers.ReduceSum(layers.Div(layers.Mul(layers.Square(cost), other), smooth(layers.ReduceSum(other))))
	loss := layers.Add(layers.Add(means, sums), layers.Mean(layers.Square(layers.FC(words, 2))), layers.Name("loss"))
	optimizer.Momentum(0.05, 0.9).Minimize(loss)
	return subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
}

// TestLawOfSharedTotals trains such a loss on 1 to 4 trainers, with devices and without, of which some have no row in some batches. It computes what the reference computes, and up to rounding
// what one machine computes.
func TestLawOfSharedTotals(t *testing.T) {
	comparesValues(t)
	l, s := listener(t), totalled(t)
	for i, spec := range []*remote.JobSpec{{Trainers: 1, Pservers: 2}, {Trainers: 2, Pservers: 2}, {Trainers: 3, Pservers: 2}, {Trainers: 4, Pservers: 1}, {Trainers: 3, Pservers: 2, MergeHosts: true},
		{Trainers: 2, Pservers: 2, CompressGradients: "bf16"}, {Trainers: 2, Devices: 3, Pservers: 2}, {Trainers: 1, Devices: 2, Pservers: 1},
		{Trainers: 3, Devices: 2, Pservers: 1, MergeHosts: true}, {Trainers: 1, Pservers: 2, Mode: job.Mode_ASYNC}, {Trainers: 1, Devices: 2, Pservers: 2, Mode: job.Mode_ASYNC}} {
		t.Run(fmt.Sprint("job ", i), func(t *testing.T) {
			spec.MinBlockSize, spec.Save = 1, t.TempDir()
			want, err := oracleFor(s.Program, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			checkBesideOneMachine(t, l, s, spec, []int64{8, 5, 2, 13}, want)
		})
	}
}
