package bench

import (
	"fmt"
	"testing"
)

// BenchmarkStep is one step of each workload, with its feeding. GFLOP/s counts what Workload.Flops does.
func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"sgemm:512x512x512", "fit_a_line/sgd", "mlp/sgd", "mlp/adam", "conv/adam", "ctr/sgd", "ctr/adam", "word2vec/sgd",
		"lstm/adam"} {
		w, err := New(name)
		if err != nil {
			b.Fatal(err)
		}
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", name, threads), func(b *testing.B) {
				training, err := Start(b.Context(), w, threads)
				if err != nil {
					b.Fatal(err)
				}
				defer training.Close()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := training.Step(b.Context(), i); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(w.Flops)*float64(b.N)/b.Elapsed().Seconds()*1e-9, "GFLOP/s")
			})
		}
	}
}
