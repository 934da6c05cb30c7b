package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/tensor"
)

// based returns the shards of a checkpoint as a later one has them.
func based(c *Checkpoint) (list []*job.Shard) {
	for _, s := range c.Manifest.Shards {
		s = proto.CloneOf(s)
		if s.Checkpoint == "" {
			s.Checkpoint = c.Name
		}
		list = append(list, s)
	}
	return list
}

// saveChanges writes a checkpoint that has rows 1 to 3 of w, and n, anew, and all else from an earlier one, which save has written.
func saveChanges(t *testing.T, s *Store, base string, steps uint64) string {
	t.Helper()
	c, err := s.Read(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	name := NewName(c.Run(), steps)
	own, err := s.WriteShard(t.Context(), name, 0, []Piece{{"w", []int64{5, 3}, 1, 2, numbers(t, float32(steps), 2, 3), false, false, nil, 0}, {"n", nil, 0, 1, numbers(t, 8), false, false, nil, 0}})
	if err != nil {
		t.Fatal(err)
	}
	own.Changes = true
	m := &state.Checkpoint{Job: "digits", Progress: &job.Progress{Steps: steps}, Shards: append(based(c), own)}
	if err := s.Publish(t.Context(), name, m); err != nil {
		t.Fatal(err)
	}
	return name
}

// A checkpoint of changes is read as a whole one is.
func TestChanges(t *testing.T) {
	for kind, s := range stores(t) {
		name := saveChanges(t, s, save(t, s, "digits-1", 100), 200)
		c, err := s.Read(t.Context(), name)
		if err != nil {
			t.Fatal(kind, err)
		}
		want := []float32{100, 101, 102, 200, 201, 202, 203, 204, 205, 109, 110, 111, 112, 113, 114}
		for first := int64(0); first <= 5; first++ {
			for last := first; last <= 5; last++ {
				into := numbers(t, -1, last-first, 3)
				if err := c.Load(t.Context(), "w", first, into); err != nil || !slices.Equal(into.Float32s(), want[3*first:3*last]) {
					t.Errorf("%s: rows %d to %d are %v, %v", kind, first, last, into.Float32s(), err)
				}
			}
		}
		n := numbers(t, 0)
		if err := c.Load(t.Context(), "n", 0, n); err != nil || n.Float32s()[0] != 8 {
			t.Errorf("%s: n is %v, %v", kind, n, err)
		}
		dir := t.TempDir()
		if err := errors.Join(c.Verify(t.Context()), c.Export(t.Context(), dir)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if progress, ok, err := executor.ReadProgress(dir); err != nil || !ok || progress.Steps != 200 || c.Manifest.Version != version {
			t.Errorf("%s: the progress is %+v, %v, %v, of version %d", kind, progress, ok, err, c.Manifest.Version)
		}
	}
}

// What complete checkpoints have shards of stays, whoever prunes, and goes with the last of them. So does what was discarded.
func TestPruneKeepsBases(t *testing.T) {
	for kind, s := range stores(t) {
		names := func() (list []string) {
			all, err := s.List(t.Context())
			if err != nil {
				t.Fatal(kind, err)
			}
			for _, e := range all {
				list = append(list, e.Name)
			}
			return list
		}
		first := save(t, s, "digits-1", 100)
		second, third := saveChanges(t, s, first, 200), saveChanges(t, s, first, 300)
		if err := s.Prune(t.Context(), "digits-1", 1); err != nil || !slices.Equal(names(), []string{third, first}) {
			t.Errorf("%s: after Prune there are %v of %v, %v", kind, names(), []string{third, second, first}, err)
		}
		if err := s.Discard(t.Context(), Entry{Name: first}); err != nil {
			t.Fatal(err)
		}
		_, err := s.RemoveIncomplete(t.Context(), -time.Second)
		if err = errors.Join(err, s.Prune(t.Context(), "digits-1", 1)); err != nil || !slices.Equal(names(), []string{third, first}) {
			t.Errorf("%s: a base without its manifest is removed: %v, %v", kind, names(), err)
		}
		last := save(t, s, "digits-1", 400)
		if err := s.Prune(t.Context(), "digits-1", 1); err != nil || !slices.Equal(names(), []string{last}) {
			t.Errorf("%s: there are %v, %v, want %s", kind, names(), err, last)
		}
	}
}

func TestChangesThatCannotBe(t *testing.T) {
	s := stores(t)["bucket"]
	c, err := s.Read(t.Context(), saveChanges(t, s, save(t, s, "digits-1", 100), 200))
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(m *state.Checkpoint){
		"changes of nothing":      func(m *state.Checkpoint) { m.Shards[2].Pieces[1].Variable = "m" },
		"changes of other dims":   func(m *state.Checkpoint) { m.Shards[2].Pieces[0].Dims = []int64{6, 3} },
		"changes of another type": func(m *state.Checkpoint) { m.Shards[2].Pieces[0].Dtype = int32(tensor.Int32) },
		"nothing but changes":     func(m *state.Checkpoint) { m.Shards = m.Shards[2:] },
		"a base of another run":   func(m *state.Checkpoint) { m.Shards[0].Checkpoint = NewName("other-1", 100) },
		"a base that is no name":  func(m *state.Checkpoint) { m.Shards[0].Checkpoint = "../digits" },
		"itself as its base":      func(m *state.Checkpoint) { m.Shards[0].Checkpoint = m.Name },
		"a shard of a base twice": func(m *state.Checkpoint) {
			m.Shards[1].Checkpoint, m.Shards[1].Name = m.Shards[0].Checkpoint, "shard-0"
		},
		"half of a base":             func(m *state.Checkpoint) { m.Shards = m.Shards[1:] },
		"a base whose rows are less": func(m *state.Checkpoint) { m.Shards[0].Pieces = m.Shards[0].Pieces[1:] },
	} {
		bad := proto.CloneOf(c.Manifest)
		change(bad)
		if _, err := encodeManifest(bad); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A crashing store ends at one of its durable steps, before or after it was made. Nothing is made later.
type crashing struct {
	objects
	left  int // steps until then
	after bool
}

var errCrash = errors.New("the process has crashed")

func (c *crashing) step(do func() error) error {
	if c.left--; c.left > 0 || c.left == 0 && c.after {
		if err := do(); err != nil || c.left > 0 {
			return err
		}
	}
	return errCrash
}

func (c *crashing) create(ctx context.Context, name string, write func(io.Writer) error) error {
	return c.step(func() error { return c.objects.create(ctx, name, write) })
}

func (c *crashing) remove(ctx context.Context, checkpoint string, names []string) error {
	for _, name := range names { // one by one, in some order
		if err := c.step(func() error { return c.objects.remove(ctx, checkpoint, []string{name}) }); err != nil {
			return err
		}
	}
	return nil
}

// TestCrashAtEveryStep lets the writer of whole checkpoints and of changes crash at every durable step: writing, publishing and pruning. Whatever is complete
// then has the values of its cut, and the last one that was published is there. The next writer goes on.
func TestCrashAtEveryStep(t *testing.T) {
	const run = "digits-1"
	for left := 1; ; left++ {
		s := memoryStore(t) // a folder would wait for the disk at each step
		random := rand.New(rand.NewPCG(uint64(left), 0))
		written := map[string][]float32{} // by checkpoint
		last := ""
		real := s.objects
		c := &crashing{objects: real, left: left, after: random.IntN(2) == 0}
		s.objects = c
		err := cutOften(t, s, run, 1, random, written, &last)
		s.objects = real
		crashed := err != nil
		if crashed && !errors.Is(err, errCrash) {
			t.Fatal(left, err)
		}
		for range 2 {
			list, err := s.List(t.Context())
			if err != nil {
				t.Fatal(left, err)
			}
			there := last == ""
			for _, e := range list {
				if !e.Complete {
					continue
				}
				there = there || e.Name == last
				k, err := s.Read(t.Context(), e.Name)
				if err != nil {
					t.Fatalf("crash at step %d: %v", left, err)
				}
				v := numbers(t, 0, rowsWritten, 1)
				if err := errors.Join(k.Verify(t.Context()), k.Load(t.Context(), "w", 0, v)); err != nil || !slices.Equal(v.Float32s(), written[e.Name]) {
					t.Fatalf("crash at step %d: %s has %v, want %v, %v", left, e.Name, v.Float32s(), written[e.Name], err)
				}
			}
			if !there {
				t.Fatalf("crash at step %d: the last checkpoint %s is not there", left, last)
			}
			if err := cutOften(t, s, run, 100, random, written, &last); err != nil { // the next writer
				t.Fatal(left, err)
			}
		}
		if !crashed {
			if left < 60 {
				t.Fatalf("the writer makes only %d durable steps", left)
			}
			return
		}
	}
}

const rowsWritten = 8

// cutOften writes 12 checkpoints of w, whose rows two servers have, as pservers and a coordinator do: a whole one, and changes to it, each pruned. It begins with
// what nobody has written before.
func cutOften(t *testing.T, s *Store, run string, steps uint64, random *rand.Rand, written map[string][]float32, last *string) error {
	values, base := make([]float32, rowsWritten), ""
	var whole []*job.Shard
	changed := map[int]bool{}
	for i := range 12 {
		for range 1 + random.IntN(2) {
			row := random.IntN(rowsWritten)
			values[row], changed[row] = random.Float32(), true
		}
		name := NewName(run, steps+uint64(i))
		m := &state.Checkpoint{Progress: &job.Progress{Steps: steps + uint64(i)}}
		all := base == "" || len(changed) > rowsWritten/2
		var own []*job.Shard
		for server := range 2 {
			var pieces []Piece
			for row := server * rowsWritten / 2; row < (server+1)*rowsWritten/2; row++ {
				if all || changed[row] {
					pieces = append(pieces, Piece{"w", []int64{rowsWritten, 1}, int64(row), 1, numbers(t, values[row], 1, 1), false, false, nil, 0})
				}
			}
			shard, err := s.WriteShard(context.Background(), name, server, pieces)
			if err != nil {
				return err
			}
			shard.Changes = !all
			own = append(own, shard)
		}
		if m.Shards = own; !all {
			m.Shards = append(slices.Clone(whole), own...)
		}
		written[name] = slices.Clone(values)
		if err := s.Publish(context.Background(), name, m); err != nil {
			return err
		}
		if *last = name; all {
			base, whole, changed = name, nil, map[int]bool{}
			for _, shard := range own {
				shard = proto.CloneOf(shard)
				shard.Checkpoint = name
				whole = append(whole, shard)
			}
		}
		if err := s.Prune(context.Background(), run, 1+i%2); err != nil {
			return fmt.Errorf("prune: %w", err)
		}
	}
	return nil
}
