package queue_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// Wherever a job begins, also behind the end of a pass, it trains the batches that one machine would train (executor.FileSource): the rest of the pass
// that the position lies in counts as the first pass, unless nothing is left of it. This holds for trainers that joined before the dataset was known and
// after, for coordinators that start again at any time, and where records of the pass are left out.
func TestStartProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.Int64Range(1, 40).Draw(t, "records")
		p := queue.Policy{Sync: true, Passes: rapid.IntRange(1, 3).Draw(t, "passes"), RecordsPerTask: rapid.Int64Range(1, 15).Draw(t, "records per task"),
			Reading: queue.Reading{Rows: rapid.Int64Range(1, 12).Draw(t, "rows"), DropLast: rapid.Bool().Draw(t, "drop last"),
				ShuffleBuffer: rapid.SampledFrom([]int{0, 7, 100}).Draw(t, "shuffle")},
			Start: queue.Position{Round: 9, Pass: 2, Batch: rapid.OneOf(rapid.Uint64Range(0, 50),
				rapid.SampledFrom([]uint64{math.MaxInt64, 1e12})).Draw(t, "batch")}, Trained: drawnSet(t, records)}
		batchesOf := func(records int64) uint64 {
			if records%p.Reading.Rows > 0 && !p.Reading.DropLast {
				return uint64(records/p.Reading.Rows) + 1
			}
			return uint64(records / p.Reading.Rows)
		}
		batches, inFirst := batchesOf(records), batchesOf(records-p.Trained.Count())
		pass, first := p.Start.Pass, p.Start.Batch
		if (first > 0 || len(p.Trained) > 0) && first >= inFirst {
			pass, first, inFirst = pass+1, 0, batches
		}
		var want []string
		for n := range p.Passes {
			for b, end := first, inFirst; b < end; b++ {
				want = append(want, fmt.Sprintf("pass %d batch %d", pass+int32(n), b))
			}
			first, inFirst = 0, batches
		}
		l := &startedQueue{t: t, policy: p, entries: store{}}
		q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "a", Records: records}}})
		if err != nil {
			t.Fatal(err)
		}
		l.queue = q
		l.entries.commit(effects.Changes)
		ends := map[id.Round]bool{} // of passes that another one follows
		for i := range want[:max(0, len(want)-1)] {
			if want[i+1] == fmt.Sprintf("pass %d batch 0", pass+int32(len(ends))+1) {
				ends[p.Start.Round+id.Round(i)+1] = true
			}
		}
		for after := p.Start.Round; after < p.Start.Round+id.Round(len(want))+2; after++ {
			end, known := after+1, false
			for ; end <= p.Start.Round+id.Round(len(want)) && !known; end++ {
				known = ends[end]
			}
			if at, ok := q.PassEnd(after); ok != known || ok && at != end-1 {
				t.Fatalf("behind round %d a pass ends at %d (%t), want %d (%t) of %v", after, at, ok, end-1, known, ends)
			}
		}
		segment := p.FirstSegment()
		if rapid.Bool().Draw(t, "joined after the dataset was reported") {
			segment = l.queue.Segment(p.Start.Round)
		}
		got, end := l.train(segment, batchesOf)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("trains %v, want %v", got, want)
		}
		at, trained, ok := l.queue.Position(end)
		if want := (queue.Position{Round: end, Pass: pass + int32(p.Passes)}); !ok || at != want || trained != nil || end != p.Start.Round+id.Round(len(got)) {
			t.Fatalf("ends at %+v (%t), want %+v", at, ok, want)
		}
	})
}

// The same holds for async mode: it trains the records of these batches.
func TestAsyncStartProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := queue.Policy{Passes: rapid.IntRange(1, 3).Draw(t, "passes"), RecordsPerTask: 3, MaxTimeout: time.Hour, Epoch: epoch,
			Reading: queue.Reading{Rows: 4, ShuffleBuffer: rapid.SampledFrom([]int{0, 7}).Draw(t, "shuffle")}, Trained: drawnSet(t, 10),
			Start: queue.Position{Pass: 2, Batch: rapid.OneOf(rapid.Uint64Range(0, 6), rapid.Just(uint64(math.MaxInt64))).Draw(t, "batch")}}
		l := &startedQueue{t: t, policy: p, entries: store{}}
		q, effects, err := queue.New(p, queue.Dataset{Name: "d", Files: []*rpc.DataFile{{Path: "a", Records: 10}}})
		if err != nil {
			t.Fatal(err)
		}
		l.queue = q
		l.entries.commit(effects.Changes)
		trained, pass := map[int32]int64{}, p.Start.Pass
		for request := uint64(0); ; request++ {
			grant := l.step(queue.TaskWanted{Since: 1, Request: request, Pass: pass}).Grant
			if grant.EndOfData {
				break
			}
			if grant.EndOfPass {
				pass++
				continue
			}
			if grant.Task == nil || request > 1000 {
				t.Fatalf("request %d of pass %d: %+v", request, pass, grant)
			}
			for _, r := range grant.Task.Records {
				trained[grant.Task.Pass] += r.To - r.From
			}
			l.step(queue.TaskFinished{Since: 1, Task: grant.Task})
		}
		want, first := map[int32]int64{}, p.Start.Pass
		left := 10 - p.Trained.Count()
		if left -= int64(min(p.Start.Batch, 3)) * 4; left <= 0 {
			first, left = first+1, 10
		}
		for n := range p.Passes {
			want[first+int32(n)], left = left, 10
		}
		if fmt.Sprint(trained) != fmt.Sprint(want) {
			t.Fatalf("records by pass %v, want %v", trained, want)
		}
	})
}

// drawnSet draws some of so many records, often none.
func drawnSet(t *rapid.T, records int64) ranges.Set {
	var list []ranges.Range
	for _, from := range rapid.SliceOfN(rapid.Int64Range(0, records-1), 0, 3).Draw(t, "trained") {
		list = append(list, ranges.Range{From: from, To: min(records, from+rapid.Int64Range(1, 9).Draw(t, "run"))})
	}
	return ranges.Of(list...)
}

// startedQueue is a queue whose coordinator may start again before each event.
type startedQueue struct {
	t       *rapid.T
	policy  queue.Policy
	entries store
	queue   *queue.Queue
}

func (l *startedQueue) step(e queue.Event) queue.Effects {
	if rapid.IntRange(0, 3).Draw(l.t, "restart") == 0 {
		again, _, err := queue.Restore(l.policy, "d", l.entries, 0)
		if err != nil || again.Fingerprint() != l.queue.Fingerprint() {
			l.t.Fatalf("restored: %v", err)
		}
		l.queue = again
	}
	effects, err := l.queue.Step(0, e)
	if err != nil {
		l.t.Fatal(err)
	}
	l.entries.commit(effects.Changes)
	return effects
}

// train is what a trainer of a sync job does: it names the batches that it trains, and the round after the last one.
func (l *startedQueue) train(g *rpc.Segment, batchesOf func(records int64) uint64) (trained []string, round id.Round) {
	pass, batch, round, skip := g.Pass, g.FirstBatch, id.Round(g.FirstRound), ranges.Of(wire.RangesOf(g.Skip)...)
	rows := l.policy.Reading.Rows
	for range 1000 {
		left := l.records() - skip.Count()
		batches := batchesOf(left)
		at := int64(batch) * rows
		if size := int64(l.policy.Reading.ShuffleBuffer); size > 1 {
			at -= at % size
		}
		at = skip.Outside(at)
		for {
			grant := l.step(queue.TaskWanted{Pass: pass, Position: at, Records: rows, Round: round}).Grant
			if grant.EndOfData {
				return trained, round
			}
			if grant.EndOfPass {
				break
			}
			if grant.Task == nil {
				l.t.Fatalf("pass %d from record %d on: %+v", pass, at, grant)
			}
			last := grant.Task
			if n := len(grant.Next); n > 0 {
				last = grant.Next[n-1]
			}
			at = last.Records[len(last.Records)-1].To
			for place := at - skip.Intersect(ranges.Set{{From: 0, To: at}}).Count(); batch < batches && place >= min(int64(batch+1)*rows, left); batch, round = batch+1, round+1 {
				trained = append(trained, fmt.Sprintf("pass %d batch %d", pass, batch))
			}
			l.step(queue.TaskFinished{Task: last})
		}
		pass, batch, skip = pass+1, 0, nil
	}
	l.t.Fatal("does not end")
	return nil, 0
}

func (l *startedQueue) records() int64 { return l.queue.Status().Records }
