package reference_test

import (
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a reference of so many trainers, which the end of the test closes.
func open(t *testing.T, p *program.Program, trainers int) *reference.Executor {
	t.Helper()
	e, err := reference.New(p, trainers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func digits(seed uint64, rows int64) executor.Feed {
	return executor.Feed{"image": fixture.Numbers(seed, rows, 20), "label": fixture.Labels(seed, rows, 10)}
}

// values returns the elements of every variable of a scope.
func values(s *executor.Scope) map[string][]float64 {
	all := map[string][]float64{}
	for _, name := range s.Names() {
		t, _ := s.Find(name)
		for _, x := range t.Float32s() {
			all[name] = append(all[name], float64(x))
		}
		for _, x := range t.Int64s() {
			all[name] = append(all[name], float64(x))
		}
	}
	return all
}

func optimizers() map[string]func() *optimizer.Optimizer {
	return map[string]func() *optimizer.Optimizer{
		"sgd":  func() *optimizer.Optimizer { return optimizer.SGD(0.1) },
		"adam": func() *optimizer.Optimizer { return optimizer.Adam(0.01) },
		"momentum, decay": func() *optimizer.Optimizer {
			return optimizer.Momentum(0.1, 0.9, optimizer.Regularize(layers.L2(0.01)))
		},
		"schedule": func() *optimizer.Optimizer {
			return optimizer.SGD(optimizer.Exponential(0.1, 3, 0.5, false))
		},
	}
}

// images is a batch for fixture.ConvNet of side 8.
func images(seed uint64, rows int64) executor.Feed {
	return executor.Feed{"image": fixture.Numbers(seed, rows, 1, 8, 8), "label": fixture.Labels(seed, rows, 10)}
}

// A subject is a model with its batches.
type subject struct {
	model fixture.Model
	batch func(seed uint64, rows int64) executor.Feed
}

func subjects(t *testing.T) map[string]subject {
	all := map[string]subject{
		"batch norm": {fixture.ConvNet(t, 8, 3, true, 0, optimizer.SGD(0.1)), images},
		"dropout":    {fixture.ConvNet(t, 8, 3, false, 0.3, optimizer.SGD(0.1)), images},
	}
	for name, o := range optimizers() {
		all[name] = subject{fixture.MLP(t, 20, []int64{8}, o()), digits}
	}
	return all
}
