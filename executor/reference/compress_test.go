package reference_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/reference"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/tensor"
)

const houseFeatures = 13

// houses reads the Boston housing table: features scaled to mean 0 and deviation 1, and prices. It returns nil if the folder of real data is not named.
func houses(t *testing.T) (x, y []float32) {
	t.Helper()
	folder := os.Getenv("EDL_TESTDATA")
	if folder == "" {
		t.Log("EDL_TESTDATA is unset: it names the folder of real data")
		return nil, nil
	}
	table, err := os.ReadFile(filepath.Join(folder, "housing", "housing.data"))
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range strings.Fields(string(table)) {
		v, err := strconv.ParseFloat(word, 32)
		if err != nil {
			t.Fatal(err)
		}
		if i%(houseFeatures+1) == houseFeatures {
			y = append(y, float32(v))
		} else {
			x = append(x, float32(v))
		}
	}
	for f := range houseFeatures {
		var sum, squares float64
		for i := f; i < len(x); i += houseFeatures {
			sum += float64(x[i])
			squares += float64(x[i]) * float64(x[i])
		}
		mean := sum / float64(len(y))
		deviation := math.Sqrt(squares/float64(len(y)) - mean*mean)
		for i := f; i < len(x); i += houseFeatures {
			x[i] = float32((float64(x[i]) - mean) / deviation)
		}
	}
	return x, y
}

// trainHouses trains a linear model, as fit_a_line is, on 2 trainers for some passes, and returns the mean loss of the last one.
func trainHouses(t *testing.T, x, y []float32, gradients, parameters string) float64 {
	t.Helper()
	m := layers.NewModel().Seed(5)
	in, price := layers.Data(m, "x", layers.Dims(houseFeatures)), layers.Data(m, "y", layers.Dims(1))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(in, 1), price))
	optimizer.Momentum(0.002, 0.9).Minimize(loss)
	model := testkit.Built(t, m, loss)
	e, err := reference.New(model.Program, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Compress(gradients, parameters); err != nil {
		t.Fatal(err)
	}
	const passes, rows = 60, 46 // 11 batches a pass
	var last float64
	for pass := range passes {
		last = 0
		for from := 0; from < len(y); from += rows {
			features, _ := tensor.FromSlice(x[from*houseFeatures:(from+rows)*houseFeatures], rows, houseFeatures)
			prices, _ := tensor.FromSlice(y[from:from+rows], rows, 1)
			got, err := e.Run(t.Context(), model.Program, executor.Feed{"x": features, "y": prices}, model.Loss)
			if err != nil {
				t.Fatalf("pass %d: %v", pass, err)
			}
			last += float64(got[0].Float32s()[0]) * rows / float64(len(y))
		}
	}
	return last
}

// On real data, jobs that compress come to the loss of the job that does not: within 1 %.
func TestCompressionConverges(t *testing.T) {
	x, y := houses(t)
	if x == nil {
		return
	}
	want := trainHouses(t, x, y, "none", "none")
	if want > 25 { // the variance of the prices is 84
		t.Fatalf("without compression the loss is %v", want)
	}
	for _, c := range [][2]string{{"bf16", "none"}, {"fp16", "none"}, {"none", "bf16"}, {"bf16", "bf16"}, {"fp16", "fp16"}} {
		got := trainHouses(t, x, y, c[0], c[1])
		t.Logf("gradients %s, parameters %s: loss %.4f, without %.4f", c[0], c[1], got, want)
		if got == want || math.Abs(got-want) > 0.01*want {
			t.Errorf("gradients %s, parameters %s: loss %v, without %v", c[0], c[1], got, want)
		}
	}
}
