package queue_test

import (
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
)

// Entries of anybody's making are refused, or are a queue: whatever they are, nothing is out of bounds.
func TestDamagedEntriesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := queue.Policy{Sync: rapid.Bool().Draw(t, "sync"), Passes: 3, RecordsPerTask: 3, MaxFailures: 1, MaxTimeout: time.Minute, Epoch: time.Unix(1e9, 0)}
		q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "a", Records: 7}, {Path: "b", FirstRecord: 7, Records: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		entries := map[string][]byte{}
		keep := func(changes []queue.Change) {
			for _, c := range changes {
				if entries[c.Key] = c.Value; c.Value == nil {
					delete(entries, c.Key)
				}
			}
		}
		keep(effects.Changes)
		for i := range rapid.IntRange(0, 8).Draw(t, "events") {
			var e queue.Event = queue.TaskWanted{Rank: id.Rank(i % 2), Request: uint64(i), Position: int64(i)}
			if task := effects.Grant.Task; task != nil && i%3 > 0 {
				rank := id.Rank((i - 1) % 2)
				e = []queue.Event{nil, queue.TaskFailed{Rank: rank, Task: task, Committed: ranges.Set{{From: 1, To: 2}}},
					queue.TaskFinished{Rank: rank, Task: task}}[i%3]
			}
			if effects, err = q.Step(0, e); err != nil {
				t.Fatal(err)
			}
			keep(effects.Changes)
		}
		k := rapid.SampledFrom(slices.Sorted(maps.Keys(entries))).Draw(t, "entry")
		b := slices.Clone(entries[k])
		switch rapid.IntRange(0, 3).Draw(t, "damage") {
		case 0:
			delete(entries, k)
		case 1:
			entries[k] = b[:rapid.IntRange(0, len(b)).Draw(t, "cut")]
		case 2:
			entries[k] = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
		case 3:
			if len(b) > 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			}
			entries[k] = b
		}
		q, _, err = queue.Restore(p, "d", entries, 0)
		if err != nil {
			if kind := fault.KindOf(err); kind != fault.Corrupt && kind != fault.InvalidArgument && kind != fault.TooLarge {
				t.Fatal(err)
			}
			return
		}
		for i := 0; q != nil && i < 20; i++ {
			_, e, ok := q.Next()
			if ok {
				_, _ = q.Step(time.Hour, e)
			}
			effects, err := q.Step(time.Hour, queue.TaskWanted{Rank: 9, Request: uint64(i), Pass: q.Pass(), Position: int64(i)})
			if task := effects.Grant.Task; err == nil && task != nil {
				_, _ = q.Step(time.Hour, queue.TaskFailed{Rank: 9, Task: task})
				_, _ = q.Step(time.Hour, queue.Regrouped{Pass: q.Pass(), Round: 1 << 63})
			}
			_ = q.Status()
		}
	})
}

// Where only the first changes of an event are durable, the next coordinator draws the same conclusion from them: here that no task is left.
func TestRestoreWithoutTheLastHead(t *testing.T) {
	p := queue.Policy{Passes: 2, RecordsPerTask: 10}
	q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string][]byte{}
	commit := func(changes []queue.Change) {
		for _, c := range changes {
			entries[c.Key] = c.Value
		}
	}
	commit(effects.Changes)
	got, err := q.Step(0, queue.TaskWanted{Since: 1})
	if err != nil {
		t.Fatal(err)
	}
	commit(got.Changes)
	failed, err := q.Step(0, queue.TaskFailed{Since: 1, Task: got.Grant.Task, Reason: "damaged"})
	if last := len(failed.Changes) - 1; err != nil || !failed.Exhausted || last < 1 || !strings.HasPrefix(failed.Changes[last].Key, "head") {
		t.Fatal(failed, err)
	}
	commit(failed.Changes[:len(failed.Changes)-1])
	again, rest, err := queue.Restore(p, "d", entries, 0)
	if err != nil || !again.Ended() || len(rest.Changes) != 1 || rest.Changes[0].Key != "head" {
		t.Errorf("ended %v, with changes %v, %v; want the head that was missing", again.Ended(), rest.Changes, err)
	}
}

// The clock may jump between two coordinators, by any time and in both directions. The task of a trainer that goes on has between MinTimeout and MaxTimeout from then on, so it is neither taken away
// at once nor waited for until the clock is where it was.
func TestClockJumpsBetweenCoordinators(t *testing.T) {
	p := queue.Policy{Passes: 1, RecordsPerTask: 10, MinTimeout: 5 * time.Second, MaxTimeout: time.Minute, Epoch: time.Unix(1e9, 0)}
	q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "f", Records: 10}}})
	if err != nil {
		t.Fatal(err)
	}
	entries := store{}
	entries.commit(effects.Changes)
	if effects, err = q.Step(0, queue.TaskWanted{Since: 1}); err != nil || effects.Grant.Task == nil {
		t.Fatal(effects, err)
	}
	entries.commit(effects.Changes)
	for _, jump := range []time.Duration{0, time.Second, time.Hour, 1000 * time.Hour, -time.Second, -time.Hour, -1000 * time.Hour} {
		next := p
		next.Epoch = p.Epoch.Add(jump)
		again, _, err := queue.Restore(next, "d", maps.Clone(entries), 0)
		if err != nil {
			t.Fatal(err)
		}
		at, _, ok := again.Next()
		if !ok || at <= 0 || at > p.MaxTimeout || jump > 0 && jump >= p.MaxTimeout && at != p.MinTimeout {
			t.Errorf("after a jump of %v the task has %v, %v", jump, at, ok)
		}
		if got, err := again.Step(time.Second, queue.TaskFinished{Since: 1, Task: effects.Grant.Task}); err != nil || !got.Exhausted && !again.Ended() {
			t.Errorf("after a jump of %v the task is not finished: %+v, %v", jump, got, err)
		}
	}
}

// FuzzRestore restores a queue from any entries, which are those of a snapshot. They are refused, or they are a queue that the next coordinator restores
// in the same way and without a change. The memory that this takes is bounded by their size.
func FuzzRestore(f *testing.F) {
	f.Fuzz(func(t *testing.T, sync bool, b []byte) {
		var snapshot state.Snapshot
		if proto.Unmarshal(b, &snapshot) != nil {
			return
		}
		p := queue.Policy{Sync: sync, Passes: 3, RecordsPerTask: 3, MaxFailures: 1, MinTimeout: time.Second, MaxTimeout: time.Minute, Epoch: time.Unix(1e9, 0)}
		entries := store(snapshot.Entries)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		q, effects, err := queue.Restore(p, "d", entries, 0)
		runtime.ReadMemStats(&after)
		if most := uint64(1<<20 + 1000*len(b)); after.TotalAlloc-before.TotalAlloc > most {
			t.Fatalf("%d bytes of memory for %d bytes of entries", after.TotalAlloc-before.TotalAlloc, len(b))
		}
		if kind := fault.KindOf(err); err != nil && kind != fault.Corrupt && kind != fault.InvalidArgument && kind != fault.TooLarge {
			t.Fatal(err)
		}
		if err != nil || q == nil {
			return
		}
		entries.commit(effects.Changes)
		again, more, err := queue.Restore(p, "d", entries, 0)
		if err != nil || len(more.Changes) > 0 || again.Fingerprint() != q.Fingerprint() || !proto.Equal(again.Status(), q.Status()) {
			t.Fatalf("restored with %v, %v", more.Changes, err)
		}
	})
}
