package peak

import "testing"

func TestLoopsRun(t *testing.T) {
	for _, l := range Loops() {
		if rate := Flops(l.Level); rate <= 0 {
			t.Errorf("%s does %g operations a second", l.Level, rate)
		}
	}
	if rate := Flops("an abacus"); rate != 0 {
		t.Errorf("a level without a loop does %g operations a second", rate)
	}
}

// BenchmarkPeak prints the limits that docs/performance.md quotes.
func BenchmarkPeak(b *testing.B) {
	for _, l := range Loops() {
		b.Run(l.Level, func(b *testing.B) {
			flops := 0.0
			for b.Loop() {
				flops = max(flops, Flops(l.Level))
			}
			b.ReportMetric(flops/1e9, "GFLOP/s")
		})
	}
}
