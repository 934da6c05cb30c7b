package pserver

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// Config is what a Server is told about its job.
type Config struct {
	Identity    wire.Identity // its Generation and Fence are not used: coordinators tell them
	Index       int           // of this server
	Servers     int           // in the job
	MaxTrainers int           // ranks are less
	// Start is the version of the parameters that the program begins with: 0 for initial values, R for values that R rounds of training have made. In
	// sync mode the first round is Start. In async mode Start is the number of updates that the server reports at first.
	Start id.Round
	// History is, of a server that was started in the place of a lost one, the history that begins with the state of a checkpoint, which a
	// coordinator is to give it. 0: the job goes on with the values that the program begins with.
	History uint64
	// Before is what the servers of another placement keep, if this server is of one that the job may change to: it has no state before a coordinator tells
	// it to take theirs. nil: it begins with the values of its program.
	Before []*job.Held
	After  uint64  // number of that placement
	Same   *Server // of this process in that placement; nil: none, or nobody needs it any more. Who has the token of core.moving uses it
	// StartDeadline limits how long the server waits for a coordinator to begin a generation: the first one, or another one after the end of the
	// last.
	StartDeadline time.Duration
	RoundDeadline time.Duration                                      // from the first message of a round to the last
	CutDeadline   time.Duration                                      // for writing the server's part of a checkpoint; 0: 10 minutes
	Workers       int                                                // optimize blocks that run at the same time; at least 1
	Peer          func(index int) (rpc.ParameterServerClient, error) // the client of another server; it does not wait
	Data          *dataplane.Acceptor                                // of contributions and parameters; nil: they come over gRPC
	// Backup is how many contributions a round may lack. Sync mode, with Data, without groups.
	Backup int
	// DayRounds is how many steps of a trainer take a day, in async mode; 0: the clock says the hour of an update. See ops.HourOf.
	DayRounds int64
	// Standby says that the server has a standby. With Data.
	Standby bool
	Follows *Follows         // the server is the standby of another process, which is the server Index of the job; nil: it is the server itself
	Ledger  *Ledger          // of server 0: what the values that the program begins with were computed from; nil: empty
	Times   *timing.Recorder // notes the phases of its rounds; may be nil
	Log     *slog.Logger
}

// Server is the parameter server: a gRPC service, and the ops.Server that listen_and_serv runs. Calls that arrive before the program serves wait for
// it, and messages of trainers that arrive before their generation begins wait for that.
type Server struct {
	unimplemented
	pacer
	sharer
	lender
	core *core

	// These are written once, before the program serves.
	values   *values
	exchange *exchange
	updaters *updaters // nil in sync mode
	cuts     *cuts
	served   servedTables
	tables   tables
	sums     *blockSums
	bytes    int64         // of what lives here from round to round
	told     chan struct{} // has a token when somebody has been told the last ledger

	stretches []*stretch // of a server of a next placement: what it takes of the one before; nil before it is known. Who has the token of core.moving uses it
}

// unimplemented answers calls that a server does not know. A method of pacer comes before its own of the same name.
type unimplemented struct {
	rpc.UnimplementedParameterServerServer
}

var (
	_ ops.Server                = (*Server)(nil)
	_ rpc.ParameterServerServer = (*Server)(nil)
)

// New returns a server that waits for its program.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.CutDeadline = cmp.Or(cfg.CutDeadline, cutDeadline)
	c := newCore(cfg)
	s := &Server{pacer: pacer{c}, sharer: sharer{c}, core: c, told: make(chan struct{}, 1)}
	s.lender = lender{s}
	return s
}

// Released is closed when nobody will ask this server anything any more, which may be some time after Serve has returned well: a coordinator has said
// that the job has no members, or none has for the start deadline.
func (s *Server) Released() <-chan struct{} { return s.core.released }

// Told has a token when somebody has been told the last ledger of a server. Whoever serves calls to server 0 should go on doing so for a moment until then:
// a job may be over before its listener has found it.
func Told(s *Server) <-chan struct{} { return s.told }

// Serves waits until the program of a server serves.
func Serves(ctx context.Context, s *Server) error { return s.core.serves(ctx) }

// Fail ends the server with err, unless it has ended already: everyone who waits for it, and everyone who calls it from now on, is told err.
func (s *Server) Fail(err error) {
	s.core.Lock()
	defer s.core.Unlock()
	s.core.end(err)
}

// Exchange publishes own for the round that is being applied, and fills all with what every server publishes under the same name. A block of that
// round calls it.
func (s *Server) Exchange(ctx context.Context, name string, own *tensor.Tensor, all []*tensor.Tensor) error {
	return s.exchange.run(ctx, name, own, all)
}

// Serve runs listen_and_serv: it opens the service on the program's variables and returns when every member of the generation has completed. However
// it ends, nobody waits for this server afterwards. One that ends with ctx tells others that it is gone, as a connection does that breaks: another process may
// take its place, and they go on with that.
func (s *Server) Serve(ctx context.Context, op *program.Op, blocks ops.BlockRunner) error {
	if err := run(ctx, s, op, blocks); err != nil {
		s.Fail(err)
	}
	s.core.Lock()
	defer s.core.Unlock()
	if s.core.canceled != nil {
		return s.core.canceled
	}
	return s.core.Err()
}

func run(ctx context.Context, s *Server, op *program.Op, blocks ops.BlockRunner) error {
	service, err := comm.ServiceOf(op)
	if err != nil {
		return err
	}
	box, err := newInbox(&service, blocks)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() { // ends a round that waits for other servers when the server fails
		select {
		case <-s.core.ended:
			cancel()
		case <-ctx.Done():
		}
	})
	if err := open(ctx, s, &service, box, blocks); err != nil {
		return err
	}
	workers := s.core.cfg.Workers
	if box.bytes() < worthSharing {
		workers = 1
	}
	by := &stepper{service: &service, values: s.values, inbox: &s.core.inbox, mirror: s.core.mirror, sums: s.sums, workers: workers, times: s.core.cfg.Times}
	if s.core.standby != nil {
		if err := followServer(ctx, s, by); err != nil {
			return err
		}
	}
	s.updaters.start(ctx, &group)
	return applyRounds(ctx, s, &group, by)
}

// open lets calls in: trainers and coordinators only where the server is no standby.
func open(ctx context.Context, s *Server, service *comm.Service, box inbox, blocks ops.BlockRunner) (err error) {
	c := s.core
	c.Lock()
	defer c.Unlock()
	c.inbox = box
	s.values = &values{BlockRunner: blocks}
	if c.cfg.Standby {
		if c.mirror, err = newMirror(c, service, s.values); err != nil {
			return err
		}
	}
	s.exchange, s.sums = &exchange{core: c, values: s.values}, newSums(service, s.values)
	if s.values.freezer, err = newFreezer(service, s.values, s.sums); err != nil {
		return err
	}
	s.cuts, s.served = newCuts(service, s.values.freezer), servedTablesOf(service, blocks)
	for _, slice := range service.Slices {
		if t, ok := blocks.Variable(slice.Name); ok {
			s.bytes += t.Bytes()
			if service.ComesIntoUse(slice) {
				tensor.SmallPages(t) // before a state of a checkpoint comes
			}
		}
	}
	s.tables.count(s)
	if c.cfg.Index == 0 {
		c.ledger = c.cfg.Ledger
		if c.ledger == nil {
			c.ledger = &Ledger{}
		}
	}
	if names := namesOf(service); service.Sync {
		c.rounds = WithBackups(NewRounds(c.cfg.MaxTrainers, names, c.cfg.Start), c.cfg.Backup, c.cfg.Index == 0)
		c.rounds.Await(c.cfg.History)
		c.rounds.unmoved = c.cfg.Before != nil
		c.machine = c.rounds
	} else {
		c.updates = NewUpdates(c.cfg.MaxTrainers, names)
		c.updates.steps = c.cfg.Start
		c.updates.Await(c.cfg.History)
		c.machine = c.updates
		s.updaters = newUpdaters(ctx, c, s.values, service)
	}
	c.changed()
	return nil
}

// applyRounds applies the rounds of a sync job, one after another, and returns when the server has ended. In async mode there are none to apply. Cuts
// are made between two rounds, or while no update is applied, and written on goroutines of group.
func applyRounds(ctx context.Context, s *Server, group *sync.WaitGroup, by *stepper) error {
	c := s.core
	cut := func() {
		k := s.cuts.due(c)
		if k == nil {
			return
		}
		s.cuts.begin(ctx, group, c, k)
		if c.updates != nil {
			c.Lock()
			s.cuts.letGo(c)
			c.Unlock()
		}
	}
	defer s.values.freezer.prepare(group, false)
	for {
		cut()
		s.values.freezer.prepare(group, s.cuts.comes(c))
		told := func(context.Context) error { return nil }
		if c.rounds != nil {
			told = c.mirror.catchUp()
		} else if err := (asyncMirror{c.mirror}).catchUpAlone(ctx); err != nil {
			return err
		}
		toApply, held := c.toApply, (<-chan time.Time)(nil)
		if left := s.cuts.holds(c); left > 0 {
			toApply, held = nil, time.After(left)
		}
		select {
		case from := <-toApply:
			if cut(); s.cuts.holds(c) > 0 {
				c.toApply <- from // has room: no other round is to be applied
				continue
			}
			if err := told(ctx); err != nil { // the round changes what is told
				return err
			}
			if len(from) > 0 {
				if gaveUp, err := applyUnlessRestored(ctx, c, by, from); gaveUp || err != nil {
					if err != nil {
						return err
					}
					continue
				}
				s.tables.applied(s)
			}
			c.Lock()
			c.inbox.recycle()
			c.cfg.Times.Enter(timing.Push)
			c.cfg.Times.Mark()        // also where nobody reads
			f, _ := c.step(Applied{}) // is never refused
			c.carryOut(f)
			c.changed()
			c.Unlock()
		case a := <-c.toFill:
			if err := a.take(ctx, s); err != nil {
				return err
			}
		case r := <-c.toTake:
			s.core.mirror.drop()
			r.take(s)
		case <-s.core.mirror.mayWake():
		case <-c.toCut:
		case <-held:
		case <-c.ended:
			return nil
		case <-ctx.Done():
			return fault.E(fault.Canceled, fault.At(c.Where), fault.Cause(context.Cause(ctx)))
		}
	}
}
