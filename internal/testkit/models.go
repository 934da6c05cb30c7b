// Package testkit has what the tests of executors and of jobs share: models with the record files that they read (models.go), batches and the comparison
// of tensors bit for bit (tensors.go), and the contract of an executor (contract.go). A helper ends the calling test when something goes wrong.
package testkit

import (
	"path/filepath"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// TB is what helpers need of a *testing.T, *testing.B or *rapid.T.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Model is a program that trains, with the name of its loss.
type Model struct {
	Program *program.Program
	Loss    string
}

// Built returns the finished model.
func Built(t TB, m *layers.Model, loss layers.Variable) Model {
	t.Helper()
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	return Model{Program: p, Loss: loss.Name()}
}

// Dataset is the name of the dataset that the models of this package read.
const Dataset = "train"

// Width is the number of features of a sample of Samples.
const Width = 6

// Samples writes records of Width features and a fixed function of them. It returns the binding of the dataset.
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

// Records writes a dataset of two files, in chunks of 10 records. It returns the binding of the dataset.
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

// lineWidth is the number of features of a record of LineFiles.
const lineWidth = 13

// ReadingLine is linear regression that reads the records of LineFiles, shuffled, in batches of 8.
func ReadingLine(t TB, opt *optimizer.Optimizer) Model {
	t.Helper()
	m := layers.NewModel().Seed(3)
	r := layers.OpenDataset(m, Dataset, layers.Field("x", layers.Dims(lineWidth)), layers.Field("y", layers.Dims(1)))
	v := layers.Read(layers.DoubleBuffer(layers.Batch(layers.Shuffle(r, 50, 9), 8)))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(v[0], 1), v[1]))
	opt.Minimize(loss)
	return Built(t, m, loss)
}

// LineFiles writes records of some features x and their sum y. It returns the binding of the dataset.
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
