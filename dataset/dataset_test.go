package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// sample is the record number i of the test datasets: image float32[3] of i, i+0.5, -i and label int64[1] of i.
func sample(t testing.TB, i int) []byte {
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

var sampleFields = []Field{{"image", tensor.Float32, []int64{3}}, {"label", tensor.Int64, []int64{1}}}

// writeFile writes samples [from, to), two to a chunk.
func writeFile(t testing.TB, path string, from, to int) {
	t.Helper()
	var b bytes.Buffer
	w, err := recordio.NewWriter(&b, recordio.Options{ChunkRecords: 2})
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
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
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

func TestOpenIndexesAllFilesInOrder(t *testing.T) {
	d, dir := threeFiles(t)
	if d.NumRecords() != 10 {
		t.Errorf("%d records", d.NumRecords())
	}
	var got strings.Builder
	for _, c := range d.Chunks() {
		fmt.Fprintf(&got, "%s#%d@%d+%d ", strings.TrimPrefix(c.Path, dir+"/"), c.Index, c.FirstRecord, c.Records)
	}
	if want := "train-0#0@0+2 train-0#1@2+2 train-0#2@4+1 train-2#0@5+2 train-2#1@7+2 train-2#2@9+1 "; got.String() != want {
		t.Errorf("chunks %s, want %s", got.String(), want)
	}
}

func TestOpenOrdersGlobs(t *testing.T) {
	_, dir := threeFiles(t)
	d, err := Open(context.Background(), []string{filepath.Join(dir, "train-2"), filepath.Join(dir, "*")})
	if err != nil {
		t.Fatal(err)
	}
	if first := d.Chunks()[0]; filepath.Base(first.Path) != "train-2" || d.NumRecords() != 10 {
		t.Errorf("first chunk %+v of %d records", first, d.NumRecords())
	}
}

func TestOpenRefuses(t *testing.T) {
	_, dir := threeFiles(t)
	missing := filepath.Join(dir, "test-*")
	_, err := Open(context.Background(), []string{filepath.Join(dir, "train-*"), missing})
	if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a glob without files: %v", err)
	}
	if _, err := Open(context.Background(), []string{"["}); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a bad glob: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(ctx, []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train-3"), []byte("no record file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Corrupt) ||
		!strings.Contains(err.Error(), "train-3") {
		t.Errorf("a foreign file: %v", err)
	}
}

// Nothing tells an empty file from one of an older layout without records but the company that it keeps.
func TestOpenRefusesAnEmptyFileBesideIndexedOnes(t *testing.T) {
	_, dir := threeFiles(t)
	empty := filepath.Join(dir, "train-1")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), []string{filepath.Join(dir, "train-*")}); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), empty) {
		t.Errorf("got %v", err)
	}
	for _, i := range []int{0, 2} {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("train-%d", i)), encoded(t, recordio.Plain, 3), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := Open(t.Context(), []string{filepath.Join(dir, "train-*")}); err != nil || d.NumRecords() != 6 {
		t.Errorf("beside files of an older layout: %v", err)
	}
}

func TestRecordsOfAnyRange(t *testing.T) {
	d, _ := threeFiles(t)
	for from := int64(0); from <= 10; from++ {
		for to := from; to <= 10; to++ {
			next := from
			for r, err := range d.Records(context.Background(), from, to) {
				if err != nil || r.Number != next || !bytes.Equal(r.Bytes, sample(t, int(next))) {
					t.Fatalf("[%d, %d): record %d where %d was due, error %v", from, to, r.Number, next, err)
				}
				next++
			}
			if next != to {
				t.Fatalf("[%d, %d) ended at %d", from, to, next)
			}
		}
	}
	for _, r := range [][2]int64{{-1, 1}, {2, 1}, {0, 11}} {
		for _, err := range d.Records(context.Background(), r[0], r[1]) {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("range %v: %v", r, err)
			}
		}
	}
}

func TestRecordsEndWithTheContext(t *testing.T) {
	d, _ := threeFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var last error
	n := 0
	for r, err := range d.Records(ctx, 0, 10) {
		if last = err; err == nil {
			n++
		}
		if r.Number == 6 {
			cancel()
		}
	}
	if n != 7 || !errors.Is(last, fault.Canceled) || !errors.Is(last, context.Canceled) {
		t.Fatalf("%d records, then %v", n, last)
	}
}

func TestFields(t *testing.T) {
	d, _ := threeFiles(t)
	fields, err := d.Fields(context.Background())
	if err != nil || fmt.Sprint(fields) != "[float32[3] int64[1]]" {
		t.Fatalf("fields %v, error %v", fields, err)
	}
	if none, err := new(Dataset).Fields(context.Background()); err != nil || none != nil {
		t.Fatalf("fields of nothing %v, error %v", none, err)
	}
}
