package dataset

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/tensor"
	"pgregory.net/rapid"
)

// sample is the record number i of the test datasets: image float32[3] of i, i+0.5, -i and label int64[1] of i.
func sample(t rapid.TB, i int) []byte {
	t.Helper()
	v := float32(i)
	image, err := tensor.FromSlice([]float32{v, v + 0.5, -v}, 3)
	if err != nil {
		t.Fatal(err)
	}
	label, err := tensor.FromSlice([]int64{int64(i)}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return AppendRecord(nil, image, label)
}

var sampleFields = []Field{{"image", tensor.Float32, []int64{3}, 0}, {"label", tensor.Int64, []int64{1}, 0}}

// writeFile writes samples [from, to), two to a chunk.
func writeFile(t testing.TB, path string, from, to int) {
	t.Helper()
	if err := os.WriteFile(path, encoded(t, recordio.Options{ChunkRecords: 2}, from, to), 0o600); err != nil {
		t.Fatal(err)
	}
}

// threeFiles is a dataset of 10 samples in files of 5, 0 and 5.
func threeFiles(t testing.TB) (*Dataset, string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "train-2"), 5, 10)
	writeFile(t, filepath.Join(dir, "train-1"), 5, 5)
	writeFile(t, filepath.Join(dir, "train-0"), 0, 5)
	d, err := Open(context.Background(), []string{filepath.Join(dir, "train-*")})
	if err != nil {
		t.Fatal(err)
	}
	return d, dir
}

// encoded is a file of samples [from, to).
func encoded(t rapid.TB, options recordio.Options, from, to int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := recordio.NewWriter(&b, options)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < to; i++ {
		if err := w.Write(sample(t, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
