package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/convert"
	"github.com/edl-go/edl/tensor"
)

// mnist returns the 10,000 test images of MNIST, as the network of dims wants them, and their labels.
func mnist(t *testing.T, dims ...int64) (images *tensor.Tensor, labels []int64) {
	t.Helper()
	open := func(name string) *os.File {
		f, err := os.Open(testdata(t, "mnist", name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	var pixels []float32
	collect := recordFunc(func(record []byte) error {
		tensors, err := dataset.DecodeRecord(record)
		if err != nil {
			return err
		}
		pixels = append(pixels, tensors[0].Float32s()...)
		labels = append(labels, tensors[1].Int64s()[0])
		return nil
	})
	_, err := convert.MNIST(t.Context(), open("t10k-images-idx3-ubyte.gz"), open("t10k-labels-idx1-ubyte.gz"), collect, convert.MNISTOptions{Dims: dims})
	if err != nil {
		t.Fatal(err)
	}
	images, err = tensor.FromSlice(pixels, append([]int64{int64(len(labels))}, dims...)...)
	if err != nil {
		t.Fatal(err)
	}
	return images, labels
}

type recordFunc func([]byte) error

func (f recordFunc) Write(record []byte) error { return f(record) }

// classify returns what a saved model says of images when edl runs it, and the share of labels that it gets right.
func classify(t *testing.T, model string, images *tensor.Tensor, labels []int64) (scores []float64, accuracy float64) {
	t.Helper()
	const batch, classes = 1000, 10
	path := filepath.Join(t.TempDir(), "images.npy")
	right := 0
	for from := 0; from < len(labels); from += batch {
		rows, err := images.Rows(int64(from), int64(min(from+batch, len(labels))))
		if err != nil {
			t.Fatal(err)
		}
		writeArray(t, path, "<f4", rows.Dims(), rows.Float32s())
		scores = append(scores, fetchedBy(t, "run", model, "--feed", path, "--workers", "2")...)
	}
	for i, label := range labels {
		row := scores[i*classes : (i+1)*classes]
		best := 0
		for c, score := range row {
			if score > row[best] {
				best = c
			}
		}
		if int64(best) == label {
			right++
		}
	}
	return scores, float64(right) / float64(len(labels))
}

func TestPerceptronOf2018TellsDigits(t *testing.T) {
	model := testdata(t, "models", "mnist_mlp_2018")
	images, labels := mnist(t, mlpDims(t, model)...)
	scores, accuracy := classify(t, model, images, labels)
	if accuracy != 0.6084 {
		t.Errorf("accuracy %.4f, want 0.6084", accuracy)
	}
	near(t, scores[:10], []float64{0.00736, 0.02525, 0.02408, 0.04131, 0.02078, 0.02103, 0.01891, 0.47369, 0.07213, 0.29547}, 1e-5)
}

func TestConvolutionsTellDigits(t *testing.T) {
	model := testdata(t, "models", "mnist_conv")
	if testing.Short() {
		t.Skip("10,000 images take a while")
	}
	images, labels := mnist(t, 1, 28, 28)
	if _, accuracy := classify(t, model, images, labels); accuracy != 0.9862 {
		t.Errorf("accuracy %.4f, want 0.9862", accuracy)
	}
}

// mlpDims returns the dims of one record of a model's only feed.
func mlpDims(t *testing.T, model string) []int64 {
	t.Helper()
	p, _, err := loadProgram(model)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := p.Global().Var(p.Feeds()[0])
	return v.Dims[1:]
}
