package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// pairedSequences trains on numbers of a sequence that are weighted by those of another one, row by row. With apart it pools each sequence first.
func pairedSequences(t *testing.T, apart bool) *program.Program {
	m := layers.NewModel()
	data := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(1), layers.LoD(1)), layers.Field("w", layers.Dims(1), layers.LoD(1)))
	read := layers.Read(layers.Batch(data, 2))
	x, w := layers.FC(read[0], 1), read[1]
	if apart {
		x, w = layers.SequencePool(x, "sum"), layers.SequencePool(w, "sum")
	}
	sum := layers.Mul(x, w)
	if !apart {
		sum = layers.SequencePool(sum, "sum")
	}
	optimizer.SGD(0.1).Minimize(layers.Mean(sum))
	return finished(t, m)
}

// Records of sequences that an op combines row by row must have as many rows in both: else other rows would meet on trainers, which have a part of each batch, than on one machine.
func TestSequencesThatMeetRowByRowHaveOneLength(t *testing.T) {
	column := func(n int) *tensor.Tensor {
		v, err := tensor.FromSlice(make([]float32, n), int64(n), 1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	path := filepath.Join(t.TempDir(), "train-0")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := recordio.NewWriter(file, recordio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, lengths := range [][2]int{{2, 1}, {1, 2}} { // as many rows in a batch of both
		if err := w.Write(dataset.AppendRecord(nil, column(lengths[0]), column(lengths[1]))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), file.Close()); err != nil {
		t.Fatal(err)
	}
	for _, apart := range []bool{false, true} {
		p := pairedSequences(t, apart)
		local := executor.New()
		_, err := local.Train(t.Context(), p, executor.TrainOptions{Data: map[string][]string{"train": {path}}}, nil)
		local.Close()
		x, y := column(3), column(3)
		x.SetLoD([][]int64{{0, 2, 3}})
		y.SetLoD([][]int64{{0, 1, 3}})
		fed := executor.CheckSequences(p, executor.Feed{"x": x, "w": y})
		if apart {
			if err != nil || fed != nil {
				t.Errorf("sequences that are pooled apart: %v, %v", err, fed)
			}
			continue
		}
		if fault.KindOf(err) != fault.ShapeMismatch || !strings.Contains(err.Error(), "record 0") || !strings.Contains(err.Error(), "op elementwise_mul combines them row by row") {
			t.Errorf("records: %v", err)
		}
		if fault.KindOf(fed) != fault.ShapeMismatch || !strings.Contains(fed.Error(), `got 2 rows of sequence 0, and 1 of`) {
			t.Errorf("feeds: %v", fed)
		}
	}
}
