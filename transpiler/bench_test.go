package transpiler_test

import (
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/transpiler"
)

// BenchmarkTranspile spreads a deep network of about a thousand ops over ten servers.
func BenchmarkTranspile(b *testing.B) {
	m := layers.NewModel()
	h := layers.Data(m, "x", layers.Dims(64))
	for range 50 {
		h = layers.FC(h, 64, layers.Act("relu"))
	}
	y := layers.Data(m, "y", layers.Dims(64))
	optimizer.Adam(0.1, optimizer.Regularize(layers.L2(0.1)),
		optimizer.ClipGradients(optimizer.ByGlobalNorm(1))).Minimize(layers.Mean(layers.SquareErrorCost(h, y)))
	p := built(b, m)
	for b.Loop() {
		transpile(b, p, transpiler.Config{Trainers: 4, PServers: 10, MinBlockSize: 1024})
	}
	b.ReportMetric(float64(len(p.Global().Ops)), "ops")
}
