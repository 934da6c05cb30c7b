package queue

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// ordered is the mode of sync jobs: all trainers read the same records in the same order. A task is what lies at a position, and nobody has it. The
// queue remembers how far tasks were given and how far they are done, and the last segments.
type ordered struct{}

// A segment says which batches of a pass rounds train. The records of the pass without those in skip, in order, are shuffled and divided into batches,
// numbered from 0; round r trains batch firstBatch + (r - firstRound).
//
// A pass begins with a segment. A failure ends it, because what is left of the pass then has other batches: Regrouped begins another segment. The queue
// keeps the last two, so that it can say where the rounds lie that may still be open: the last one of a pass, and the first ones of the next.
type segment struct {
	number     int64
	pass       int32
	firstRound id.Round
	firstBatch uint64
	skip       ranges.Set
}

type segments []segment

// batch returns the number of the batch that a round trains.
func (g segment) batch(round id.Round) uint64 { return g.firstBatch + uint64(round-g.firstRound) }

// want answers a trainer that reads on at a position.
func (ordered) want(s *step, e TaskWanted) error {
	if s.stopped {
		end := s.endRound
		s.effects.Grant.EndRound = &end
	}
	switch {
	case e.Pass < 0 || e.Pass > s.pass+1 || e.Position < 0:
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a request for record %d of pass %d", e.Position, e.Pass), fmt.Sprintf("pass %d", s.pass))
	case e.Pass > s.pass && s.stopped && e.Round >= s.endRound:
		s.effects.Grant.EndOfPass, s.effects.Grant.EndOfData = true, true
		return nil
	case s.policy.Backup && e.Pass == s.pass+1 && !s.regroup && len(owed(&s.Queue, e.Committed)) > 0:
		s.note("records go to later rounds", nil, -1)
		s.regroup, s.effects.Regroup, s.effects.Grant.Wait = true, true, true
		return nil
	case e.Pass > s.policy.lastPass() && !(s.policy.Backup && s.regroup):
		s.effects.Grant.EndOfPass, s.effects.Grant.EndOfData = true, true
		if s.policy.Backup && e.Pass == s.pass+1 {
			s.given, s.done = s.layout.tasks, s.layout.tasks
			s.end()
		}
		return nil
	case e.Pass == s.pass+1:
		if s.regroup {
			s.effects.Grant.Wait = true
			return nil
		}
		if err := s.nextPass(e.Round); err != nil {
			return err
		}
	}
	skip := s.segments.skip(e.Pass) // trainers that go on from one pass to the next do not know the new segment
	switch at := skip.After(e.Position); {
	case at < s.layout.records:
		tasks := s.consecutive(at, e, skip)
		s.effects.Grant.Task, s.effects.Grant.Next = tasks[0], tasks[1:]
		if e.Pass == s.pass {
			s.given = max(s.given, tasks[len(tasks)-1].Id+1)
		}
	case s.open() && s.stopped: // Stopped.apply: the last round needs no further file
		s.effects.Grant.EndOfPass, s.effects.Grant.EndOfData = true, true
	case s.open():
		s.effects.Grant.Wait = true
	default:
		s.effects.Grant.EndOfPass, s.effects.Grant.EndOfData = true, e.Pass >= s.policy.lastPass() && !s.policy.Backup
	}
	return nil
}

// owed returns the records of the current pass that are to be trained, and that the ledger does not have.
func owed(q *Queue, committed ranges.Set) ranges.Set {
	return q.layout.all().Without(discardedRecords(q).Union(committed).Union(q.policy.trainedBefore(q.pass, q.layout.records)))
}

func (RecordsOwed) apply(s *step) error {
	if !s.policy.Backup {
		return s.fault(fault.InvalidArgument, "records that are owed", "a job with backup trainers")
	}
	if !s.regroup {
		s.note("records go to later rounds", nil, -1)
		s.regroup = true
	}
	s.effects.Regroup = true
	return nil
}

// consecutive returns the tasks that have the wanted records from at on, which must exist.
func (s *step) consecutive(at int64, e TaskWanted, skip ranges.Set) (tasks []*rpc.Task) {
	for records, bytes := int64(0), 0; len(tasks) == 0 || at < s.layout.records && records < e.Records && bytes < maxGrant; {
		t := &task{id: s.layout.taskOf(at)}
		end := s.layout.recordsOf(t.id).To
		t.left = (ranges.Set{{From: at, To: end}}).Without(skip)
		m := grant(&s.Queue, t)
		m.Pass = e.Pass
		tasks, records, bytes = append(tasks, m), records+t.left.Count(), bytes+proto.Size(m)
		at = skip.After(end)
	}
	return tasks
}

// nextPass begins a pass with a round: the pass before has been trained.
func (s *step) nextPass(round id.Round) error {
	if last := s.segments[len(s.segments)-1]; round < last.firstRound {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("pass %d from round %d on", s.pass+1, round),
			fmt.Sprintf("a round after %d, where pass %d began", last.firstRound, s.pass))
	}
	s.beginPass()
	s.forgetFailures()
	s.dropSegments(len(s.segments) - 1)
	s.addSegment(segment{pass: s.pass, firstRound: round, skip: discardedRecords(&s.Queue)})
	return nil
}

// forgetFailures clears the failures of a pass.
func (s *step) forgetFailures() {
	for k := range s.failed.from(key{}) {
		s.deleteLater(taskPrefix, k[0])
	}
	s.failed = tree[*task]{}
}

// finish believes any trainer, because all are at the same round.
func (ordered) finish(s *step, e TaskFinished) error {
	if e.Task.GetPass() > s.pass {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a task of pass %d", e.Task.GetPass()), fmt.Sprintf("pass %d", s.pass))
	}
	if e.Task.GetPass() == s.pass {
		s.done = max(s.done, e.Task.GetId()+1)
	}
	return nil
}

// fail counts a failure and asks for a new generation, in which the data go on without tasks that have failed too often.
func (ordered) fail(s *step, e TaskFailed) error {
	number := e.Task.GetId()
	switch {
	case e.Task.GetPass() != s.pass || s.discarded.has(key{number}):
		return s.stale(fmt.Sprintf("trainer %d", e.Rank), dispatch{pass: e.Task.GetPass(), task: number})
	case s.regroup:
		s.effects.Regroup = true
		return nil
	}
	t := task{id: number, pass: s.pass}
	if before, ok := s.failed.get(key{number}); ok {
		t = *before
	}
	t.failures++
	t.reason = shortReason(e.Reason)
	s.failed = s.failed.put(key{number}, &t)
	s.putTask(number, t.entry(state.Task_FAILED))
	s.note("task failed", &t, int(e.Rank))
	s.regroup, s.effects.Regroup = true, true
	return nil
}

func (ordered) settle(s *step) {
	for s.done < s.layout.tasks && s.discarded.has(key{s.done}) {
		s.done++
	}
	s.given = max(s.given, s.done)
	if s.Exhausted() || s.done == s.layout.tasks && !s.open() && s.pass >= s.policy.lastPass() && !s.policy.Backup {
		s.end()
	}
}

func (e Regrouped) apply(s *step) error {
	if !s.policy.Sync {
		return s.fault(fault.InvalidArgument, "a new segment", "sync mode")
	}
	i := s.segments.at(e.Round)
	if i < 0 || s.segments[i].pass != e.Pass {
		return s.fault(fault.Stale, fmt.Sprintf("round %d in pass %d", e.Round, e.Pass), "the pass in which the round lies")
	}
	committed := e.Committed.Union(s.policy.trainedBefore(e.Pass, s.layout.records))
	if e.Pass != s.pass { // the new pass had not begun after all
		s.pass, s.given = e.Pass, s.layout.tasks
		s.forgetFailures()
	}
	for k, t := range s.failed.from(key{}) {
		if int64(t.failures) > int64(s.policy.MaxFailures) {
			s.failed = s.failed.delete(k)
			gone := *t
			if gone.left = (ranges.Set{s.layout.recordsOf(t.id)}).Without(committed).Bounded(maxRuns); len(gone.left) == 0 {
				s.putTask(t.id, nil) // all of the failed task had been trained
				continue
			}
			s.discard(&gone, -1)
		}
	}
	skip := discardedRecords(&s.Queue).Union(committed)
	if len(skip) > maxRuns {
		return s.fault(fault.TooLarge, fmt.Sprintf("%d ranges of records that are done, in pass %d", len(skip), e.Pass),
			fmt.Sprintf("at most %d, by a smaller shuffle buffer", maxRuns))
	}
	s.retried += ranges.Set{{From: 0, To: s.layout.start(s.given)}}.Without(skip).Count()
	s.done = s.layout.tasksIn(skip)
	s.given, s.regroup = s.done, false
	s.dropSegments(len(s.segments))
	s.addSegment(segment{pass: e.Pass, firstRound: e.Round, skip: skip})
	return nil
}

// addSegment begins a segment.
func (s *step) addSegment(g segment) {
	g.number = s.opened
	s.opened++
	s.segments = append(s.segments[:len(s.segments):len(s.segments)], g)
	s.putSegment(g)
}

// dropSegments forgets the first n segments.
func (s *step) dropSegments(n int) {
	for _, g := range s.segments[:n] {
		s.deleteLater(segmentPrefix, g.number)
	}
	s.past = append(slices.Clone(s.past[max(0, len(s.past)+n-maxPast):]), s.segments[:n]...)
	s.segments = s.segments[n:]
}

// skip is what the last segment of a pass leaves out.
func (list segments) skip(pass int32) ranges.Set {
	for _, g := range slices.Backward(list) {
		if g.pass == pass {
			return g.skip
		}
	}
	return nil
}

func discardedRecords(q *Queue) ranges.Set {
	var list []ranges.Range
	for k := range q.discarded.from(key{}) {
		list = append(list, q.layout.recordsOf(k[0]))
	}
	return ranges.Of(list...)
}

// trainedBefore returns the records of a pass, of so many records, that were trained before this job began: Trained, and those of the first Start.Batch
// batches. The ledger of this job need not have them.
func (p Policy) trainedBefore(pass int32, records int64) ranges.Set {
	start, r := p.Start, p.Reading
	switch {
	case pass != start.Pass:
		return nil
	case start.Batch == 0:
		return p.Trained
	}
	left := (ranges.Set{{From: 0, To: records}}).Without(p.Trained)
	first := dataset.ShuffledFirst(int64(start.Batch)*r.Rows, left.Count(), dataset.Shuffling{Buffer: r.ShuffleBuffer, Group: r.ShuffleGroup, Seed: r.ShuffleSeed, Pass: uint64(pass)})
	return p.Trained.Union(left.At(ranges.Of(first...)))
}

// at returns the index of the segment that a round lies in, -1 for none.
func (list segments) at(round id.Round) int {
	i := len(list) - 1
	for i >= 0 && list[i].firstRound > round {
		i--
	}
	return i
}

// Segment says where a round of sync mode lies in the data. It returns nil where the queue does not know that any more: for rounds before the last two
// segments, which are all committed.
func (q *Queue) Segment(round id.Round) *rpc.Segment {
	i := q.segments.at(round)
	if i < 0 {
		return nil
	}
	g := q.segments[i]
	return &rpc.Segment{Pass: g.pass, FirstRound: uint64(g.firstRound), Skip: wire.Ranges(g.skip), FirstBatch: g.firstBatch}
}

// LastSegment is the last segment of a pass that a queue remembers, nil where it does not.
func LastSegment(q *Queue, pass int32) *rpc.Segment {
	for _, g := range slices.Backward(q.segments) {
		if g.pass == pass {
			return &rpc.Segment{Pass: g.pass, FirstRound: uint64(g.firstRound), Skip: wire.Ranges(g.skip), FirstBatch: g.firstBatch}
		}
	}
	return nil
}

// Regrouping reports whether a task has failed in sync mode, so that Regrouped must follow.
func (q *Queue) Regrouping() bool { return q.regroup }

// FirstSegment is the segment that a sync job begins with. It is what trainers are told before the dataset is reported, when there is no queue yet. A
// batch that no dataset has becomes the last one whose records have numbers: both are behind the end of the pass.
func (p Policy) FirstSegment() *rpc.Segment {
	last := (math.MaxInt64 - p.Trained.Count()) / max(1, p.Reading.Rows)
	return &rpc.Segment{Pass: p.Start.Pass, FirstRound: uint64(p.Start.Round), Skip: wire.Ranges(p.Trained), FirstBatch: min(p.Start.Batch, uint64(last))}
}

// firstSegment is the segment that a sync job begins with.
func (p Policy) firstSegment() segment {
	return segment{pass: p.Start.Pass, firstRound: p.Start.Round, firstBatch: p.Start.Batch, skip: p.Trained}
}

// EndRound returns the first round that is not trained, after Stopped in sync mode.
func (q *Queue) EndRound() (id.Round, bool) { return q.endRound, q.stopped && q.policy.Sync }

// Covered returns the first round of sync mode that no trainer can train with the tasks that it was told of: it asks again before.
func (q *Queue) Covered() id.Round { return behind(q, q.layout.start(q.given)) }

// behind returns the first round that needs a record from a number on. It may have some before, too, where more files may come: until then it has no batch.
func behind(q *Queue, record int64) id.Round {
	i := len(q.segments) - 1
	if i < 0 {
		return 0
	}
	g, rows := q.segments[i], max(1, q.policy.Reading.Rows)
	told := (ranges.Set{{From: 0, To: record}}).Without(g.skip).Count()
	batches := uint64((told-1)/rows + 1)
	if q.open() {
		batches = uint64(told / rows)
	}
	if told == 0 || batches <= g.firstBatch {
		return g.firstRound
	}
	return g.firstRound + id.Round(batches-g.firstBatch)
}

// PassEnd returns the first round behind a pass that is behind a round, too: where the next pass begins. ok is false where no further pass begins, and for a
// dataset that follows a folder. A failure may move the end of its pass.
func (q *Queue) PassEnd(after id.Round) (end id.Round, ok bool) {
	if !q.policy.Sync || q.following || len(q.segments) == 0 {
		return 0, false
	}
	list := slices.DeleteFunc(slices.Clone(q.past), func(g segment) bool { return g.firstRound >= q.segments[0].firstRound }) // others have not begun after all
	list = append(list, q.segments...)
	for i := 1; i < len(list) && !ok; i++ { // trainers may be some passes ahead
		end, ok = list[i].firstRound, list[i].firstRound > after && list[i].pass > list[i-1].pass
	}
	if !ok {
		last := list[len(list)-1]
		left := uint64(max(0, q.policy.lastPass()-last.pass)) // passes that begin after it
		batches := q.policy.Reading.batches(q.layout.records - last.skip.Count())
		end = last.firstRound + id.Round(max(batches, last.firstBatch)-last.firstBatch)
		if after >= end {
			each := q.policy.Reading.batches(q.layout.records - discardedRecords(q).Count())
			if each == 0 {
				return 0, false
			}
			passes := uint64(after-end)/each + 1
			if passes >= left {
				return 0, false
			}
			end += id.Round(passes * each)
		}
		ok = left > 0
	}
	if stop, stopped := q.EndRound(); stopped && end >= stop {
		return 0, false
	}
	return end, ok
}

// Position returns where the data goes on with a round, for a later job: Policy.Start of a queue of the same data. In async mode that is the beginning of
// the current pass, or of the pass after the last. ok is false where the queue does not know where the round lies.
//
// A round after a failure lies in a segment that leaves records out: trained, Policy.Trained of the later job. In async mode, and with backup trainers, the
// position is in a pass until that has ended, and the ledger says what is left of it: Within.
func (q *Queue) Position(round id.Round) (p Position, trained ranges.Set, ok bool) {
	if !q.policy.Sync {
		if q.ended && !q.stopped {
			return Position{Round: round, Pass: q.pass + 1}, nil, true
		}
		return Position{Round: round, Pass: q.pass}, nil, true
	}
	list := q.segments
	if list.at(round) < 0 {
		list = q.past
	}
	i := list.at(round)
	if i < 0 {
		return Position{}, nil, false
	}
	g := list[i]
	if p = (Position{Round: round, Pass: g.pass, Batch: g.batch(round)}); q.open() || q.policy.Backup && !q.ended || p.Batch < q.policy.Reading.batches(q.layout.records-g.skip.Count()) {
		return p, g.skip, true
	}
	return Position{Round: round, Pass: g.pass + 1}, nil, true
}
