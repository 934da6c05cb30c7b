package queue

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
)

// skip is what the last segment of a pass leaves out.
func (q *Queue) skip(pass int32) spans {
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

func (q *Queue) discardedSpans() (out spans) {
	for k := range q.discarded.from(key{}) {
		out = append(out, q.cut.task(k[0]))
	}
	return join(out)
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
	return &rpc.Segment{Pass: g.pass, FirstRound: g.firstRound, Skip: g.skip.ranges()}
}

// Regrouping reports whether a task has failed in sync mode, so that Regroup must follow.
func (q *Queue) Regrouping() bool { return q.regroup }

func (e Regroup) apply(s *step) error {
	if !s.policy.Sync {
		return s.fault(fault.InvalidArgument, "a new segment", "sync mode")
	}
	i := s.segmentAt(e.Round)
	if i < 0 || s.segments[i].pass != e.Pass {
		return s.fault(fault.Stale, fmt.Sprintf("round %d in pass %d", e.Round, e.Pass), "the pass in which the round lies")
	}
	committed := spansOf(e.Committed)
	if e.Pass != s.pass { // the new pass had not begun after all
		s.pass, s.given = e.Pass, s.cut.tasks
		s.forget()
	}
	for k, w := range s.failed.from(key{}) {
		if int64(w.failures) > int64(s.policy.MaxFailures) {
			s.failed = s.failed.delete(k)
			gone := *w
			if gone.left = (spans{s.cut.task(w.id)}).without(committed).bounded(); len(gone.left) == 0 {
				s.putTask(w.id, nil) // what failed had been trained
				continue
			}
			s.discard(&gone, -1)
		}
	}
	skip := s.discardedSpans().and(committed)
	if len(skip) > maxRuns {
		return s.fault(fault.TooLarge, fmt.Sprintf("%d runs of records that are done, in pass %d", len(skip), e.Pass),
			fmt.Sprintf("at most %d, by a smaller shuffle buffer", maxRuns))
	}
	s.retried += spans{{0, s.cut.start(s.given)}}.without(skip).records()
	s.done = s.doneBy(skip)
	s.given, s.regroup = s.done, false
	s.dropSegments(len(s.segments))
	s.begin(segment{pass: e.Pass, firstRound: e.Round, skip: skip})
	return nil
}

// doneBy returns how many tasks, from the first on, lie in skip.
func (q *Queue) doneBy(skip spans) int64 {
	switch {
	case len(skip) == 0 || skip[0].from > 0:
		return 0
	case skip[0].to >= q.cut.records:
		return q.cut.tasks
	}
	return q.cut.at(skip[0].to)
}
