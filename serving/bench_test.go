package serving_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// A predicted is a model of docs/performance.md.
type predicted struct {
	name   string
	build  func() (*layers.Model, layers.Variable)
	inputs func(rows int64) map[string]*tensor.Tensor
}

var predictedModels = []predicted{
	{"mlp", mlp, func(rows int64) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": random(1, rows, 784)}
	}},
	{"deepfm", deepFM, func(rows int64) map[string]*tensor.Tensor {
		ids, _ := tensor.New(tensor.Int64, rows, 26, 1)
		r := rand.New(rand.NewPCG(1, 1))
		for i := range ids.Int64s() {
			ids.Int64s()[i] = r.Int64N(260000)
		}
		return map[string]*tensor.Tensor{"ids": ids, "dense": random(1, rows, 13)}
	}},
	{"resnet32", resNet32, func(rows int64) map[string]*tensor.Tensor {
		return map[string]*tensor.Tensor{"x": random(1, rows, 3, 32, 32)}
	}},
}

// BenchmarkPredict measures the models of docs/performance.md with one worker.
func BenchmarkPredict(b *testing.B) {
	for _, c := range predictedModels {
		dir := b.TempDir()
		m, output := c.build()
		exported(b, dir, m, output)
		model := open(b, dir, serving.WithWorkers(1))
		for _, rows := range []int64{1, 64} {
			b.Run(fmt.Sprintf("%s/%d", c.name, rows), func(b *testing.B) {
				inputs := c.inputs(rows)
				for b.Loop() {
					if _, err := model.Predict(b.Context(), inputs); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func mlp() (*layers.Model, layers.Variable) {
	m := layers.NewModel().Seed(1)
	h := layers.FC(layers.Data(m, "x", layers.Dims(784)), 200, layers.Act("relu"))
	return m, layers.FC(layers.FC(h, 200, layers.Act("relu")), 10, layers.Act("softmax"))
}

// deepFM has 26 fields in one table of 260,000 rows of 8 numbers, and 13 numbers.
func deepFM() (*layers.Model, layers.Variable) {
	const fields, width = 26, 8
	m := layers.NewModel().Seed(1)
	ids := layers.Data(m, "ids", layers.Dims(fields, 1), layers.DType(tensor.Int64))
	dense := layers.Data(m, "dense", layers.Dims(13))
	v := layers.Embedding(ids, 260000, width)
	first := layers.ReduceSum(layers.Embedding(ids, 260000, 1), layers.Axes(1))
	sum := layers.Square(layers.ReduceSum(v, layers.Axes(1)))
	pairs := layers.Scale(layers.ReduceSum(layers.Sub(sum, layers.ReduceSum(layers.Square(v), layers.Axes(1))), layers.Axes(1), layers.KeepDims()), 0.5, 0)
	deep := layers.Concat([]layers.Variable{layers.Reshape(v, []int64{-1, fields * width}), dense}, 1)
	deep = layers.FC(layers.FC(layers.FC(deep, 128, layers.Act("relu")), 64, layers.Act("relu")), 1)
	return m, layers.Sigmoid(layers.Add(layers.Add(layers.Add(first, layers.FC(dense, 1)), pairs), deep))
}

func resNet32() (*layers.Model, layers.Variable) {
	m := layers.NewModel().Seed(1)
	conv := func(x layers.Variable, filters, size, stride int, act ...layers.Option) layers.Variable {
		return layers.BatchNorm(layers.Conv2D(x, int64(filters), int64(size), layers.Stride(stride, stride), layers.Padding((size-1)/2, (size-1)/2), layers.NoBias()), act...)
	}
	relu := layers.Act("relu")
	x := conv(layers.Data(m, "x", layers.Dims(3, 32, 32)), 16, 3, 1, relu)
	for _, filters := range []int{16, 32, 64} {
		for block := range 5 {
			stride, short := 1, x
			if block == 0 && filters > 16 {
				stride = 2
				short = conv(x, filters, 1, 2)
			}
			x = layers.Add(conv(conv(x, filters, 3, stride, relu), filters, 3, 1), short, relu)
		}
	}
	return m, layers.FC(layers.Pool2D(x, 8, layers.AvgPool()), 10, layers.Act("softmax"))
}
