package layers_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

func TestReadersGiveBatchesUnderTheNamesOfTheirFields(t *testing.T) {
	m := layers.NewModel()
	train := layers.OpenDataset(m, "train", layers.Field("x", layers.Dims(13)), layers.Field("label", layers.Dims(1), layers.DType(tensor.Int64)))
	batch := layers.Read(layers.DoubleBuffer(layers.Batch(layers.MultiPass(layers.Shuffle(train, 500, 7), 2), 20)))
	layers.FC(batch[0], 1)
	p := finish(t, m)
	want := "create_recordio_file_reader create_shuffle_reader create_multi_pass_reader create_batch_reader create_double_buffer_reader " +
		"read mul elementwise_add"
	if got := opTypes(p); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := batch[0].String(); got != "x float32[-1 13]" {
		t.Errorf("first field: %s", got)
	}
	if got := batch[1].String(); got != "label int64[-1 1]" {
		t.Errorf("second field: %s", got)
	}
}

func TestMistakesInReaders(t *testing.T) {
	x := layers.Field("x", layers.Dims(13))
	for says, build := range map[string]func(m *layers.Model){
		"dataset":    func(m *layers.Model) { layers.OpenDataset(m, "", x) },
		"batch_size": func(m *layers.Model) { layers.Read(layers.Batch(layers.OpenDataset(m, "d", x), 0)) },
		"taken": func(m *layers.Model) {
			layers.Data(m, "x")
			layers.Read(layers.Batch(layers.OpenDataset(m, "d", x), 2))
		},
		"without name":      func(m *layers.Model) { layers.Read(layers.Batch(layers.OpenDataset(m, "d", layers.Field("")), 2)) },
		"shape_concat":      func(m *layers.Model) { layers.OpenDataset(m, "d", layers.Field("x", layers.Dims(-1))) },
		"option NoBatchDim": func(m *layers.Model) { layers.OpenDataset(m, "d", layers.Field("x", layers.NoBatchDim())) },
	} {
		m := layers.NewModel()
		build(m)
		_, err := m.Program()
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one mistake that says %q", err, says)
		}
	}
}
