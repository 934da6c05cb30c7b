package digits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
)

func newRenderer(t testing.TB, seed uint64) *Renderer {
	t.Helper()
	r, err := NewRenderer(seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestClassesAreBalanced(t *testing.T) {
	r := newRenderer(t, 7)
	orders := map[string]bool{}
	for ten := range 20 {
		var seen [digitCount]int
		order := ""
		for i := range digitCount {
			label := r.Label(digitCount*ten + i)
			seen[label]++
			order += fmt.Sprint(label)
		}
		if seen != [digitCount]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1} {
			t.Errorf("samples %d to %d: %v", 10*ten, 10*ten+9, seen)
		}
		orders[order] = true
	}
	if len(orders) < 19 {
		t.Errorf("20 tens have %d orders", len(orders))
	}
}

func TestSampleIsAFunctionOfSeedAndNumber(t *testing.T) {
	first, second := make([]float32, Side*Side), make([]float32, Side*Side)
	a, b := newRenderer(t, 1), newRenderer(t, 1)
	for i := range 30 {
		a.Render(i, first)
	}
	labelA, labelB := a.Render(12, first), b.Render(12, second)
	if labelA != labelB || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Error("sample 12 depends on what was rendered before")
	}
	newRenderer(t, 2).Render(12, second)
	if fmt.Sprint(first) == fmt.Sprint(second) {
		t.Error("seeds 1 and 2 give the same sample 12")
	}
}

func TestImagesAreInsideTheirFrame(t *testing.T) {
	r := newRenderer(t, 3)
	pixels := make([]float32, Side*Side)
	for i := range 500 {
		label := r.Render(i, pixels)
		ink, border := 0, 0
		for j, v := range pixels {
			if v < -1 || v > 1 {
				t.Fatalf("sample %d has pixel %v", i, v)
			}
			if v > 0 {
				ink++
				if x, y := j%Side, j/Side; x == 0 || y == 0 || x == Side-1 || y == Side-1 {
					border++
				}
			}
		}
		if ink < 15 || ink > Side*Side/3 || border > 0 {
			t.Errorf("sample %d, a %d, has %d bright pixels, %d at the border", i, label, ink, border)
		}
	}
}

// Published results are made with these samples: the bytes must not change between releases or machines.
func TestBytesArePinned(t *testing.T) {
	var file bytes.Buffer
	w, err := recordio.NewWriter(&file, recordio.Options{Layout: recordio.Plain})
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(context.Background(), w, Options{Seed: 1, Count: 100}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if sum := crc32.ChecksumIEEE(file.Bytes()); sum != 0x0e290d36 {
		t.Errorf("checksum 0x%08x", sum)
	}
}

// collect keeps records.
type collect struct{ records [][]byte }

func (c *collect) Write(record []byte) error {
	c.records = append(c.records, bytes.Clone(record))
	return nil
}

func TestWrite(t *testing.T) {
	whole, part := &collect{}, &collect{}
	if err := Write(context.Background(), whole, Options{Seed: 5, Count: 30, Dims: []int64{1, Side, Side}}); err != nil {
		t.Fatal(err)
	}
	if err := Write(context.Background(), part, Options{Seed: 5, First: 10, Count: 5, Dims: []int64{1, Side, Side}}); err != nil {
		t.Fatal(err)
	}
	if len(whole.records) != 30 || len(part.records) != 5 || !bytes.Equal(whole.records[10], part.records[0]) {
		t.Fatalf("%d and %d records", len(whole.records), len(part.records))
	}
	tensors, err := dataset.DecodeRecord(part.records[0])
	if err != nil || tensors[0].String() != "float32[1 28 28]" || tensors[1].String() != "int64[1]" {
		t.Fatalf("a record of %v, error %v", tensors, err)
	}
	if got, want := tensors[1].Int64s()[0], newRenderer(t, 5).Label(10); got != int64(want) {
		t.Errorf("label %d, want %d", got, want)
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		options Options
		kind    fault.Kind
	}{
		{Options{Count: -1}, fault.InvalidArgument}, {Options{First: -1}, fault.InvalidArgument},
		{Options{Count: 1, Dims: []int64{783}}, fault.ShapeMismatch},
	} {
		if err := Write(context.Background(), &collect{}, c.options); !errors.Is(err, c.kind) {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Write(ctx, &collect{}, Options{Count: 1}); !errors.Is(err, fault.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
}

func BenchmarkRender(b *testing.B) {
	r := newRenderer(b, 1)
	pixels := make([]float32, Side*Side)
	b.ReportAllocs()
	for i := range b.N {
		r.Render(i, pixels)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "images/s")
}
