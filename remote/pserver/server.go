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
	Identity    wire.Identity // its Generation and Fence are not used: coordinators tell them
	Index       int           // of this server
	Servers     int           // in the job
	MaxTrainers int           // ranks are less
	// for a coordinator to begin a generation, the first one or another one after it has ended the last
	StartDeadline time.Duration
	RoundDeadline time.Duration                                      // from the first message of a round to the last
	Workers       int                                                // optimize blocks that run at the same time; at least 1
	Peer          func(index int) (rpc.ParameterServerClient, error) // the client of another server; it does not wait
	Log           *slog.Logger
}

// Server is the parameter server: a gRPC service, and the ops.Server that listen_and_serv runs. Calls that arrive before the program serves
// wait for it, and messages of trainers that arrive before the generation that they are of begins wait for that.
type Server struct {
	rpc.UnimplementedParameterServerServer
	cfg Config

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever the state below changes
	failed   chan struct{} // closed when err is set
	err      error
	layout   *comm.Service // nil until the program serves
	blocks   ops.BlockRunner
	machine  machine // rounds or updates, nil until the program serves
	rounds   *Rounds // sync, else nil
	updates  *Updates
	ledger   *Ledger // nil but on server 0
	applied  uint64  // updates applied in async mode
	finished bool
	done     chan struct{} // closed when finished
	free     bool          // released is closed
	released chan struct{} // closed when a coordinator knows that it is finished, or there is none
	seen     []time.Time   // last message by rank
	refused  map[string]uint64
	waits    map[int]wait // of calls
	nextWait int
	own      deadline // what the server itself waits for
	freezes  int      // how often a coordinator has ended a generation
	bytes    int64    // of what lives here from round to round

	inbox     inbox
	toApply   chan []Contributor
	published map[string]publication
	partials  map[int]int // exchanges under way, by the server whose partial sums are awaited
	// values orders those who change variables, which hold it shared because they change different ones, and those who copy, which hold it alone.
	values   sync.RWMutex
	updaters map[string]*updater               // async: by contribution
	arrival  sync.Mutex                        // async: held from the decision on a contribution until the tick that it asked for has ended
	tick     func(rank int, step uint64) error // async: runs the learning-rate block
}

var _ ops.Server = (*Server)(nil)

// New returns a server that waits for its program.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		cfg: cfg, changed: make(chan struct{}), failed: make(chan struct{}), done: make(chan struct{}), released: make(chan struct{}),
		seen: make([]time.Time, cfg.MaxTrainers), refused: map[string]uint64{}, waits: map[int]wait{}, toApply: make(chan []Contributor, 1),
		published: map[string]publication{}, partials: map[int]int{},
	}
}

// Released is closed when nobody will ask this server anything any more, which may be some time after Serve has returned well: a coordinator has said
// that the job has no members, or none has for the start deadline.
func (s *Server) Released() <-chan struct{} { return s.released }

// Serve runs listen_and_serv: it opens the service on the program's variables and returns when every member of the generation has completed. However
// it ends, nobody waits for this server afterwards.
func (s *Server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	if err := s.run(ctx, op, blocks); err != nil {
		s.Fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Server) run(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	service, err := comm.ServiceOf(op)
	if err != nil {
		return err
	}
	layout := &service
	box, err := newInbox(layout, blocks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { // a round that waits for other servers ends with the deadline
		select {
		case <-s.failed:
			cancel()
		case <-ctx.Done():
		}
	})

	s.mu.Lock()
	s.layout, s.blocks, s.inbox = layout, blocks, box
	for _, slice := range layout.Slices {
		if t, ok := blocks.Variable(slice.Name); ok {
			s.bytes += t.Bytes()
		}
	}
	if s.cfg.Index == 0 {
		s.ledger = &Ledger{}
	}
	if layout.Sync {
		s.rounds = NewRounds(s.cfg.MaxTrainers, namesOf(layout))
		s.machine = s.rounds
	} else {
		s.updates = NewUpdates(s.cfg.MaxTrainers, namesOf(layout))
		s.machine = s.updates
		s.startUpdaters(ctx, &group)
	}
	s.broadcast()
	s.mu.Unlock()
	return s.serve(ctx)
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
			return fault.E(fault.Canceled, fault.At(s.where()), fault.Cause(context.Cause(ctx)))
		}
	}
}

// obey carries out what a decision demands, but for what needs the call's own data. s.mu is held.
func (s *Server) obey(d Decision) {
	if d.Drop {
		s.inbox.recycle()
	}
	switch {
	case d.Apply:
		s.toApply <- d.Shares // never blocks: at most one round is being applied
	case d.Finished:
		s.finish()
	}
	s.broadcast()
}

// Exchange publishes own for the current round and returns what every server published under the same name.
func (s *Server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	return s.exchange(ctx, name, own, all)
}
