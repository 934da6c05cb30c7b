package executor_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

// A workload is a model with a batch.
type workload struct {
	name  string
	model func(testing.TB) fixture.Model
	feed  executor.Feed
}

func pictures(rows, side int64) executor.Feed {
	return executor.Feed{"image": fixture.Numbers(1, rows, 1, side, side), "label": fixture.Labels(1, rows, 10)}
}

func grams(rows, vocabulary int64) executor.Feed {
	feed := executor.Feed{"label": fixture.Labels(9, rows, vocabulary)}
	for i := range uint64(4) {
		feed[fmt.Sprintf("word%d", i)] = fixture.Labels(i, rows, vocabulary)
	}
	return feed
}

// workloads are those that this project compares itself with others on.
var workloads = []workload{
	{"fit_a_line", func(t testing.TB) fixture.Model { return fixture.FitALine(t, optimizer.SGD(0.01)) }, line(1, 20)},
	{"mlp_sgd", func(t testing.TB) fixture.Model { return fixture.MLP(t, 784, []int64{200, 200}, optimizer.SGD(0.01)) },
		executor.Feed{"image": fixture.Numbers(1, 64, 784), "label": fixture.Labels(1, 64, 10)}},
	{"mlp_adam", func(t testing.TB) fixture.Model { return fixture.MLP(t, 784, []int64{200, 200}, optimizer.Adam(0.001)) },
		executor.Feed{"image": fixture.Numbers(1, 64, 784), "label": fixture.Labels(1, 64, 10)}},
	{"conv_adam", func(t testing.TB) fixture.Model { return fixture.Digits(t, optimizer.Adam(0.001)) }, pictures(64, 28)},
	{"word2vec_sgd", func(t testing.TB) fixture.Model { return fixture.NGram(t, 2073, 32, 256, optimizer.SGD(0.01)) }, grams(100, 2073)},
}

// variants are small models that together use what optimizers and layers bring: decay, schedules, states, chance and moving averages.
var variants = []workload{
	{"fit_a_line", func(t testing.TB) fixture.Model { return fixture.FitALine(t, optimizer.SGD(0.01)) }, line(1, 20)},
	{"decay", func(t testing.TB) fixture.Model {
		return fixture.MLP(t, 20, []int64{16, 16},
			optimizer.Momentum(optimizer.Exponential(0.1, 3, 0.5, false), 0.9, optimizer.Regularize(layers.L2(0.01))))
	}, executor.Feed{"image": fixture.Numbers(1, 33, 20), "label": fixture.Labels(1, 33, 10)}},
	{"adam", func(t testing.TB) fixture.Model { return fixture.MLP(t, 20, []int64{16, 16}, optimizer.Adam(0.001)) },
		executor.Feed{"image": fixture.Numbers(1, 33, 20), "label": fixture.Labels(1, 33, 10)}},
	{"norm and dropout", func(t testing.TB) fixture.Model { return fixture.ConvNet(t, 8, 3, true, 0.3, optimizer.Adam(0.01)) }, pictures(13, 8)},
	{"convolution", func(t testing.TB) fixture.Model { return fixture.ConvNet(t, 12, 5, false, 0, optimizer.SGD(0.1)) }, pictures(13, 12)},
	{"residual", func(t testing.TB) fixture.Model { return fixture.Residual(t, 20, 2, false, optimizer.SGD(0.01)) },
		executor.Feed{"image": fixture.Numbers(1, 33, 20), "label": fixture.Labels(1, 33, 10)}},
	{"wide residual", func(t testing.TB) fixture.Model { return fixture.Residual(t, 300, 1, false, optimizer.SGD(0.01)) },
		executor.Feed{"image": fixture.Numbers(1, 33, 300), "label": fixture.Labels(1, 33, 10)}},
	{"tied weights", func(t testing.TB) fixture.Model { return fixture.Residual(t, 20, 3, true, optimizer.Adam(0.01)) },
		executor.Feed{"image": fixture.Numbers(1, 33, 20), "label": fixture.Labels(1, 33, 10)}},
	{"word2vec", func(t testing.TB) fixture.Model { return fixture.NGram(t, 57, 8, 16, optimizer.SGD(0.1)) }, grams(20, 57)},
}
