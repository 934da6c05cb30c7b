package queue

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
)

// The keys of entries, below that of the dataset.
const (
	headKey       = "head"
	filePrefix    = "file/"
	taskPrefix    = "task/"
	rankPrefix    = "rank/"
	segmentPrefix = "segment/"
)

// put enters a change; nil deletes the entry.
func (s *step) put(key string, m proto.Message) {
	c := Change{Key: key}
	if m != nil {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic("queue: " + err.Error()) // only for a string that is not UTF-8, and none is let in
		}
		c.Value = b
	}
	s.effects.Changes = append(s.effects.Changes, c)
}

func numbered(prefix string, n int64) string { return prefix + strconv.FormatInt(n, 10) }

func (s *step) putHead() {
	s.put(headKey, &state.Head{Sync: s.policy.Sync, Pass: s.pass, Given: s.given, Done: s.done, Files: int64(s.files), Following: s.following,
		Closed: s.closed, Ended: s.ended, AverageNs: int64(s.average), Returns: s.returns, Retried: s.retried, Regroup: s.regroup, Segments: s.opened})
}

func (s *step) putFile(i int, f *rpc.DataFile, size int64) {
	s.put(numbered(filePrefix, int64(i)), &state.File{File: f, TaskRecords: size})
}

// putTask sets the entry of a task, or deletes it.
func (s *step) putTask(id int64, entry *state.Task) {
	if entry == nil {
		s.put(numbered(taskPrefix, id), nil)
		return
	}
	s.put(numbered(taskPrefix, id), entry)
}

func (w *work) entry(place state.Task_Place) *state.Task {
	return &state.Task{Place: place, Pass: w.pass, Epoch: w.epoch, Failures: w.failures, Reason: w.reason, Runs: w.left.runs(), Returned: w.returned}
}

func (p *pending) entry() *state.Task {
	t := p.work.entry(state.Task_PENDING)
	t.Rank, t.Incarnation, t.DispatchedMs, t.DeadlineMs, t.Grace = uint32(p.rank), p.incarnation, p.dispatched, p.deadline, p.grace
	return t
}

// putRank remembers a trainer.
func (s *step) putRank(n int, r *rank) {
	s.ranks = s.ranks.put(key{int64(n)}, r)
	m := &state.Rank{Incarnation: r.incarnation, Gone: r.gone, Request: r.request}
	if r.granted.epoch > 0 {
		m.Granted = r.granted.entry()
	}
	for _, d := range r.finished {
		m.Finished = append(m.Finished, d.entry())
	}
	s.put(numbered(rankPrefix, int64(n)), m)
}

func (d dispatch) entry() *state.Dispatch {
	return &state.Dispatch{Pass: d.pass, Task: d.task, Epoch: d.epoch}
}

func (s *step) putSegment(g segment) {
	s.put(numbered(segmentPrefix, g.number), &state.Segment{Pass: g.pass, FirstRound: g.firstRound, Skip: g.skip.runs()})
}

// forgetLater deletes an entry that counts until the head is written.
func (s *step) forgetLater(prefix string, n int64) {
	s.late = append(s.late, Change{Key: numbered(prefix, n)})
}

// Describe says what a durable entry of a dataset holds, for people.
func Describe(key string, value []byte) (string, error) {
	m, err := decode(key, value)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(m), nil
}
