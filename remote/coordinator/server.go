package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/eventlog"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The history of steps that a late watcher can still read holds at most so many, and so many bytes of what they fetched.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// Server is the coordinator: a gRPC service over the members, the queues, the feeds and the steps of one job. Calls wait until Run has read what is
// durable.
type Server struct {
	rpc.UnimplementedCoordinatorServer
	cfg   Config
	epoch time.Time // of the times of queues
	log   *eventlog.Log[*job.Event]
	ops   chan *op       // to the goroutine that commits
	led   chan struct{}  // closed when lead is known
	done  chan struct{}  // closed when the job has ended
	tasks sync.WaitGroup // goroutines of Run
	// reread says that a commit has failed, so that it is not known what is durable. It belongs to the goroutine that commits.
	reread bool

	mu       sync.Mutex
	changed  chan struct{} // closed when something has changed
	ready    bool          // what is durable has been read
	ended    bool
	err      error // why the job has failed
	lead     Lead
	ctx      context.Context // of Run
	machine  *generation.Machine
	changing context.Context    // of the effects of the change that is under way
	change   context.CancelFunc // gives them up
	members  memory
	queues   map[string]*queue.Queue // as they are durable
	steps    collector
	teller   teller
	feeds    feeds
	fed      uint64               // feeds accepted
	answered uint64               // feeds before this one have been answered and forgotten
	results  map[uint64]*job.Step // of feeds
	waits    map[*waiting]bool
	heard    chan struct{} // closed by hear
	hear     func()
	bereft   map[int]bool // servers that are lost for this history of the job
}

// New returns a coordinator.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.FollowEvery = cmp.Or(cfg.FollowEvery, followEvery)
	heard := make(chan struct{})
	return &Server{
		cfg: cfg, epoch: time.Now(), log: eventlog.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }),
		ops: make(chan *op), changed: make(chan struct{}), led: make(chan struct{}), done: make(chan struct{}),
		members: memory{reasons: map[uint32]string{}, drained: map[uint32]bool{}, losses: map[uint32]int{}}, queues: map[string]*queue.Queue{},
		steps: collector{sync: cfg.Sync && !cfg.Fed, fed: cfg.Fed, expected: map[uint64][]uint32{}, last: map[uint32]position{},
			rounds: map[uint64]map[uint32]*rpc.TrainerStep{}},
		feeds: newFeeds(cfg.Trainers), results: map[uint64]*job.Step{}, waits: map[*waiting]bool{}, bereft: map[int]bool{},
		heard: heard, hear: sync.OnceFunc(func() { close(heard) }),
	}
}

// Run coordinates until every trainer has left, and returns why the job failed, if it did. Watchers are told the end before Run returns. It is called
// once.
func (s *Server) Run(ctx context.Context, lead Lead) error {
	s.locked(func() { s.lead = lead })
	close(s.led)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.Fail(fault.E(fault.Canceled, fault.At("coordinator"), fault.Cause(context.Cause(ctx)))) })
	defer stop()
	if err := s.begin(ctx, lead); err != nil {
		s.Fail(err)
	} else {
		s.tasks.Go(s.commits)
		s.tasks.Go(s.keepTime)
		s.tasks.Go(s.keepTasks)
		for name, globs := range s.cfg.Follow {
			s.tasks.Go(func() { s.follow(name, globs) })
		}
	}
	<-s.done
	cancel()
	s.tasks.Wait()
	err := s.tellSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil { // the last step may be found impossible to tell when all else has ended well
		s.err = err
	}
	state := job.State_SUCCEEDED
	if s.err != nil {
		state = job.State_FAILED
	}
	s.log.Add(&job.Event{What: &job.Event_Status{Status: &job.JobStatus{Job: s.cfg.Identity.Job, State: state, Failure: wire.FailureOf(s.err)}}})
	s.log.End()
	return s.err
}

// Fail ends the job with err. Only the first call counts; later ones, and calls after the end, change nothing.
func (s *Server) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(err)
}

// finish ends the job. s.mu is held.
func (s *Server) finish(err error) {
	if s.ended {
		return
	}
	s.ended, s.err = true, err
	close(s.done)
	s.broadcast()
}

// spawn runs f until the job ends; f must end with ctx. s.mu is held.
func (s *Server) spawn(f func()) {
	if !s.ended {
		s.tasks.Go(f)
	}
}

func (s *Server) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// now is the time argument of the queues.
func (s *Server) now() time.Duration { return time.Since(s.epoch) }

// waiting is a call that waits.
type waiting struct {
	who, what string
	by        func() []string // called with Server.mu held; nil: nobody in particular
	idle      string          // what is waited for while by names nobody; empty: what
	since     time.Time
	until     time.Time // when the job fails; zero: not because of this
}

// await blocks until ok, which is called with s.mu held, is true or fails, the job has ended, or ctx has. Once the job has failed it returns why:
// nobody goes on then.
func (s *Server) await(ctx context.Context, w waiting, ok func() (bool, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.since.IsZero() {
		w.since = time.Now()
	}
	s.waits[&w] = true
	defer delete(s.waits, &w)
	for {
		if s.err != nil {
			return passing(s.err)
		}
		if done, err := ok(); done || err != nil {
			return err
		}
		if s.ended {
			return fault.E(fault.Stale, fault.At("coordinator"), fault.Got("the end of the job while waiting for "+w.what))
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return gaveUp(ctx, w.what)
		}
	}
}

// passing is what a caller is told of the end of this coordinator. One that has lost its lock, or is told to end, is not the end of the job: another
// start of it will answer the same call.
func passing(err error) error {
	if errors.Is(err, fault.Fenced) || errors.Is(err, fault.Canceled) {
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("the end of this coordinator"), fault.Want("the next one"),
			fault.Cause(err))
	}
	return err
}

// gaveUp is the error of a call whose context has ended.
func gaveUp(ctx context.Context, what string) error {
	kind := fault.Canceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = fault.DeadlineExceeded
	}
	return fault.E(kind, fault.At("coordinator"), fault.Got("no end of waiting for "+what), fault.Cause(ctx.Err()))
}

// waitsNow tells what is waited for: first by the job, then by callers who do not wait for that alone. s.mu is held.
func (s *Server) waitsNow() (out []*job.Wait) {
	if s.ended || !s.ready {
		return nil
	}
	if w, ok := s.machine.Wait(); ok {
		out = append(out, &job.Wait{Who: "coordinator", What: w.What, By: w.By, Since: timestamppb.New(w.Since), Until: timestamppb.New(w.Until),
			LastError: w.LastError})
	}
	for w := range s.waits {
		if w.by == nil {
			continue
		}
		said := &job.Wait{Who: w.who, What: w.what, By: w.by(), Since: timestamppb.New(w.since)}
		if !w.until.IsZero() {
			said.Until = timestamppb.New(w.until)
		}
		if len(said.By) == 0 && w.idle != "" {
			said.What = w.idle
		}
		out = append(out, said)
	}
	return out
}

func trainerName(rank uint32) string { return fmt.Sprintf("trainer %d", rank) }

// keepTasks returns tasks whose time is over to their queues, until the job ends.
func (s *Server) keepTasks() {
	for {
		s.mu.Lock()
		changed := s.changed
		var names []string
		next := time.Duration(-1)
		for name, q := range s.queues {
			if at, _, ok := q.Next(); ok && (next < 0 || at < next) {
				next = at
			}
			names = append(names, name)
		}
		now := s.now()
		s.mu.Unlock()
		if next >= 0 && next <= now {
			slices.Sort(names)
			for _, name := range names {
				if !s.expire(name) {
					return
				}
			}
			continue
		}
		if !s.sleep(next-now, next >= 0, changed) {
			return
		}
	}
}

// expire returns the tasks of a queue whose time is over. It returns false when the job has ended.
func (s *Server) expire(name string) bool {
	q := s.copyQueues()[name]
	ctx, cancel := context.WithTimeout(s.ctx, ledgerTime)
	defer cancel()
	committed, err := s.committed(ctx, q.Pass(), 0)
	if err == nil {
		pass := q.Pass()
		err = s.transact(ctx, func(t *txn) error {
			for {
				q, err := t.queue(name)
				if err != nil {
					return err
				}
				at, e, ok := q.Next()
				if !ok || at > s.now() || q.Pass() != pass {
					return nil
				}
				e.Committed = committed
				if _, err := t.step(name, e); err != nil {
					return err
				}
			}
		})
	}
	if err == nil {
		return true
	}
	if s.ctx.Err() == nil {
		s.cfg.Log.Warn("tasks whose time is over stay where they are", "dataset", name, "reason", err.Error())
	}
	return s.sleep(time.Second, true, nil)
}

// keepTime tells the membership of deadlines, until the job ends.
func (s *Server) keepTime() {
	for {
		s.mu.Lock()
		changed := s.changed
		at, ok := s.machine.Deadline()
		if ok && !time.Now().Before(at) {
			_ = s.step(generation.Tick{})
			at, ok = s.machine.Deadline()
		}
		s.mu.Unlock()
		if !s.sleep(time.Until(at), ok, changed) {
			return
		}
	}
}

// sleep waits for a time, if it is limited, or a change. It returns false when the job has ended.
func (s *Server) sleep(d time.Duration, limited bool, changed <-chan struct{}) bool {
	var passed <-chan time.Time
	if limited {
		timer := time.NewTimer(max(d, 0))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-passed:
	case <-changed:
	case <-s.done:
		return false
	}
	return true
}
