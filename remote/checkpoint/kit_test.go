package checkpoint

import (
	"context"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/tensor"
)

// numbers returns a tensor whose elements count from a number on.
func numbers(t testing.TB, first float32, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Float32s() {
		v.Float32s()[i] = first + float32(i)
	}
	return v
}

// stores opens an empty store of each kind.
func stores(t *testing.T) map[string]*Store {
	t.Helper()
	dir, err := Open(t.Context(), t.TempDir()+"/new/folder")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return map[string]*Store{"folder": dir, "bucket": memoryStore(t)}
}

func memoryStore(t *testing.T) *Store {
	s := &Store{&bucket{"mem://", blob.PrefixedBucket(memblob.OpenBucket(nil), "below/"), nil}, "mem://"}
	t.Cleanup(func() { s.Close() })
	return s
}

// save writes a checkpoint after so many steps: w with 5 rows of 3 cut after row 2, lr as a copy on both servers, and n, a number, on the second.
func save(t *testing.T, s *Store, run string, steps uint64) string {
	t.Helper()
	name := NewName(run, steps)
	m := manifest(t, s, name, steps)
	if err := s.Publish(t.Context(), name, m); err != nil {
		t.Fatal(err)
	}
	return name
}

func manifest(t *testing.T, s *Store, name string, steps uint64) *state.Checkpoint {
	t.Helper()
	ctx := context.Background()
	w, rate := numbers(t, float32(steps), 5, 3), numbers(t, 0.5, 1)
	upper, err := w.Rows(0, 2)
	if err != nil {
		t.Fatal(err)
	}
	lower, err := w.Rows(2, 5)
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.WriteShard(ctx, name, 0, []Piece{{"w", []int64{5, 3}, 0, 2, upper, false, false, nil, 0}, {"lr", []int64{1}, 0, 1, rate, false, false, nil, 0}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.WriteShard(ctx, name, 1, []Piece{{"lr", []int64{1}, 0, 1, rate, false, false, nil, 0}, {"w", []int64{5, 3}, 2, 3, lower, false, false, nil, 0},
		{"n", nil, 0, 1, numbers(t, 7), false, false, nil, 0}})
	if err != nil {
		t.Fatal(err)
	}
	return &state.Checkpoint{Job: "digits", Progress: &job.Progress{Steps: steps, Pass: 1, Batch: 2, Reader: "abc"}, Shards: []*job.Shard{first, second},
		Ledger: []byte("ledger")}
}
