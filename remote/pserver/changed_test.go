package pserver_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/internal/pstest"
)

// A server writes what has changed since the last whole part that is there, if that is at most half. Whatever it writes, a checkpoint has the values of its cut.
func TestCutOfChanges(t *testing.T) {
	const n, small = 100_000, 3
	s := pstest.Start(t, pstest.Config(1), pstest.SGD(0, true, 1, n, small))
	a, dir := pstest.Trainer{Client: s.Client}, t.TempDir()
	store, err := checkpoint.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want, round := make([]float32, n), uint64(0)
	train := func(elements ...int) { // takes 1 from each
		t.Helper()
		grad := pstest.Vector(n)
		for _, at := range elements {
			grad.Float32s()[at]++
			want[at]--
		}
		for name, g := range map[string][]float32{"w0@GRAD": grad.Float32s(), "w1@GRAD": make([]float32, small)} {
			v := pstest.Vector(int64(len(g)))
			copy(v.Float32s(), g)
			if _, err := a.Send(t.Context(), round, name, v); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Declare(t.Context(), round, &rpc.Declared{Rows: 1}, 2); err != nil {
			t.Fatal(err)
		}
		round++
		if _, _, err := a.Get(t.Context(), round, "w0", n); err != nil {
			t.Fatal(err)
		}
	}
	cut := func(bases ...string) (name string, bytes int64, from string) {
		t.Helper()
		name = checkpoint.NewName("job", round)
		r, err := s.Client.Cut(t.Context(), &rpc.CutRequest{Id: pstest.Identity.Of(0, id.Round(round), 0), Store: dir, Name: name, Bases: bases})
		if err != nil {
			t.Fatal(err)
		}
		m := &state.Checkpoint{Progress: &job.Progress{Steps: round}, Shards: []*job.Shard{r.Shard}}
		if r.Base != nil {
			m.Shards = append(m.Shards, r.Base)
		}
		if err := store.Publish(t.Context(), name, m); err != nil {
			t.Fatal(err)
		}
		k, err := store.Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		have := pstest.Vector(n)
		if err := k.Load(t.Context(), "w0", 0, have); err != nil || !slices.Equal(have.Float32s(), want) {
			t.Fatalf("the checkpoint of round %d has other values: %v", round, err)
		}
		return name, r.Shard.Bytes, r.Base.GetCheckpoint()
	}
	const whole = 4 * (n + small)
	is := func(what string, bytes, least, most int64, from, base string) {
		t.Helper()
		if bytes < least || bytes > most || from != base {
			t.Errorf("%s: %d bytes and a base of %q, want %d to %d and %q", what, bytes, from, least, most, base)
		}
	}
	first, bytes, from := cut()
	is("the first", bytes, whole, whole, from, "")
	second, bytes, from := cut(first)
	is("nothing", bytes, 0, 0, from, first)
	train(0, 7, 50_000, n-1)
	_, bytes, from = cut(first, second)
	is("a few elements", bytes, 4*4, 5*4096, from, first)
	train(30_000) // what has changed before has to be written again
	_, bytes, from = cut(first)
	is("one more", bytes, 5*4, 6*4096, from, first)
	last, bytes, from := cut("another")
	is("no base that is there", bytes, whole, whole, from, "")
	_, bytes, from = cut(first, last)
	is("nothing since", bytes, 0, 0, from, last)
	var all []int
	for at := range n {
		all = append(all, at)
	}
	train(all...)
	final, bytes, from := cut(last)
	is("all", bytes, whole, whole, from, "")
	train(1)
	_, bytes, from = cut(final)
	is("one element", bytes, 4, 4096, from, final)
}
