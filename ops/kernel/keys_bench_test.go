package kernel_test

import (
	"math/rand/v2"
	"testing"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// BenchmarkLookUpKeys looks up batches of 16,384 keys in a table of 4 million rows of 16, which is three quarters full.
func BenchmarkLookUpKeys(b *testing.B) { lookUpKeys(b, 1<<22, 16) }

func lookUpKeys(b *testing.B, rows, width int) {
	const batch = 16384
	values, err := tensor.New(tensor.Float32, int64(rows), int64(width))
	if err != nil {
		b.Fatal(err)
	}
	table, initial := emptyTable(rows/kernel.KeyRegions, 0, kernel.KeyRegions), kernel.InitialRow{Low: -1, High: 1}
	n := int64(rows) * 3 / 4
	w := kernel.KeyWriter{KeyTable: table, Stamp: 1}
	for key := range n {
		row, _ := w.Insert(kernel.MixKey(key))
		initial.Fill(values.Float32s()[row*width:][:width], key)
	}
	random, mixed, out := rand.New(rand.NewPCG(1, 2)), make([]int64, 64*batch), make([]float32, batch*width)
	for i := range mixed {
		mixed[i] = kernel.MixKey(random.Int64N(n))
	}
	at := 0
	for b.Loop() {
		kernel.LookUpKeys(out, values.Float32s(), table, initial, mixed[at:][:batch], width)
		at = (at + batch) % len(mixed)
	}
	b.ReportMetric(batch*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mlookups/s")
	b.ReportMetric(batch*float64(b.N)*float64(4*width)/b.Elapsed().Seconds()/1e9, "GB/s")
}
