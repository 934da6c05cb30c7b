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
	for _, w := range workloads {
		for _, workers := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/workers=%d", w.name, workers), func(b *testing.B) { benchmark(b, w, executor.WithWorkers(workers)) })
		}
		b.Run(w.name+"/unfused", func(b *testing.B) { benchmark(b, w, executor.WithoutFusion()) })
	}
}

func benchmark(b *testing.B, w workload, options ...executor.Option) {
	m := w.model(b)
	l := executor.New(options...)
	defer l.Close()
	p, err := l.Prepare(b.Context(), m.Program, w.feed, m.Loss)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Run(b.Context(), w.feed); err != nil {
			b.Fatal(err)
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
