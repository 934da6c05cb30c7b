package testkit

import (
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

// Dataset is the name of the dataset that the models of this package read.
const Dataset = "train"

// Width is the number of features of a sample of Samples.
const Width = 6

// Samples writes records of Width features and a fixed function of them into two files of small chunks, and returns how to bind them.
func Samples(t TB, dir string, records int) map[string][]string {
	t.Helper()
	return Records(t, dir, records, func(i int) []*tensor.Tensor {
		x := Random(t, tensor.Float32, uint64(i), Width)
		f := x.Float32s()
		y, err := tensor.FromSlice([]float32{2*f[0] - f[1] + 0.5*f[2]*f[3]})
		if err != nil {
			t.Fatal(err)
		}
		return []*tensor.Tensor{x, y}
	})
}

// Records writes a dataset in two files of chunks of 10 records and returns how to bind it.
func Records(t TB, dir string, records int, record func(i int) []*tensor.Tensor) map[string][]string {
	t.Helper()
	w, err := dataset.CreateShards(dir, Dataset, 2, recordio.Options{ChunkRecords: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for i := range records {
		if err := w.Write(dataset.AppendRecord(nil, record(i)...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{Dataset: {filepath.Join(dir, Dataset+"-*")}}
}

// Reading is a network with one hidden layer that reads Samples in batches.
func Reading(t TB, batch int, opt *optimizer.Optimizer) Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, Dataset, layers.Field("x", layers.Dims(Width)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(r, batch)))
	return regression(t, m, v[0], v[1], opt)
}

// Fed is Reading without the reader: it is fed "x" [Width] and "y" [1].
func Fed(t TB, opt *optimizer.Optimizer) Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	return regression(t, m, layers.Data(m, "x", layers.Dims(Width)), layers.Data(m, "y", layers.Dims(1)), opt)
}

func regression(t TB, m *layers.Model, x, y layers.Variable, opt *optimizer.Optimizer) Model {
	t.Helper()
	prediction := layers.FC(layers.FC(x, 10, layers.Act("tanh")), 1, layers.Name("prediction"))
	loss := layers.Mean(layers.SquareErrorCost(prediction, y), layers.Name("loss"))
	opt.Minimize(loss)
	return Built(t, m, loss)
}
