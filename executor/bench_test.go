package executor_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/optimizer"
)

// BenchmarkStep measures a training step: forward, backward and update. The first model is so small that it measures what a step
// costs beside its arithmetic.
func BenchmarkStep(b *testing.B) {
	for _, model := range []struct {
		name string
		make func() fixture.Model
		feed executor.Feed
	}{
		{"fit_a_line", func() fixture.Model { return fixture.FitALine(b, optimizer.SGD(0.01)) }, line(1, 20)},
		{"mlp", func() fixture.Model { return fixture.MLP(b, 784, []int64{200, 200}, optimizer.SGD(0.01)) },
			executor.Feed{"image": fixture.Numbers(1, 64, 784), "label": fixture.Labels(1, 64, 10)}},
		{"conv", func() fixture.Model { return fixture.ConvNet(b, 28, 20, false, 0, optimizer.SGD(0.01)) },
			executor.Feed{"image": fixture.Numbers(1, 64, 1, 28, 28), "label": fixture.Labels(1, 64, 10)}},
	} {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", model.name, workers), func(b *testing.B) {
				m := model.make()
				l := executor.New(executor.WithWorkers(workers))
				defer l.Close()
				p, err := l.Prepare(b.Context(), m.Program, model.feed, m.Loss)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Run(b.Context(), model.feed); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkRun measures Run, which looks for its plan and copies what it returns.
func BenchmarkRun(b *testing.B) {
	m := fixture.FitALine(b, optimizer.SGD(0.01))
	l := executor.New()
	defer l.Close()
	feed := line(1, 20)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Run(b.Context(), m.Program, feed, m.Loss); err != nil {
			b.Fatal(err)
		}
	}
}
