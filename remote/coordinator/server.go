package coordinator

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/wire"
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
	log   *history.Log[*job.Event]
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
		cfg: cfg, epoch: time.Now(), log: history.NewSized(maxEvents, maxEventBytes, func(e *job.Event) int { return proto.Size(e) }),
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
