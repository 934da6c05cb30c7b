package queue

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/wire"
)

// read answers a trainer that reads on at a position. All trainers read the same, so this only notes how far they are.
func (s *step) read(e TaskWanted) error {
	passes := int32(max(s.policy.Passes, 1))
	switch {
	case e.Pass < 0 || e.Pass > s.pass+1 || e.Position < 0:
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a request for record %d of pass %d", e.Position, e.Pass), fmt.Sprintf("pass %d", s.pass))
	case e.Pass >= passes:
		s.effects.Grant = Grant{EndOfPass: true, EndOfData: true}
		return nil
	case e.Pass == s.pass+1:
		if s.regroup {
			s.effects.Grant = Grant{Wait: true}
			return nil
		}
		if err := s.nextPass(e.Round); err != nil {
			return err
		}
	}
	skip := s.skip(e.Pass) // trainers that go on from one pass to the next have not been told of the new segment
	switch at := skip.After(e.Position); {
	case at < s.cut.records:
		tasks := s.consecutive(at, e, skip)
		s.effects.Grant.Task, s.effects.Grant.Next = tasks[0], tasks[1:]
		if e.Pass == s.pass {
			s.given = max(s.given, tasks[len(tasks)-1].Id+1)
		}
	case s.open():
		s.effects.Grant = Grant{Wait: true}
	default:
		s.effects.Grant = Grant{EndOfPass: true, EndOfData: e.Pass+1 >= passes}
	}
	return nil
}

// consecutive returns the tasks that hold the wanted records from at on, which must exist.
func (s *step) consecutive(at int64, e TaskWanted, skip ranges.Set) (tasks []*rpc.Task) {
	for records, bytes := int64(0), 0; len(tasks) == 0 || at < s.cut.records && records < e.Records && bytes < maxGrant; {
		w := &work{id: s.cut.at(at)}
		end := s.cut.task(w.id).To
		w.left = (ranges.Set{{From: at, To: end}}).Without(skip)
		t := s.grant(w)
		t.Pass = e.Pass
		tasks, records, bytes = append(tasks, t), records+w.left.Count(), bytes+proto.Size(t)
		at = skip.After(end)
	}
	return tasks
}

// nextPass begins a pass with a round: the one before has been trained.
func (s *step) nextPass(round uint64) error {
	if last := s.segments[len(s.segments)-1]; round < last.firstRound {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("pass %d from round %d on", s.pass+1, round),
			fmt.Sprintf("a round after %d, where pass %d began", last.firstRound, s.pass))
	}
	s.note("pass ended", nil, -1)
	s.pass++
	s.given, s.done = 0, 0
	s.forget()
	s.dropSegments(len(s.segments) - 1)
	s.begin(segment{pass: s.pass, firstRound: round, skip: s.discardedRecords()})
	return nil
}

// forget clears the failures of a pass.
func (s *step) forget() {
	for k := range s.failed.from(key{}) {
		s.forgetLater(taskPrefix, k[0])
	}
	s.failed = tree[*work]{}
}

// finishSync takes any trainer's word, as all are in step.
func (s *step) finishSync(e TaskFinished) error {
	if e.Task.GetPass() > s.pass {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a task of pass %d", e.Task.GetPass()), fmt.Sprintf("pass %d", s.pass))
	}
	if e.Task.GetPass() == s.pass {
		s.done = max(s.done, e.Task.GetId()+1)
	}
	return nil
}

// failSync counts a failure and asks for a new generation, in which the data go on without what has failed too often.
func (s *step) failSync(e TaskFailed) error {
	id := e.Task.GetId()
	switch {
	case e.Task.GetPass() != s.pass || s.isDiscarded(id):
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), dispatch{pass: e.Task.GetPass(), task: id})
	case s.regroup:
		s.effects.Regroup = true
		return nil
	}
	w := work{id: id, pass: s.pass}
	if before, ok := s.failed.get(key{id}); ok {
		w = *before
	}
	w.failures++
	w.reason = reasonOf(e.Reason)
	s.failed = s.failed.put(key{id}, &w)
	s.putTask(id, w.entry(state.Task_FAILED))
	s.note("task failed", &w, e.Rank)
	s.regroup, s.effects.Regroup = true, true
	return nil
}

func (s *step) settleSync() {
	for s.done < s.cut.tasks && s.isDiscarded(s.done) {
		s.done++
	}
	s.given = max(s.given, s.done)
	if s.Exhausted() || s.done == s.cut.tasks && !s.open() && s.pass+1 >= int32(max(s.policy.Passes, 1)) {
		s.end()
	}
}

// skip is what the last segment of a pass leaves out.
func (q *Queue) skip(pass int32) ranges.Set {
	for i := len(q.segments) - 1; i >= 0; i-- {
		if q.segments[i].pass == pass {
			return q.segments[i].skip
		}
	}
	return nil
}

// begin opens a segment.
func (s *step) begin(g segment) {
	g.number = s.opened
	s.opened++
	s.segments = append(s.segments[:len(s.segments):len(s.segments)], g)
	s.putSegment(g)
}

// dropSegments forgets the first n.
func (s *step) dropSegments(n int) {
	for _, g := range s.segments[:n] {
		s.forgetLater(segmentPrefix, g.number)
	}
	s.segments = s.segments[n:]
}

func (q *Queue) discardedRecords() ranges.Set {
	var list []ranges.Range
	for k := range q.discarded.from(key{}) {
		list = append(list, q.cut.task(k[0]))
	}
	return ranges.Of(list...)
}

func (q *Queue) segmentAt(round uint64) int {
	i := len(q.segments) - 1
	for i >= 0 && q.segments[i].firstRound > round {
		i--
	}
	return i
}

// Segment says where a round of sync mode lies in the data, nil where that is no longer known: rounds before the last two segments are all committed.
func (q *Queue) Segment(round uint64) *rpc.Segment {
	i := q.segmentAt(round)
	if i < 0 {
		return nil
	}
	g := q.segments[i]
	return &rpc.Segment{Pass: g.pass, FirstRound: g.firstRound, Skip: wire.Ranges(g.skip)}
}

// Regrouping reports whether a task has failed in sync mode, so that Regroup must follow.
func (q *Queue) Regrouping() bool { return q.regroup }

func (e Regrouped) apply(s *step) error {
	if !s.policy.Sync {
		return s.fault(fault.InvalidArgument, "a new segment", "sync mode")
	}
	i := s.segmentAt(e.Round)
	if i < 0 || s.segments[i].pass != e.Pass {
		return s.fault(fault.Stale, fmt.Sprintf("round %d in pass %d", e.Round, e.Pass), "the pass in which the round lies")
	}
	committed := e.Committed
	if e.Pass != s.pass { // the new pass had not begun after all
		s.pass, s.given = e.Pass, s.cut.tasks
		s.forget()
	}
	for k, w := range s.failed.from(key{}) {
		if int64(w.failures) > int64(s.policy.MaxFailures) {
			s.failed = s.failed.delete(k)
			gone := *w
			if gone.left = (ranges.Set{s.cut.task(w.id)}).Without(committed).Bounded(maxRuns); len(gone.left) == 0 {
				s.putTask(w.id, nil) // what failed had been trained
				continue
			}
			s.discard(&gone, -1)
		}
	}
	skip := s.discardedRecords().Union(committed)
	if len(skip) > maxRuns {
		return s.fault(fault.TooLarge, fmt.Sprintf("%d runs of records that are done, in pass %d", len(skip), e.Pass),
			fmt.Sprintf("at most %d, by a smaller shuffle buffer", maxRuns))
	}
	s.retried += ranges.Set{{From: 0, To: s.cut.start(s.given)}}.Without(skip).Count()
	s.done = s.doneBy(skip)
	s.given, s.regroup = s.done, false
	s.dropSegments(len(s.segments))
	s.begin(segment{pass: e.Pass, firstRound: e.Round, skip: skip})
	return nil
}

// doneBy returns how many tasks, from the first on, lie in skip.
func (q *Queue) doneBy(skip ranges.Set) int64 {
	switch {
	case len(skip) == 0 || skip[0].From > 0:
		return 0
	case skip[0].To >= q.cut.records:
		return q.cut.tasks
	}
	return q.cut.at(skip[0].To)
}
