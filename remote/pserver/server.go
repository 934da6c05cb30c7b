package pserver

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Config is what a Server is told about its job.
type Config struct {
	Identity      wire.Identity
	Index         int           // of this server
	Servers       int           // in the job
	Trainers      int           // in the job
	StartDeadline time.Duration // for the first message of every trainer
	RoundDeadline time.Duration // from the first message of a round to the last
	Workers       int           // optimize blocks that run at the same time; at least 1
	Peer          func(ctx context.Context, index int) (rpc.ParameterServerClient, error)
	Log           *slog.Logger
}

// Server is the parameter server: a gRPC service, and the ops.Server that listen_and_serv runs. Calls that arrive before the program serves
// wait for it.
type Server struct {
	rpc.UnimplementedParameterServerServer
	cfg Config

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever the state below changes
	failed   chan struct{} // closed when err is set
	err      error
	layout   *comm.Service // nil until the program serves
	blocks   ops.BlockRunner
	rounds   *Rounds  // sync
	updates  *Updates // async
	applied  uint64   // updates applied in async mode
	finished bool
	done     chan struct{} // closed when finished
	seen     []time.Time   // last message by rank
	started  bool          // every trainer has been heard of
	refused  map[string]uint64
	waits    map[int]wait
	nextWait int
	armed    *time.Timer

	inbox     inbox
	toApply   chan []Contributor
	published map[string]publication
	// values orders those who change variables, which hold it shared because they change different ones, and those who copy, which hold it alone.
	values sync.RWMutex
	queues map[string]chan delivery // async: one per gradient
}

var _ ops.Server = (*Server)(nil)

// New returns a server that waits for its program.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg: cfg, changed: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}), seen: make([]time.Time, cfg.Trainers),
		refused: map[string]uint64{}, waits: map[int]wait{}, toApply: make(chan []Contributor, 1), published: map[string]publication{},
	}
}

// Serve runs listen_and_serv: it opens the service on the program's variables and returns when every trainer has completed.
func (s *Server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	service, err := comm.ServiceOf(op)
	if err != nil {
		return err
	}
	l := &service
	box, err := newInbox(l, blocks)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.layout, s.blocks, s.inbox = l, blocks, box
	if l.Sync {
		s.rounds = NewRounds(s.cfg.Trainers, namesOf(l))
	} else {
		s.updates = NewUpdates(s.cfg.Trainers, namesOf(l))
	}
	s.armed = time.AfterFunc(s.cfg.StartDeadline, s.lateStart)
	s.broadcast()
	s.mu.Unlock()
	defer s.disarm()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var queues sync.WaitGroup
	if !l.Sync {
		s.startQueues(ctx, &queues)
	}
	err = s.serve(ctx)
	cancel()
	queues.Wait()
	if err != nil {
		s.fail(err)
	}
	return err
}

func (s *Server) serve(ctx context.Context) error {
	for {
		select {
		case shares := <-s.toApply:
			if err := s.applyRound(ctx, shares); err != nil {
				return err
			}
		case <-s.done:
			return nil
		case <-s.failed:
			return s.err
		case <-ctx.Done():
			return &fault.Fault{Kind: fault.Canceled, Where: s.where(), Err: context.Cause(ctx)}
		}
	}
}

// obey carries out what a decision of the round machine demands. s.mu is held.
func (s *Server) obey(d Decision) {
	switch {
	case d.Apply:
		s.disarmLocked()
		s.toApply <- d.Shares // never blocks: at most one round is being applied
	case d.Finished:
		s.finish()
	}
	s.broadcast()
}

func (s *Server) finish() {
	if !s.finished {
		s.finished = true
		s.disarmLocked()
		close(s.done)
	}
}

// hear notes a message of a trainer. s.mu is held.
func (s *Server) hear(rank uint32) {
	if int(rank) < len(s.seen) {
		s.seen[rank] = time.Now()
	}
}

// heardAll reports whether every trainer has sent something. s.mu is held.
func (s *Server) heardAll() bool {
	for _, t := range s.seen {
		if t.IsZero() {
			return false
		}
	}
	return true
}

// arm starts the deadline of a round with its first message. s.mu is held.
func (s *Server) arm() {
	if s.armed == nil && s.started {
		s.armed = time.AfterFunc(s.cfg.RoundDeadline, s.lateRound)
	}
}

func (s *Server) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disarmLocked()
}

func (s *Server) disarmLocked() {
	if s.armed != nil {
		s.armed.Stop()
		s.armed = nil
	}
}

// lateStart is called when the start deadline has passed.
func (s *Server) lateStart() {
	s.mu.Lock()
	s.armed = nil
	var absent []int
	for rank, t := range s.seen {
		if t.IsZero() {
			absent = append(absent, rank)
		}
	}
	err := s.missingFault("the start of the job", absent, s.cfg.StartDeadline)
	s.mu.Unlock()
	if len(absent) > 0 {
		s.fail(err)
	}
}

// lateRound is called when a round has not become complete in time.
func (s *Server) lateRound() {
	s.mu.Lock()
	s.armed = nil
	missing := s.rounds.Missing()
	err := s.missingFault("round "+itoa(s.rounds.Round()), missing, s.cfg.RoundDeadline)
	s.mu.Unlock()
	if len(missing) > 0 {
		s.fail(err)
	}
}

// Exchange publishes own for the current round and returns what every server published under the same name.
func (s *Server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	return s.exchange(ctx, name, own, all)
}
