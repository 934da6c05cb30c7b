package coordinator

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
)

// The log of events that a late watcher can still read holds at most so many, and so many bytes of what they fetched.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// steps makes one log of events of what the trainers report.
//
//	report --> collector: complete? --> stepWriter: merges values, in order --> log --> watchers
//	                                                                       `-> feeds: the answer to whoever fed the step
type steps struct {
	*core
	store   *store
	members *members
	feeds   *feeds

	log       *eventlog.Log[*job.Event]
	collector collector
	debts     debts
	reading   queue.Reading
	writer    stepWriter
	hear      func() // somebody has been told everything up to the end of the job
}

// stepWriter merges values and writes steps, in the order of its queue. It merges without the monitor, because values may be large, and others should not
// wait for them.
type stepWriter struct {
	turn  sync.Mutex // held by the one who writes; taken before the monitor
	queue []joined   // guarded by the monitor
	err   error      // why there are not more; guarded by the monitor
}

func newSteps(c *core) *steps {
	c.heard, c.told = make(chan struct{}), make(chan struct{}, 1)
	return &steps{core: c, log: eventlog.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }),
		collector: newCollector(c.cfg), reading: readingOf(c.cfg.Program), hear: sync.OnceFunc(func() { close(c.heard) })}
}

// written is how many steps were written, also by earlier coordinators. The monitor is held.
func (s *steps) written() uint64 { return uint64(s.collector.steps) }

// restore counts on from what earlier coordinators have written. The monitor is held.
func (s *steps) restore(written uint64) { s.collector.steps = max(s.collector.steps, id.Step(written)) }

// reported is one more than the last step that a trainer has reported, 0 for none that is not written. The monitor is held.
func (s *steps) reported() (steps uint64) {
	for round := range s.collector.rounds {
		steps = max(steps, uint64(round)+1)
	}
	return steps
}

// report takes what a trainer fetched in some steps, and returns when every step that is complete with them was written. The reports are refused
// together or taken together, at one moment. Each counts as if it had come alone. So a sender that has no answer sends all of them again.
func (s *steps) report(m *rpc.TrainerSteps) error {
	if len(m.Steps) == 0 {
		return nil
	}
	for _, step := range m.Steps {
		if err := checkReport(step, s.cfg.Backup); err != nil {
			return err
		}
		if step.Id == nil {
			step.Id = &rpc.Identity{}
		}
		step.Id.Job, step.Id.ProgramHash = m.Id.Job, m.Id.ProgramHash
		step.Id.Generation, step.Id.Rank, step.Id.Retry, step.Id.Fence = m.Id.Generation, m.Id.Rank, m.Id.Retry, m.Id.Fence
	}
	s.locked(func() {
		complete := len(s.writer.queue)
		for _, step := range m.Steps {
			s.take(step)
		}
		if len(s.writer.queue) > complete {
			_ = s.members.step(generation.Progressed{})
			s.wake()
		}
	})
	return s.write()
}

// wake wakes those who wait for the end of a step. The monitor is held.
func (s *steps) wake() {
	if s.awaitsStep > 0 {
		s.monitor.Broadcast()
	}
}

// take takes one report, and queues the steps that are complete with it. The monitor is held.
func (s *steps) take(m *rpc.TrainerStep) {
	switch {
	case s.goesBack, s.cfg.late(m.Id.Generation): // the step is trained again
	case s.cfg.Fed && m.GlobalRows == 0:
		s.feeds.readReported(m)
	case m.Pending && !s.mayCount(m.Id):
	default:
		complete := s.collector.add(m)
		for _, next := range complete {
			noteDropped(s, next, id.Generation(m.Id.Generation))
		}
		s.writer.queue = append(s.writer.queue, complete...)
	}
}

// mayCount reports whether a pending report can count: its round has committed, or the next generation will tell whether it has. An older report does not
// count, because nobody knows any more where its generation ended, unless the placement changed next: that is known. The monitor is held.
func (s *steps) mayCount(who *rpc.Identity) bool {
	g, from, moved := s.members.machine.Generation(), wire.SenderOf(who), s.cfg.Placed
	return from.Generation == g.Number || from.Generation+1 == g.Number && from.Round < g.Round ||
		from.Generation+1 == id.Generation(moved.GetGeneration()) && from.Round < id.Round(moved.GetRound())
}

// begun closes the steps before the first round of a generation that begins: they have committed. The monitor is held.
func (s *steps) begun(round id.Round) {
	s.collector.void(round)
	s.close(round)
}

// close has what is left of the steps before a round written; see collector.close. The monitor is held.
func (s *steps) close(round id.Round) {
	if !s.cfg.Sync {
		return
	}
	pass := s.collector.pass
	for _, q := range s.store.queues {
		if segment := q.Segment(max(round, 1) - 1); segment != nil {
			pass = segment.Pass
		}
	}
	s.queueToWrite(s.collector.close(round, pass))
}

// reopen is begun for a fed job: the last step before the round stays open until close. The monitor is held.
func (s *steps) reopen(round id.Round) {
	s.collector.void(round)
	s.queueToWrite(s.collector.reopen(round))
}

// goOn makes a step the next one that is written; see collector.goOn. The monitor is held.
func (s *steps) goOn(next id.Round) { s.queueToWrite(s.collector.goOn(next)) }

// queueToWrite has steps written that no report waits for. The monitor is held.
func (s *steps) queueToWrite(steps []joined) {
	s.writer.queue = append(s.writer.queue, steps...)
	if len(steps) > 0 {
		s.spawn(func() { _ = s.write() })
	}
}

// write writes the steps in the queue. When it returns, all steps that were in the queue before the call are written, some perhaps by another caller. If
// values cannot be merged, the job ends, and every call returns that error.
func (s *steps) write() error {
	s.writer.turn.Lock()
	defer s.writer.turn.Unlock()
	for {
		next, err := s.nextToWrite()
		if next == nil {
			return err
		}
		if len(next.from) > 0 {
			next.step.Fetched, err = s.cfg.Merge(next.from)
		}
		s.locked(func() {
			if err != nil {
				s.writer.err = err
				s.finish(err) // every trainer would say the same again
				return
			}
			s.log.Add(&job.Event{What: &job.Event_Step{Step: next.step}})
			s.feeds.trained(next)
		})
	}
}

// nextToWrite takes the next step out of the queue: nil when there is none, or an error has ended the writing.
func (s *steps) nextToWrite() (*joined, error) {
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.writer.err != nil || len(s.writer.queue) == 0 {
		return nil, s.writer.err
	}
	next := s.writer.queue[0]
	s.writer.queue[0] = joined{}
	s.writer.queue = s.writer.queue[1:]
	return &next, nil
}

// end writes what is left and then the last event of the log, which has the progress, and returns why the job has failed. progress is called with the
// monitor held.
func (s *steps) end(progress func() *job.Progress) error {
	err := s.write()
	s.monitor.Lock()
	defer s.monitor.Unlock()
	if s.err == nil { // the last step may be found impossible to merge when all else has ended well
		s.err = err
	}
	s.log.Add(&job.Event{What: &job.Event_Status{Status: s.lastStatus(progress())}})
	s.log.End()
	return s.err
}

// lastStatus says how the job has ended. The monitor is held.
func (s *steps) lastStatus(progress *job.Progress) *job.JobStatus {
	state := job.State_SUCCEEDED
	if s.err != nil {
		state = job.State_FAILED
	}
	return &job.JobStatus{Job: s.cfg.Identity.Job, State: state, Failure: wire.FailureOf(s.err), Progress: progress}
}

// watch streams the events from the watcher's position on. A watcher that has not watched this coordinator before begins with the first event. Events that
// the log does not keep any more are left out; the numbers of the others tell how many.
func (s *steps) watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	select {
	case <-s.led:
	case <-stream.Context().Done():
		return gaveUp(stream.Context(), "the coordinator's start")
	}
	var fence uint64
	s.locked(func() { fence = uint64(s.lead.Fence) })
	from := uint64(0)
	if m.Fence == fence {
		from = m.From
	}
	err := s.log.ReadBatches(stream.Context(), from, s.cfg.TellEvery, func(number uint64, events []*job.Event) error {
		return stream.Send(&rpc.WatchResponse{Events: events, Number: number, Fence: fence, History: s.cfg.Back.GetHistory()})
	})
	if err == nil {
		s.hear()
	}
	return err
}
