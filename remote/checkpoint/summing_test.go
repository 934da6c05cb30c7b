package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
)

// What is written arrives whole, and its sums are those of its parts and its pieces, however it comes and whoever sums it up. A reader finds the same sum.
func TestSumsOfParts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		all := make([]byte, rapid.SampledFrom([]int{0, 1, partBytes - 1, partBytes, partBytes + 1, 5*partBytes + 77}).Draw(r, "bytes"))
		for i := range all {
			all[i] = byte(i>>9 + i)
		}
		var got bytes.Buffer
		w := newSumming(&got)
		for left := all; len(left) > 0; {
			piece := left[:rapid.IntRange(1, len(left)).Draw(r, "piece")]
			var err error
			if rapid.Bool().Draw(r, "filled in") && len(piece) <= len(w.room()) {
				err = w.take(copy(w.room(), piece))
			} else {
				_, err = w.Write(piece)
			}
			if sum := w.endPiece(); err != nil || sum != crc32c.Checksum(piece) {
				r.Fatalf("a piece of %d bytes has the sum %x, %v", len(piece), sum, err)
			}
			left = left[len(piece):]
		}
		if err := w.flush(); err != nil {
			r.Fatal(err)
		}
		var sums []byte
		for part := range slices.Chunk(all, partBytes) {
			sum := sha256.Sum256(part)
			sums = append(sums, sum[:]...)
		}
		want := sha256.Sum256(sums)
		if sum := w.end(); !bytes.Equal(sum, want[:]) || !bytes.Equal(got.Bytes(), all) || w.bytes != int64(len(all)) {
			r.Fatalf("%d of %d bytes with the sum %x, want %x", got.Len(), len(all), sum, want)
		}
		if n, sum, err := sumOfParts(t.Context(), &got); err != nil || n != int64(len(all)) || !bytes.Equal(sum, want[:]) {
			r.Fatalf("what is read has %d bytes and the sum %x, %v", n, sum, err)
		}
	})
}

// Who writes shard after shard makes little garbage: beside parameters that fill the heap, the collector would come late, and the heap be twice as large.
func TestShardsMakeLittleGarbage(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const shards = 40
	piece := Piece{"w", []int64{1 << 20}, 0, 1 << 20, numbers(t, 0, 1<<20), false, false, nil, 0}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range shards {
		if _, err := s.WriteShard(t.Context(), NewName("digits-1", uint64(i)), 0, []Piece{piece}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / shards; each > 3*partBytes/2 { // the race detector lets pools forget
		t.Errorf("%d bytes for each shard of 4 MiB, want less than %d", each, 3*partBytes/2)
	}
}

// Shards whose manifest has the SHA-256 of their bytes, as those of earlier versions, are verified by it.
func TestSumsOfEarlierVersions(t *testing.T) {
	for kind, s := range stores(t) {
		name := NewName("digits-1", 1)
		shard, err := s.WriteShard(t.Context(), name, 0, []Piece{{"w", []int64{300_000, 2}, 0, 300_000, numbers(t, 0, 300_000, 2), false, false, nil, 0}})
		if err != nil {
			t.Fatal(err)
		}
		object, err := s.objects.open(t.Context(), name+"/shard-0", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(object)
		if err = errors.Join(err, object.Close()); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(all)
		shard.Part, shard.Sha256 = 0, sum[:]
		m := &state.Checkpoint{Job: "digits", Progress: &job.Progress{Reader: "abc"}, Shards: []*job.Shard{shard}}
		for _, damaged := range []bool{false, true} {
			if shard.Sha256[0] ^= map[bool]byte{true: 1}[damaged]; damaged {
				if err := s.objects.remove(t.Context(), name, []string{manifestName}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Publish(t.Context(), name, m); err != nil {
				t.Fatal(err)
			}
			c, err := s.Read(t.Context(), name)
			if err != nil || c.Manifest.Version != 1 {
				t.Fatal(kind, err, c.Manifest.GetVersion())
			}
			if err := c.Verify(t.Context()); errors.Is(err, fault.Corrupt) != damaged || err != nil && !damaged {
				t.Errorf("%s, damaged: %v: Verify says %v", kind, damaged, err)
			}
		}
	}
}
