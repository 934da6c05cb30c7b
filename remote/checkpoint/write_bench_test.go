package checkpoint

import (
	"context"
	"os"
	"testing"
	"time"
)

// BenchmarkWriteShard measures how fast a server's part of 512 MB is written to a folder, until it is durable, with its sums. Beside it a plain file of as many
// bytes is written and synced at the same place, as dd with conv=fsync does.
func BenchmarkWriteShard(b *testing.B) {
	const each, pieces = 32e6 / 4, 16
	value := numbers(b, 0, each)
	var list []Piece
	for range pieces {
		list = append(list, Piece{"w", []int64{each * pieces}, int64(len(list)) * each, each, value, false, false, nil, 0})
	}
	s, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var plain time.Duration
	block := make([]byte, 1<<20)
	for b.Loop() {
		name := NewName("job", 1)
		if _, err := s.WriteShard(context.Background(), name, 0, list); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.objects.remove(context.Background(), name, []string{"shard-0"}); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		f, err := os.CreateTemp(b.TempDir(), "plain")
		if err != nil {
			b.Fatal(err)
		}
		for left := int64(4 * each * pieces); left > 0; left -= int64(len(block)) {
			if _, err := f.Write(block[:min(left, int64(len(block)))]); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(began)
		f.Close()
		if err := os.Remove(f.Name()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.SetBytes(4 * each * pieces)
	b.ReportMetric(4*each*pieces/1e6*float64(b.N)/plain.Seconds(), "MB/s-plain")
}
