package executor_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
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

// Models that real Fluid saved must give the answers that their authors published.
func TestModelsOfRealFluidGiveTheirPublishedAnswers(t *testing.T) {
	data := os.Getenv("EDL_TESTDATA")
	if data == "" {
		t.Skip("EDL_TESTDATA does not name the folder of real models")
	}
	state, err := tensor.New(tensor.Float32, 1, 4, 84, 84)
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Float32s() {
		state.Float32s()[i] = float32(i % 256)
	}
	for name, test := range map[string]struct {
		feed *tensor.Tensor
		want []float32
	}{
		"uci_housing": {values(t, []float32{0.0137, -0.1136, 0.2553, -0.0692, 0.0582, -0.0727, -0.1583, -0.0584, 0.6283, 0.4919, 0.1856, 0.0795,
			-0.0332}, 1, 13),
			[]float32{18.901151657104492}},
		"dqn_pong": {state, []float32{0.49592587, 0.51072258, 0.44459975, 0.60065556, 0.41136983, 0.58217990}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(data, "models", name)
			p, err := program.Load(filepath.Join(dir, "__model__"), program.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			for _, workers := range []int{1, 2} {
				l := executor.New(executor.WithWorkers(workers), executor.WithStage(program.StageInference))
				defer l.Close()
				if err := executor.LoadParams(l.Scope(), dir, p); err != nil {
					t.Fatal(err)
				}
				out, err := l.Run(t.Context(), p, executor.Feed{p.Feeds()[0]: test.feed})
				if err != nil {
					t.Fatal(err)
				}
				got := out[0].Float32s()
				if len(got) != len(test.want) {
					t.Fatalf("got %v, want %v", got, test.want)
				}
				for i, want := range test.want {
					if math.Abs(float64(got[i]-want)) > 1e-5*math.Abs(float64(want)) {
						t.Errorf("element %d is %v, want %v", i, got[i], want)
					}
				}
			}
		})
	}
}

func TestSavedProgramsNameTheirFeedsAndTargets(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	l := executor.New()
	defer l.Close()
	prediction := "fc_0.tmp_1"
	want, err := l.Run(t.Context(), m.Program, line(1, 4), prediction)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	inference, err := m.Program.InferenceProgram([]string{"x"}, []string{prediction})
	if err == nil {
		err = executor.SavePersistables(l.Scope(), dir, inference)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := executor.Persistables(inference); !slices.Equal(got, []string{"fc_0.b_0", "fc_0.w_0"}) {
		t.Errorf("persistables %v", got)
	}
	fresh := executor.New(executor.WithStage(program.StageInference))
	defer fresh.Close()
	if err := executor.LoadParams(fresh.Scope(), dir, inference); err != nil {
		t.Fatal(err)
	}
	got, err := fresh.Run(t.Context(), inference, executor.Feed{"x": line(1, 4)["x"]})
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Run(t.Context(), m.Program, line(1, 4), prediction)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !slices.Equal(got[0].Float32s(), again[0].Float32s()) || slices.Equal(got[0].Float32s(), want[0].Float32s()) {
		t.Errorf("predicts %v, want %v of the parameters that were saved", got, again[0].Float32s())
	}
	if _, err := fresh.Run(t.Context(), inference, nil); err == nil || !strings.Contains(err.Error(), "fed by x") {
		t.Errorf("without a feed: %v", err)
	}
}
