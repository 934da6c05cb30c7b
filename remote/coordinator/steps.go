package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
)

// collector joins what the trainers report of a round into one step. Server.mu guards it; the values are merged by the teller.
//
// In sync mode a trainer reports a round when it knows that the round has committed, or when its generation has ended and the round may have; one
// that was given up and trained again counts once. Steps are told in order. One is complete when the rows of its reports are those of its batch;
// others are told as they are when the generation has ended in which they were trained.
type collector struct {
	sync, fed bool
	expected  map[uint64][]uint32                    // fed: the ranks that report a step
	rounds    map[uint64]map[uint32]*rpc.TrainerStep // of steps that were not told
	last      map[uint32]position                    // async: of the last report of each rank
	next      uint64                                 // sync, fed: the least step that may be told
	steps     uint64                                 // told, also by earlier coordinators
	pass      int32
}

// position is a step of a trainer in async mode.
type position struct{ generation, round uint64 }

// add takes one report and returns the steps that are complete with it, in order.
func (c *collector) add(m *rpc.TrainerStep) (out []joined) {
	if !c.sync && !c.fed {
		return c.addOne(m)
	}
	round := m.Id.Round
	if round < c.next {
		return nil // repeated, or too late
	}
	if c.rounds[round] == nil {
		c.rounds[round] = map[uint32]*rpc.TrainerStep{}
	}
	c.rounds[round][m.Id.Rank] = m
	for c.complete(c.next) {
		out = append(out, c.tell(c.next))
	}
	return out
}

// close returns what is left of the steps before round, when a generation begins with it or the job has ended after so many: they have committed, and
// nobody who lives has yet to report them. The last of them is told also when nobody has reported it, in the pass that is given, because the number
// of steps that were trained is that of the last, plus one. Reports of later rounds are void, because those have not committed.
func (c *collector) close(round uint64, pass int32) (out []joined) {
	if !c.sync {
		return nil
	}
	for _, r := range slices.Sorted(maps.Keys(c.rounds)) {
		if r >= round {
			delete(c.rounds, r)
			continue
		}
		out = append(out, c.tell(r))
	}
	if c.next < round {
		c.next, c.steps, c.pass = round, round, pass
		out = append(out, joined{step: &job.Step{Step: round - 1, Pass: pass}})
	}
	return out
}

// tell makes a step of its reports.
func (c *collector) tell(number uint64) joined {
	out := c.join(c.rounds[number], number)
	c.pass, c.next, c.steps = out.step.Pass, number+1, number+1
	delete(c.rounds, number)
	delete(c.expected, number)
	return out
}

// addOne takes a report of async mode: each is a step, unless it is repeated or comes from a process that another has followed.
func (c *collector) addOne(m *rpc.TrainerStep) []joined {
	last, ok := c.last[m.Id.Rank]
	if ok && (m.Id.Generation < last.generation || m.Id.Generation == last.generation && m.Id.Round <= last.round) {
		return nil
	}
	out := c.join(map[uint32]*rpc.TrainerStep{m.Id.Rank: m}, c.steps)
	c.last[m.Id.Rank] = position{m.Id.Generation, m.Id.Round}
	c.steps++
	c.pass = out.step.Pass
	return []joined{out}
}

// lacks returns a report of a round that only those have reported who did not know whether it would commit, and which of the names none of them has
// fetched.
func (c *collector) lacks(round uint64, names []string) (of *rpc.TrainerStep, lacking []string) {
	lacking = slices.Clone(names)
	for _, rank := range slices.Sorted(maps.Keys(c.rounds[round])) {
		r := c.rounds[round][rank]
		if !r.Pending {
			return nil, nil
		}
		if r.Rows > 0 && of == nil {
			of = r
		}
		for _, v := range r.Fetched {
			lacking = slices.DeleteFunc(lacking, func(name string) bool { return name == v.Name })
		}
	}
	if of == nil {
		return nil, nil
	}
	return of, lacking
}

// complete reports whether everyone who contributed to a step has reported it, and it has committed.
func (c *collector) complete(number uint64) bool {
	reports := c.rounds[number]
	if c.fed {
		for _, rank := range c.expected[number] {
			if reports[rank] == nil {
				return false
			}
		}
		return c.expected[number] != nil
	}
	rows, global := int64(0), int64(0)
	for _, r := range reports {
		if r.Pending {
			return false
		}
		rows += r.Rows
		global = r.GlobalRows
	}
	return rows == global && len(reports) > 0
}

// join makes one step of the reports of all ranks, in rank order.
func (c *collector) join(reports map[uint32]*rpc.TrainerStep, number uint64) joined {
	step := &job.Step{Step: number}
	var with []*rpc.TrainerStep
	global := int64(0)
	for _, rank := range slices.Sorted(maps.Keys(reports)) {
		r := reports[rank]
		step.Pass, step.Trainers = r.Pass, int32(r.Trainers)
		step.Rows += r.Rows
		global = r.GlobalRows
		if r.Rows > 0 || len(r.Fetched) > 0 {
			with = append(with, r)
		}
	}
	if c.sync {
		step.Rows, step.Unreported = global, global-step.Rows
	}
	return joined{step, with}
}

// progress says how far the job is.
func (c *collector) progress() string { return fmt.Sprintf("step %d of pass %d", c.steps, c.pass) }

// checkReport refuses a report that no trainer makes.
func checkReport(m *rpc.TrainerStep) error {
	if m.Rows < 0 || m.GlobalRows < m.Rows {
		return fault.E(fault.InvalidArgument, fault.Gotf("a report of %d of %d rows", m.Rows, m.GlobalRows))
	}
	return nil
}

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
		if segment := q.Segment(id.Round(max(round, 1) - 1)); segment != nil {
			pass = segment.Pass
		}
	}
	s.teller.queue = append(s.teller.queue, s.steps.close(round, pass)...)
	s.spawn(func() { _ = s.tellSteps() })
}

// Watch streams the steps from the watcher's position on: from the first one, unless it has watched this coordinator before. What is not kept any
// more is left out, and the numbers of the events tell how much that is.
func (s *Server) Watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	if err := s.checkJob(m.Job); err != nil {
		return err
	}
	select {
	case <-s.led:
	case <-stream.Context().Done():
		return gaveUp(stream.Context(), "the coordinator's start")
	}
	s.mu.Lock()
	fence := s.lead.Fence
	s.mu.Unlock()
	from := uint64(0)
	if m.Fence == fence {
		from = m.From
	}
	err := s.log.Read(stream.Context(), from, true, func(number uint64, e *job.Event) error {
		return stream.Send(&rpc.WatchResponse{Event: e, Number: number, Fence: fence})
	})
	if err == nil {
		s.hear()
	}
	return err
}

// Heard is closed when somebody has been told everything up to the end of the job. Whoever serves this coordinator should go on doing so for a while
// until then: a job may be over before its listener has found it.
func (s *Server) Heard() <-chan struct{} { return s.heard }
