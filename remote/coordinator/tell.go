package coordinator

import (
	"slices"
	"sync"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// joined is a step to be told, and the reports that its values are merged of.
type joined struct {
	step *job.Step
	from []*rpc.TrainerStep
}

// teller merges values and tells steps, in the order of its queue. It merges without Server.mu: values may be large, and nobody who asks for a task
// should wait for them.
type teller struct {
	turn  sync.Mutex // held by the one who tells; taken before Server.mu
	queue []joined   // guarded by Server.mu
	err   error      // why there are not more; guarded by Server.mu
}

// tellSteps tells the steps that are queued to those who watch, and returns when all that were queued before have been told, by whomever. When values
// cannot be merged it ends the job, and says why ever after.
func (s *Server) tellSteps() error {
	s.teller.turn.Lock()
	defer s.teller.turn.Unlock()
	for {
		s.mu.Lock()
		if s.teller.err != nil || len(s.teller.queue) == 0 {
			defer s.mu.Unlock()
			return s.teller.err
		}
		next := s.teller.queue[0]
		s.teller.queue = slices.Delete(s.teller.queue, 0, 1)
		s.mu.Unlock()
		var err error
		if len(next.from) > 0 {
			next.step.Fetched, err = s.cfg.Merge(next.from)
		}
		s.locked(func() { s.told(next.step, err) })
	}
}

// told tells a step, or ends the job for err. s.mu is held.
func (s *Server) told(step *job.Step, err error) {
	if err != nil {
		s.teller.err = err
		s.finish(err) // every trainer would say the same again
		return
	}
	s.log.Add(&job.Event{What: &job.Event_Step{Step: step}})
	if s.cfg.Fed {
		s.results[step.Step] = step
		s.broadcast()
	}
}

// closeSteps queues what is left of the steps before a round, and has it told; see collector.close. s.mu is held.
func (s *Server) closeSteps(round uint64) {
	pass := s.steps.pass
	for _, q := range s.queues {
		if segment := q.Segment(max(round, 1) - 1); segment != nil {
			pass = segment.Pass
		}
	}
	s.teller.queue = append(s.teller.queue, s.steps.close(round, pass)...)
	s.spawn(func() { _ = s.tellSteps() })
}
