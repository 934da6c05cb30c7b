package dataset

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/edl-go/edl/dataset/recordio"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestRecordRoundTrip(t *testing.T) {
	b := sample(t, 7)
	tensors, err := DecodeRecord(b)
	if err != nil || len(tensors) != 2 || tensors[0].Float32s()[1] != 7.5 || tensors[1].Int64s()[0] != 7 {
		t.Fatalf("decoded %v, error %v", tensors, err)
	}
	if !bytes.Equal(AppendRecord(nil, tensors...), b) {
		t.Fatal("the record changes when it is written again")
	}
}

func TestRecordRefusals(t *testing.T) {
	b := sample(t, 7)
	for n := range b {
		if _, err := DecodeRecord(b[:n]); !errors.Is(err, fault.Corrupt) {
			t.Errorf("the first %d of %d bytes: %v", n, len(b), err)
		}
	}
	if _, err := DecodeRecord(append(bytes.Clone(b), 0)); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a byte too many: %v", err)
	}
	if _, err := DecodeRecord([]byte{0xff, 0xff, 0xff, 0xff}); !errors.Is(err, fault.Corrupt) {
		t.Errorf("four billion tensors: %v", err)
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add(sample(f, 7))
	f.Add(AppendRecord(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		tensors, err := DecodeRecord(b)
		if err != nil {
			return
		}
		again, err := DecodeRecord(AppendRecord(nil, tensors...))
		if err != nil || len(again) != len(tensors) {
			t.Fatalf("%v became %v: %v", tensors, again, err)
		}
	})
}

var imageFields = []Field{{"image", tensor.Float32, []int64{784}, 0}, {"label", tensor.Int64, []int64{1}, 0}}

// imageRecord is a record of the shape of MNIST.
func imageRecord(t testing.TB) []byte {
	t.Helper()
	image, err := tensor.New(tensor.Float32, 784)
	if err != nil {
		t.Fatal(err)
	}
	label, err := tensor.New(tensor.Int64, 1)
	if err != nil {
		t.Fatal(err)
	}
	return AppendRecord(nil, image, label)
}

// forever yields one record again and again.
func forever(record []byte) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for i := int64(0); yield(Record{Number: i, Bytes: record}, nil); i++ {
		}
	}
}

func TestBatchesAllocateNothingOnceWarm(t *testing.T) {
	record := imageRecord(t)
	for _, part := range []Part{{}, {1, 3}} {
		b := newBatcher(t, BatchOptions{Fields: imageFields, Rows: 16, Slots: 4})
		next, stop := iter.Pull2(b.Batches(Shuffle(forever(record), Shuffling{Buffer: 8, Seed: 1}), part))
		defer stop()
		for range 4 {
			next()
		}
		allocs := testing.AllocsPerRun(20, func() {
			if batch, err, ok := next(); !ok || err != nil || batch.GlobalRows != 16 {
				t.Fatalf("batch %v, error %v", batch, err)
			}
		})
		if allocs > 0.2 {
			t.Errorf("%+v: %v allocations a batch", part, allocs)
		}
	}
}

// BenchmarkBatch assembles batches of 64 rows of the shape of MNIST in memory.
func BenchmarkBatch(b *testing.B) {
	record := imageRecord(b)
	batcher := newBatcher(b, BatchOptions{Fields: imageFields, Rows: 64})
	b.ReportAllocs()
	b.SetBytes(64 * int64(len(record)))
	n := 0
	for _, err := range batcher.Batches(forever(record), Part{}) {
		if err != nil {
			b.Fatal(err)
		}
		if n++; n >= b.N {
			break
		}
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkPipeline reads, shuffles, batches and prefetches from a file.
func BenchmarkPipeline(b *testing.B) {
	dir := b.TempDir()
	w, err := CreateShards(dir, "train", 2, recordio.Options{Compressor: recordio.Snappy})
	if err != nil {
		b.Fatal(err)
	}
	record := imageRecord(b)
	for range 10000 {
		if err := w.Write(record); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	d, err := Open(ctx, []string{dir + "/train-*"})
	if err != nil {
		b.Fatal(err)
	}
	batcher := newBatcher(b, BatchOptions{Fields: imageFields, Rows: 64, Slots: 4})
	b.ReportAllocs()
	b.ResetTimer()
	rows := 0
	for pass := 0; rows < 64*b.N; pass++ {
		records := Shuffle(d.Records(ctx, 0, d.NumRecords()), Shuffling{Buffer: 1000, Seed: 1, Pass: uint64(pass)})
		for batch, err := range Prefetch(ctx, batcher.Batches(records, Part{}), 2) {
			if err != nil {
				b.Fatal(err)
			}
			if rows += batch.Rows; rows >= 64*b.N {
				break
			}
		}
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "records/s")
}
