package transpiler_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/lawcheck"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/transpiler"
)

// mixing are losses that need whole batches.
var mixing = map[string]func(m *layers.Model) layers.Variable{
	"a batch that a loop makes longer": func(m *layers.Model) layers.Variable {
		_, hidden := words(m)
		rows := layers.Tanh(hidden)
		twice(m, func(layers.Variable) {
			layers.AssignTo(rows, layers.Concat([]layers.Variable{rows, layers.Sin(rows)}, 0))
		})
		return layers.Mean(rows)
	},
	"a row of the batch that each run of a loop sets": func(m *layers.Model) layers.Variable {
		_, hidden := words(m)
		rows := layers.Tanh(hidden)
		twice(m, func(i layers.Variable) {
			sum := layers.ReduceSum(rows, layers.Axes(0), layers.KeepDims())
			layers.AssignTo(rows, layers.Op(m, "set_value", layers.In{"Input": {rows}, "ValueTensor": {layers.Tanh(sum)}, "StartsTensorList": {i}, "EndsTensorList": {layers.Scale(i, 1, 1)}},
				layers.Attrs{"axes": []int64{0}, "starts": []int64{0}, "ends": []int64{0}, "steps": []int64{1}, "dtype": int32(tensor.Float32)}).One("Out"))
		})
		return layers.Mean(rows)
	},
	"pairs of records": func(m *layers.Model) layers.Variable { // as the loss of n pairs, and contrastive ones
		x := layers.Data(m, "x", layers.Dims(3))
		likeness := layers.MatMul(layers.FC(x, 2), layers.FC(x, 2), layers.TransposeY())
		return layers.Mean(layers.Square(layers.Softmax(likeness)))
	},
	"costs less their mean": func(m *layers.Model) layers.Variable {
		cost := layers.Square(layers.FC(layers.Data(m, "x", layers.Dims(3)), 1))
		return layers.Mean(layers.Square(layers.Sub(cost, layers.Mean(cost))))
	},
	"masked words of BERT": func(m *layers.Model) layers.Variable { // whose places count the words of all records
		words := layers.Reshape(layers.FC(layers.Data(m, "x", layers.Dims(4, 3)), 2, layers.NumFlattenDims(2), layers.Act("tanh")), []int64{-1, 2})
		masked := layers.Gather(words, layers.Data(m, "mask_pos", layers.Dims(1), layers.DType(tensor.Int32)))
		cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(masked, 5), layers.Data(m, "mask_label", layers.Dims(1), layers.DType(tensor.Int64)))
		return layers.Mean(cost)
	},
	"the best regions of all pictures": func(m *layers.Model) layers.Variable { // as with a pyramid of maps
		s := newScene(m, 1)
		regions, scores := layers.GenerateProposals(layers.Sigmoid(s.scores), s.codes, s.objects.Images, s.boxes, s.factors, layers.Proposals{BeforeNMS: 32, AfterNMS: 6, Threshold: 0.7})
		best := layers.CollectFPNProposals([]layers.Variable{regions.StopGradient()}, []layers.Variable{scores.StopGradient()}, 8)
		second := layers.GenerateProposalLabels(best, s.objects, layers.ProposalLabels{Size: 6, Share: 0.5, Object: 0.5, High: 0.5, Classes: 3})
		pooled := layers.FC(layers.RoiAlign(s.feature, second.Regions, 2, 2, 0.5, 2), 5, layers.Act("tanh"))
		class, _ := layers.SoftmaxWithCrossEntropy(layers.FC(pooled, 3), layers.Cast(second.Labels, tensor.Int64).StopGradient())
		return layers.Add(s.firstStage(), layers.ReduceMean(class))
	},
}

// mixingFeed draws a batch for one of them. The masked words have another number of rows than the batch.
func mixingFeed(t *testing.T, p *program.Program, random *rand.Rand) executor.Feed {
	t.Helper()
	if _, ok := p.Global().Var("image"); ok {
		return pictures(t, p, random)
	}
	feed := executor.Feed{}
	x, _ := p.Global().Var("x")
	dims := append([]int64{batchRows}, x.Dims[1:]...)
	values := make([]float32, ops.Product(dims))
	for i := range values {
		values[i] = random.Float32() - 0.5
	}
	give := func(name string, value *tensor.Tensor, err error) {
		if err != nil {
			t.Fatal(err)
		}
		feed[name] = value
	}
	value, err := tensor.FromSlice(values, dims...)
	give("x", value, err)
	if _, ok := p.Global().Var("mask_pos"); ok {
		n := 2 + random.Int64N(3)
		places, labels := make([]int32, n), make([]int64, n)
		for i := range n {
			places[i], labels[i] = random.Int32N(4*batchRows), random.Int64N(5)
		}
		value, err = tensor.FromSlice(places, n, 1)
		give("mask_pos", value, err)
		value, err = tensor.FromSlice(labels, n, 1)
		give("mask_label", value, err)
	}
	return feed
}

// twice runs body twice, with the number of the run.
func twice(m *layers.Model, body func(i layers.Variable)) {
	i, limit := layers.Counter(m, 0), layers.Counter(m, 2)
	more := layers.LessThan(i, limit)
	layers.While(more, func() {
		body(i)
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, limit))
	})
}

// An async trainer has whole batches, so it trains what one machine trains, bit for bit. Where batches are divided the same losses are refused, and the hint names what trains them.
func TestLossesThatNeedWholeBatches(t *testing.T) {
	for name, loss := range mixing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := layers.NewModel().Seed(3)
			optimizer.Momentum(0.1, 0.9).Minimize(layers.Scale(loss(m), 1, 0, layers.Name("loss")))
			p := built(t, m)
			var batches []executor.Feed
			random := rand.New(rand.NewPCG(1, 2))
			for range steps {
				batches = append(batches, mixingFeed(t, p, random))
			}
			cfg := transpiler.Config{Trainers: 1, PServers: 2, MinBlockSize: 4, Mode: transpiler.Async}
			if err := lawcheck.Check(t.Context(), p, cfg, batches, batchRows, "loss"); err != nil {
				t.Error(err)
			}
			for hint, cfg := range map[string]transpiler.Config{
				"train it in async mode (--mode async)":  {Trainers: 2, PServers: 1},
				"leave out --devices: ":                  {Trainers: 2, PServers: 1, Mode: transpiler.Async, Devices: true},
				"train it in async mode without devices": {Trainers: 2, PServers: 1, Devices: true},
			} {
				_, err := transpiler.Transpile(t.Context(), p, cfg)
				if fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), hint) {
					t.Errorf("%q: %v", hint, err)
				}
			}
		})
	}
}
