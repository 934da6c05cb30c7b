package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// Config is what a Server is told about its job.
type Config struct {
	Identity       wire.Identity
	Program        *program.Program // of the trainers, to know which feeds are batched
	Trainers       int
	Sync           bool
	Interactive    bool // fed by a user instead of reading its own data
	Passes         int
	RecordsPerTask int64
	MaxFailures    int // of a task
	StartDeadline  time.Duration
	TaskTimeout    [2]time.Duration // least and most
	// Merge makes one list of values of what several trainers fetched in one step.
	Merge func(reports []*rpc.TrainerStep) ([]*job.Value, error)
	Log   *slog.Logger
}

// The history of steps that a late watcher can still read holds at most so many, and so many bytes of what they fetched.
const (
	maxEvents     = 1 << 16
	maxEventBytes = 256 << 20
)

// Server is the coordinator: a gRPC service over the queues, the feeds and the steps of one job.
type Server struct {
	rpc.UnimplementedCoordinatorServer
	cfg   Config
	start time.Time
	log   *history.Log[*job.Event]

	mu       sync.Mutex
	changed  chan struct{}
	err      error // why the job has failed
	joined   map[uint32]bool
	left     map[uint32]bool
	done     chan struct{} // closed when all trainers have left or the job has failed
	ended    bool
	reports  map[string]*rpc.Dataset
	queues   map[string]*Queue
	requests map[uint32]*request // the last of each rank to GetTask
	timers   taskTimers
	saver    *uint32
	steps    collector
	feeds    feeds
	fed      uint64               // feeds accepted
	answered uint64               // feeds before this one have been answered and forgotten
	results  map[uint64]*job.Step // of feeds
	waits    map[*string]time.Time
}

// New returns a coordinator.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg: cfg, start: time.Now(), log: history.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }), changed: make(chan struct{}), done: make(chan struct{}),
		joined: map[uint32]bool{}, left: map[uint32]bool{}, reports: map[string]*rpc.Dataset{}, queues: map[string]*Queue{}, requests: map[uint32]*request{}, timers: taskTimers{},
		steps: collector{trainers: cfg.Trainers, shared: cfg.Sync || cfg.Interactive, expected: map[uint64][]int{}, last: map[uint32]uint64{},
			merge: cfg.Merge, rounds: map[uint64][]*rpc.TrainerStep{}},
		feeds: newFeeds(cfg.Trainers), results: map[uint64]*job.Step{}, waits: map[*string]time.Time{},
	}
}

// Run serves until every trainer has left, and returns why the job failed, if it did. Watchers are told the end before Run returns.
func (s *Server) Run(ctx context.Context) error {
	timer := time.AfterFunc(s.cfg.StartDeadline, s.lateStart)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.Fail(&fault.Fault{Kind: fault.Canceled, Where: "coordinator", Err: context.Cause(ctx)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.timers.stopAll()
	close(s.done)
	s.broadcast()
}

// lateStart ends a job whose trainers are not all there in time, naming those who are missing.
func (s *Server) lateStart() {
	if missing := s.absent(); missing != "" {
		s.Fail(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Got: fmt.Sprintf("no word of %s within %v", missing, s.cfg.StartDeadline),
			Want: fmt.Sprintf("%d trainers", s.cfg.Trainers), Hint: "look at their logs, or raise start_deadline"})
	}
}

// absent names the trainers that have not joined.
func (s *Server) absent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for rank := range s.cfg.Trainers {
		if !s.joined[uint32(rank)] {
			names = append(names, fmt.Sprintf("trainer %d", rank))
		}
	}
	return strings.Join(names, ", ")
}

// Lost tells that a trainer's lease has ended without its having left.
func (s *Server) Lost(rank uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.left[rank] {
		s.finish(&fault.Fault{Kind: fault.LostMember, Where: "coordinator", Got: fmt.Sprintf("no sign of life of trainer %d in %s", rank, s.progress()),
			Want: "a living trainer", Hint: "look at its log: edl logs JOB trainer-" + fmt.Sprint(rank)})
	}
}

// progress says how far the job is. s.mu is held.
func (s *Server) progress() string {
	return fmt.Sprintf("step %d of pass %d", s.steps.steps, s.steps.pass)
}

func (s *Server) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await blocks until ok, which is called with s.mu held, is true, the job has ended, or ctx has. Once the job has failed it returns why: nobody
// goes on then.
func (s *Server) await(ctx context.Context, reason string, ok func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waits[&reason] = time.Now()
	defer delete(s.waits, &reason)
	for {
		switch {
		case s.err != nil:
			return s.err
		case ok():
			return nil
		case s.ended:
			return &fault.Fault{Kind: fault.Stale, Where: "coordinator", Got: "the end of the job while waiting for " + reason}
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if err := ctx.Err(); err != nil {
			kind := fault.Canceled
			if errors.Is(err, context.DeadlineExceeded) {
				kind = fault.DeadlineExceeded
			}
			return &fault.Fault{Kind: kind, Where: "coordinator", Got: "no end of waiting for " + reason, Err: err}
		}
	}
}

// checkJob refuses a question about another job.
func (s *Server) checkJob(id string) error {
	if id != s.cfg.Identity.Job {
		return &fault.Fault{Kind: fault.Foreign, Got: "job " + fault.Quote(id), Want: "job " + s.cfg.Identity.Job}
	}
	return nil
}

// admit checks who speaks.
func (s *Server) admit(id *rpc.Identity) error {
	if err := s.cfg.Identity.Check(id); err != nil {
		return err
	}
	if int(id.Rank) >= s.cfg.Trainers {
		return &fault.Fault{Kind: fault.Foreign, Got: fmt.Sprintf("trainer %d", id.Rank), Want: fmt.Sprintf("trainers 0 to %d", s.cfg.Trainers-1)}
	}
	return nil
}
