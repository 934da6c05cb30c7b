package optimizer_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// numbers returns a float32 batch, uniform in [-1, 1).
func numbers(dims ...int64) *tensor.Tensor {
	random := rand.New(rand.NewPCG(3, 4))
	t, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		panic(err)
	}
	for i := range t.Float32s() {
		t.Float32s()[i] = random.Float32()*2 - 1
	}
	return t
}

// classes returns the int64 column 0, 1, ..., n-1, 0, 1, ...
func classes(rows, n int64) *tensor.Tensor {
	t, err := tensor.New(tensor.Int64, rows, 1)
	if err != nil {
		panic(err)
	}
	for i := range t.Int64s() {
		t.Int64s()[i] = int64(i) % n
	}
	return t
}

func ids(m *layers.Model, name string) layers.Variable {
	return layers.Data(m, name, layers.Dims(1), layers.DType(tensor.Int64))
}

// The models of Fluid's book learn a batch by heart.
func TestBookModelsLearn(t *testing.T) {
	classify := func(x layers.Variable) layers.Variable {
		return layers.Mean(layers.CrossEntropy(layers.FC(x, 10, layers.Act("softmax")), ids(x.Model(), "label")))
	}
	cases := []struct {
		name  string
		steps int
		share float64 // of the first loss that may be left
		feed  executor.Feed
		build func(m *layers.Model)
	}{
		{"fit a line", 50, 0.3, executor.Feed{"x": numbers(20, 13), "y": numbers(20, 1)}, func(m *layers.Model) {
			x, y := layers.Data(m, "x", layers.Dims(13)), layers.Data(m, "y", layers.Dims(1))
			optimizer.SGD(0.1).Minimize(layers.Mean(layers.SquareErrorCost(layers.FC(x, 1), y), layers.Name("loss")))
		}},
		{"digits, fully connected", 30, 0.2, executor.Feed{"x": numbers(16, 64), "label": classes(16, 10)}, func(m *layers.Model) {
			x := layers.Data(m, "x", layers.Dims(64))
			h := layers.FC(layers.FC(x, 20, layers.Act("tanh")), 20, layers.Act("tanh"))
			optimizer.Adam(0.01).Minimize(layers.Assign(classify(h), layers.Name("loss")))
		}},
		{"digits, convolution", 20, 0.2, executor.Feed{"x": numbers(16, 1, 16, 16), "label": classes(16, 10)}, func(m *layers.Model) {
			x := layers.Data(m, "x", layers.Dims(1, 16, 16))
			h := layers.BatchNorm(layers.SimpleImgConvPool(x, 4, 5, 2, 2, layers.Act("relu")))
			h = layers.Dropout(layers.SimpleImgConvPool(h, 8, 3, 2, 2, layers.Act("relu")), 0.1)
			loss := layers.Assign(classify(h), layers.Name("loss"))
			optimizer.Adam(0.01, optimizer.Regularize(layers.L2(1e-4)), optimizer.ClipGradients(optimizer.ByGlobalNorm(1))).Minimize(loss)
		}},
		{"word2vec", 40, 0.2, executor.Feed{"first": classes(12, 5), "second": classes(12, 4), "third": classes(12, 6), "label": classes(12, 10)},
			func(m *layers.Model) {
				table := layers.Param(layers.ParamAttr{Name: "words"})
				var words []layers.Variable
				for _, name := range []string{"first", "second", "third"} {
					words = append(words, layers.Embedding(ids(m, name), 12, 8, table))
				}
				h := layers.FC(layers.Concat(words, 1), 16, layers.Act("sigmoid"))
				optimizer.Momentum(optimizer.Exponential(1, 100, 0.5, true), 0.5).Minimize(layers.Assign(classify(h), layers.Name("loss")))
			}},
		{"click-through rate", 40, 0.2, executor.Feed{"dense": numbers(12, 5), "user": classes(12, 7), "page": classes(12, 5),
			"click": numbers(12, 1)}, func(m *layers.Model) {
			dense, click := layers.Data(m, "dense", layers.Dims(5)), layers.Data(m, "click", layers.Dims(1))
			label := layers.Scale(layers.Sign(click), 0.5, 0.5)
			sparse := layers.Param(layers.ParamAttr{Name: "features", Regularizer: layers.L1(1e-5)})
			user, page := layers.Embedding(ids(m, "user"), 10, 4, sparse), layers.Embedding(ids(m, "page"), 10, 4, sparse)
			h := layers.FC(layers.Concat([]layers.Variable{dense, user, page}, 1), 16, layers.Act("relu"))
			p := layers.FC(h, 1, layers.Act("sigmoid"))
			optimizer.Adagrad(0.3).Minimize(layers.Mean(layers.LogLoss(p, label), layers.Name("loss")))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := layers.NewModel().Seed(1)
			c.build(m)
			p := build(t, m)
			local := executor.New()
			defer local.Close()
			var first, last float32
			for step := range c.steps {
				loss, err := local.Run(context.Background(), p, c.feed, "loss")
				if err != nil {
					t.Fatal(err)
				}
				last = loss[0].Float32s()[0]
				if step == 0 {
					first = last
				}
			}
			if !(float64(last) < c.share*float64(first)) {
				t.Errorf("loss went from %v to %v in %d steps", first, last, c.steps)
			}
		})
	}
}
