package queue

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// A tree holds what a map would, in order, and what is done to it changes no tree of before.
func TestTreeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now tree[int]
		model := map[key]int{}
		type version struct {
			tree  tree[int]
			model map[key]int
		}
		var versions []version
		keys := rapid.Custom(func(t *rapid.T) key {
			return key{rapid.Int64Range(-2, 3).Draw(t, "first"), rapid.Int64Range(-2, 3).Draw(t, "second")}
		})
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			versions = append(versions, version{now, maps.Clone(model)})
			if k := keys.Draw(t, "key"); rapid.Bool().Draw(t, "put") {
				now, model[k] = now.put(k, i), i
			} else {
				now = now.delete(k)
				delete(model, k)
			}
		}
		from := keys.Draw(t, "from")
		for _, v := range append(versions, version{now, model}) {
			order := slices.SortedFunc(maps.Keys(v.model), func(a, b key) int {
				if a.less(b) {
					return -1
				}
				return 1
			})
			if v.tree.len != len(order) {
				t.Fatalf("%d of %d", v.tree.len, len(order))
			}
			if k, _, ok := v.tree.first(); ok != (len(order) > 0) || ok && k != order[0] {
				t.Fatalf("first %v of %v", k, order)
			}
			order = slices.DeleteFunc(order, func(k key) bool { return k.less(from) })
			for k, value := range v.tree.from(from) {
				if k != order[0] || value != v.model[k] {
					t.Fatalf("%v, want %v", k, order[0])
				}
				order = order[1:]
			}
			if got, ok := v.tree.get(from); len(order) > 0 || got != v.model[from] || ok != hasKey(v.model, from) {
				t.Fatalf("%v at %v, and %d are missing", got, from, len(order))
			}
		}
	})
}

func hasKey(m map[key]int, k key) bool {
	_, ok := m[k]
	return ok
}

// Spans are sets of records, in the one form that has no parts that touch.
func TestSpansProperty(t *testing.T) {
	const limit = 40
	draw := func(t *rapid.T, name string) (s spans, set [limit]bool) {
		var ranges []*rpc.RecordRange
		for range rapid.IntRange(0, 6).Draw(t, name) {
			r := &rpc.RecordRange{From: rapid.Int64Range(-1, limit).Draw(t, "from"), To: rapid.Int64Range(-1, limit).Draw(t, "to")}
			ranges = append(ranges, r)
			for i := max(r.From, 0); r.From >= 0 && i < r.To; i++ {
				set[i] = true
			}
		}
		return spansOf(ranges), set
	}
	check := func(t *rapid.T, what string, s spans, in func(i int64) bool) {
		n, last := int64(0), int64(-1)
		for i := range int64(limit) {
			if in(i) {
				n++
			}
			if in(i) != (s.after(i) != i) {
				t.Fatalf("%s: %v, and %d in it: %v", what, s, i, in(i))
			}
		}
		for _, p := range s {
			if p.from <= last || p.from >= p.to {
				t.Fatalf("%s: %v", what, s)
			}
			last = p.to
		}
		if s.records() != n {
			t.Fatalf("%s: %v has %d records, want %d", what, s, s.records(), n)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, inA := draw(t, "a")
		b, inB := draw(t, "b")
		check(t, "made", a, func(i int64) bool { return inA[i] })
		check(t, "and", a.and(b), func(i int64) bool { return inA[i] || inB[i] })
		check(t, "without", a.without(b), func(i int64) bool { return inA[i] && !inB[i] })
		check(t, "ranges", spansOf(a.ranges()), func(i int64) bool { return inA[i] })
		again, ok := spansOfRuns(a.runs(), limit)
		if !ok {
			t.Fatalf("%v is not read", a)
		}
		check(t, "runs", again, func(i int64) bool { return inA[i] })
		if _, ok := spansOfRuns(a.runs(), limit/2); ok != (len(a) == 0 || a[len(a)-1].to <= limit/2) {
			t.Fatalf("%v within %d: %v", a, limit/2, ok)
		}
	})
}

// What is left of a task in too many parts is kept in fewer, which hold all of it.
func TestBoundedSpans(t *testing.T) {
	var s spans
	for i := range int64(2 * maxRuns) {
		s = append(s, span{2 * i, 2*i + 1})
	}
	b := s.bounded()
	if len(b) != maxRuns || len(s.without(b)) > 0 || len(s) != 2*maxRuns {
		t.Errorf("%d parts of %d, without %d", len(b), len(s), len(s.without(b)))
	}
	if c := b.bounded(); len(c) != len(b) {
		t.Errorf("%d parts of %d", len(c), len(b))
	}
}

// Tasks follow each other over all records, whatever files they come in, and each record is found in its task.
func TestCutProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{RecordsPerTask: rapid.Int64Range(0, 5).Draw(t, "size"), Trainers: rapid.IntRange(0, 2).Draw(t, "trainers")}
		var c cut
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			var files []*rpc.DataFile
			at := c.records
			for range rapid.IntRange(0, 4).Draw(t, "files") {
				n := rapid.Int64Range(0, 9).Draw(t, "records")
				files = append(files, &rpc.DataFile{Path: "f", FirstRecord: at, Records: n})
				at += n
			}
			tasks := c.tasks
			if _, err := c.add(p, files); err != nil {
				t.Fatal(err)
			}
			if c.tasks > tasks && c.task(tasks).from+int64(0) > at {
				t.Fatalf("task %d begins at %d", tasks, c.task(tasks).from)
			}
		}
		at := int64(0)
		for id := range c.tasks {
			records := c.task(id)
			if records.from != at || records.to <= at || p.RecordsPerTask > 0 && records.to-at > p.RecordsPerTask || c.start(id) != at {
				t.Fatalf("task %d of %d: %v after %d", id, c.tasks, records, at)
			}
			held := int64(0)
			for _, f := range c.holding(spans{records}) {
				held += min(f.FirstRecord+f.Records, records.to) - max(f.FirstRecord, records.from)
			}
			if held != records.to-records.from {
				t.Fatalf("the files of task %d hold %d of %v", id, held, records)
			}
			for ; at < records.to; at++ {
				if c.at(at) != id {
					t.Fatalf("record %d is in task %d, want %d", at, c.at(at), id)
				}
			}
		}
		if at != c.records || c.start(c.tasks) != at {
			t.Fatalf("%d of %d records", at, c.records)
		}
	})
}

// Entries of anybody's making are refused, or are a queue: whatever they are, nothing is out of bounds.
func TestDamagedEntriesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{Sync: rapid.Bool().Draw(t, "sync"), Passes: 3, RecordsPerTask: 3, MaxFailures: 1, MaxTimeout: time.Minute, Epoch: time.Unix(1e9, 0)}
		q, effects, err := New(p, Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "a", Records: 7}, {Path: "b", FirstRecord: 7, Records: 5}}})
		if err != nil {
			t.Fatal(err)
		}
		entries := map[string][]byte{}
		keep := func(changes []Change) {
			for _, c := range changes {
				if entries[c.Key] = c.Value; c.Value == nil {
					delete(entries, c.Key)
				}
			}
		}
		keep(effects.Changes)
		for i := range rapid.IntRange(0, 8).Draw(t, "events") {
			var e Event = Get{Rank: i % 2, Request: uint64(i), Position: int64(i)}
			if task := effects.Grant.Task; task != nil && i%3 > 0 {
				e = []Event{nil, Fail{Rank: (i - 1) % 2, Task: task, Committed: []*rpc.RecordRange{{From: 1, To: 2}}}, Finish{Rank: (i - 1) % 2, Task: task}}[i%3]
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
		q, _, err = Restore(p, "d", entries, 0)
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
			effects, err := q.Step(time.Hour, Get{Rank: 9, Request: uint64(i), Pass: q.Pass(), Position: int64(i)})
			if task := effects.Grant.Task; err == nil && task != nil {
				_, _ = q.Step(time.Hour, Fail{Rank: 9, Task: task})
				_, _ = q.Step(time.Hour, Regroup{Pass: q.Pass(), Round: 1 << 63})
			}
			_ = q.Status()
		}
	})
}
