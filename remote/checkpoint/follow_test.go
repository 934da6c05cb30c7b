package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
)

// What was read of one checkpoint becomes that of another, whatever lies between them. Of two checkpoints with the same base, changes alone are read: the base may be gone.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func(name string) *Checkpoint {
		t.Helper()
		c, err := s.Read(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := save(t, s, "digits-1", 100)
	fewer := func() string { // one row of w has changed, and n has not
		base, name := read(first), NewName("digits-1", 250)
		own, err := s.WriteShard(t.Context(), name, 0, []Piece{{"w", []int64{5, 3}, 2, 1, numbers(t, 250, 1, 3), false, false, nil, 0}})
		if err != nil {
			t.Fatal(err)
		}
		own.Changes = true
		if err := s.Publish(t.Context(), name, &state.Checkpoint{Job: "digits", Progress: &job.Progress{Steps: 250}, Shards: append(based(base), own)}); err != nil {
			t.Fatal(err)
		}
		return name
	}()
	all := []*Checkpoint{read(first), read(saveChanges(t, s, first, 200)), read(fewer), read(saveChanges(t, s, first, 300)), read(save(t, s, "digits-1", 400))}
	for _, variable := range []string{"w", "n", "lr"} {
		for i, since := range all {
			for j, c := range all {
				have, err := since.Value(t.Context(), variable)
				if err != nil {
					t.Fatal(err)
				}
				want, err := c.Value(t.Context(), variable)
				if err != nil {
					t.Fatal(err)
				}
				if c.Same(variable, since) && !slices.Equal(have.Float32s(), want.Float32s()) {
					t.Errorf("%s is the same in %d and %d, which is wrong", variable, i, j)
				}
				if err := c.Update(t.Context(), variable, since, have); err != nil || !slices.Equal(have.Float32s(), want.Float32s()) {
					t.Errorf("%s of %d became %v, %v, want %v of %d", variable, i, have.Float32s(), err, want.Float32s(), j)
				}
			}
		}
	}
	if !all[1].Same("lr", all[3]) || all[1].Same("w", all[3]) {
		t.Error("lr of two checkpoints with one base differs, or w does not")
	}
	have, err := all[1].Value(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, first, "shard-0")); err != nil {
		t.Fatal(err)
	}
	if err := all[3].Update(t.Context(), "w", all[1], have); err != nil || have.Float32s()[3] != 300 {
		t.Errorf("without the base: %v, %v", have.Float32s(), err)
	}
	if err := all[2].Update(t.Context(), "w", all[3], have); !errors.Is(err, fault.NotFound) {
		t.Errorf("rows that are as in the base, which is gone: %v", err)
	}
}

// A follower finds the first checkpoint, each newer one, and nothing while nothing is written.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	f, err := Follow(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Newest(t.Context()); !errors.Is(err, fault.NotFound) {
		t.Errorf("of an empty store: %v", err)
	}
	for steps := uint64(1); steps < 4; steps++ {
		name := save(t, f.store, "digits-1", steps)
		if err := f.store.Prune(t.Context(), "digits-1", 1); err != nil {
			t.Fatal(err)
		}
		if changed, err := f.Changed(t.Context()); !changed || err != nil {
			t.Errorf("a new checkpoint: %v, %v", changed, err)
		}
		if changed, err := f.Changed(t.Context()); changed || err != nil {
			t.Errorf("no new checkpoint: %v, %v", changed, err)
		}
		if c, err := f.Newest(t.Context()); err != nil || c.Name != name {
			t.Errorf("the newest of %s: %v, %v", name, c, err)
		}
	}
}

// When the newest checkpoint goes away first, as where somebody removes the store, a follower does not go back to an older one. It takes what is written later.
func TestFollowNeverGoesBack(t *testing.T) {
	dir := t.TempDir()
	f, err := Follow(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	save(t, f.store, "digits-1", 1)
	newest := save(t, f.store, "digits-1", 2)
	for _, want := range []string{"before", "after it was removed"} {
		if c, err := f.Newest(t.Context()); err != nil || c.Name != newest {
			t.Errorf("%s: %v, %v; want %s", want, c, err, newest)
		}
		if err := os.Remove(filepath.Join(dir, newest, manifestName)); err != nil && want == "before" {
			t.Fatal(err)
		}
	}
	later := save(t, f.store, "digits-1", 3)
	if c, err := f.Newest(t.Context()); err != nil || c.Name != later {
		t.Errorf("a later one: %v, %v; want %s", c, err, later)
	}
}
