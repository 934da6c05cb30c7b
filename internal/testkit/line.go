package testkit

import (
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// lineWidth is the number of features of a record of LineFiles.
const lineWidth = 13

// ReadingLine is linear regression that reads its own batches of 8, shuffled, of what LineFiles writes.
func ReadingLine(t TB, opt *optimizer.Optimizer) Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, Dataset, layers.Field("x", layers.Dims(lineWidth)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 50, 9), 8)))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(v[0], 1), v[1]))
	opt.Minimize(loss)
	return Built(t, m, loss)
}

// LineFiles writes records of some features x and their sum y, and returns how to bind them.
func LineFiles(t TB, dir string, records int) map[string][]string {
	t.Helper()
	return Records(t, dir, records, func(i int) []*tensor.Tensor {
		x := Random(t, tensor.Float32, uint64(i), lineWidth)
		sum := float32(0)
		for _, v := range x.Float32s() {
			sum += v
		}
		y, err := tensor.FromSlice([]float32{sum})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{x, y}
	})
}
