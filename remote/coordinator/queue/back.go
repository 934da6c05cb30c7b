package queue

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// maxBackChanges bounds the changes of WentBack, so that they and those of the coordinator fit into one transaction.
const maxBackChanges = 100

func (e WentBack) apply(s *step) error {
	if e.To.Pass < s.policy.Start.Pass || e.To.Pass > s.policy.lastPass() {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a way back to pass %d", e.To.Pass),
			fmt.Sprintf("passes %d to %d", s.policy.Start.Pass, s.policy.lastPass()))
	}
	p := s.policy
	p.Passes, p.Start, p.Trained = int(p.lastPass()-e.To.Pass)+1, e.To, e.Trained
	if p = p.within(s.layout.records, s.following); e.To.Pass != p.Start.Pass {
		return s.fault(fault.InvalidArgument, fmt.Sprintf("a way back behind the last batch of pass %d", e.To.Pass), "a batch that is left")
	}
	if err := p.check(); err != nil {
		return err
	}
	for _, tasks := range []tree[*task]{s.failed, s.discarded, s.returned} {
		for _, t := range tasks.from(key{}) {
			s.putTask(t.id, nil)
		}
	}
	for k := range s.pending.byTask.from(key{}) {
		s.putTask(k[0], nil)
	}
	for _, g := range s.segments {
		s.put(numbered(segmentPrefix, g.number), nil)
	}
	s.policy, s.pass = p, e.To.Pass
	s.failed, s.discarded, s.returned, s.pending = tree[*task]{}, tree[*task]{}, tree[*task]{}, pendingTasks{}
	s.segments, s.past = nil, nil
	s.ended, s.regroup = false, false
	s.given, s.done = 0, 0
	if s.policy.Sync {
		s.addSegment(p.firstSegment())
		s.done = s.layout.tasksIn(p.trainedBefore(s.pass, s.layout.records))
		s.given = s.done
	}
	s.note(fmt.Sprintf("data goes on from round %d", e.To.Round), nil, -1)
	if len(s.made) > maxBackChanges {
		return s.fault(fault.TooLarge, fmt.Sprintf("%d tasks and segments to forget", len(s.made)), fmt.Sprintf("at most %d", maxBackChanges))
	}
	return nil
}
