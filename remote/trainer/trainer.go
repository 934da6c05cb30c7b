package trainer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
)

// Config is what a trainer is told about its job.
type Config struct {
	Identity      wire.Identity // without generation
	Rank          uint32
	Incarnation   uint64 // of this process among all that had the rank
	Sync          bool
	Program       *program.Program // trainer program with its startup
	Save          *program.Program // brings every persistable variable of the servers here, and saves it
	Spec          *job.JobSpec
	Constants     func(*executor.Scope) error // loads what no server holds; nil when the startup program does all
	RoundDeadline time.Duration
	Patience      time.Duration // with a coordinator that is gone
	Servers       []rpc.ParameterServerClient
	Coordinator   rpc.CoordinatorClient
	// Drain is closed when the trainer is to end before its data does: it finishes the round that it is in and takes leave. May be nil.
	Drain <-chan struct{}
	Log   *slog.Logger
	Waits *waits.Board // lists what the trainer waits for; may be nil
}

// Trainer is one trainer of a job.
type Trainer struct {
	cfg      Config
	ask      asking
	comm     *Comm
	members  *membership
	reporter *reporter
	storage  *executor.DirStorage // of the saved model, nil when none is saved
	data     data
}

// Run trains until the data ends, and then returns nil or ErrUnheard, or until the trainer is drained: then it returns fault.Drained, with
// ErrUnheard beside it where that holds. It tells the coordinator when it leaves, with the reason when something went wrong. When ctx ends because
// the trainer's lease is lost (fault.Fenced), it says nothing any more.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ask := asking{patience: cfg.Patience, drain: cfg.Drain, log: cfg.Log, board: cfg.Waits}
	t := &Trainer{cfg: cfg, ask: ask, members: newMembership(&cfg, ask)}
	t.comm = &Comm{Rank: cfg.Rank, Sync: cfg.Sync, Deadline: cfg.RoundDeadline, Servers: cfg.Servers, ask: ask}
	if cfg.Spec.Save != "" {
		storage, err := executor.NewStorage(cfg.Spec.Save)
		if err != nil {
			return t.leave(ctx, err)
		}
		defer storage.Close()
		t.storage = storage
	}
	t.reporter = newReporter(ctx, t)
	err := t.generations(ctx)
	t.reporter.close()
	if wrong := t.data.close(); wrong != nil {
		cfg.Log.Warn("a dataset does not close", "error", wrong)
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return t.leave(ctx, err)
}

// generations lives through one generation after the other. Who asks for the next, or takes leave, has reported all that is to be reported of the
// last: the coordinator closes the rounds of a generation when it begins another.
func (t *Trainer) generations(ctx context.Context) error {
	for {
		g, err := t.members.next(ctx)
		if err != nil {
			return err
		}
		t.cfg.Log.Info("generation begins", "generation", g.Generation, "members", g.Trainers, "round", g.Round)
		err = t.live(ctx, g)
		if !errors.Is(err, fault.Superseded) || t.cfg.Spec.Fed {
			return err
		}
		if lost := t.reporter.flush(); lost != nil {
			return lost
		}
		if t.ask.draining() {
			return err
		}
		t.cfg.Log.Info("generation has ended", "generation", g.Generation, "reason", err.Error())
	}
}

// id is the identity of a message that is sent now.
func (t *Trainer) id(round uint64, attempt uint32) *rpc.Identity {
	return t.members.now().identity.Of(t.cfg.Rank, round, attempt)
}

// A generation is what a trainer knows of one that it is a member of.
type generation struct {
	*rpc.JoinResponse
	identity wire.Identity // of the messages in it
}

// membership is the sequence of a trainer's generations. now is safe for concurrent use.
type membership struct {
	coordinator rpc.CoordinatorClient
	rank        uint32
	incarnation uint64
	ask         asking
	known       bool // to a coordinator, or perhaps: a request has been sent

	current atomic.Pointer[generation]
}

// newMembership is that of a trainer which has not joined yet. identity is without generation.
func newMembership(cfg *Config, ask asking) *membership {
	m := &membership{coordinator: cfg.Coordinator, rank: cfg.Rank, incarnation: cfg.Incarnation, ask: ask}
	m.current.Store(&generation{&rpc.JoinResponse{}, cfg.Identity})
	return m
}

// errEnded is what next returns when the job has ended without this trainer: nobody waits for it.
var errEnded = errors.New("the job has ended")

// now is the last generation that was joined, number 0 before the first.
func (m *membership) now() *generation { return m.current.Load() }

// next joins a generation newer than the last one. There is no deadline: the coordinator has one for those whom it waits for.
func (m *membership) next(ctx context.Context) (*generation, error) {
	last := m.now()
	ctx, cancel := m.ask.untilDrain(ctx)
	defer cancel()
	var answer *rpc.JoinResponse
	err := m.ask.call(ctx, question{"coordinator", "the next generation"}, func(ctx context.Context, attempt uint32) error {
		var err error
		var to peer.Peer
		answer, err = m.coordinator.Join(ctx, &rpc.JoinRequest{Id: last.identity.Of(m.rank, 0, attempt), Incarnation: m.incarnation},
			grpc.WaitForReady(false), grpc.Peer(&to))
		m.known = m.known || err == nil || to.Addr != nil
		return err
	})
	if err != nil {
		return nil, err
	}
	if answer.DataEnded && answer.Generation == 0 {
		return nil, errEnded
	}
	if answer.Generation <= last.Generation {
		return nil, fault.E(fault.Internal, fault.At("coordinator"), fault.Gotf("generation %d", answer.Generation),
			fault.Wantf("one after %d", last.Generation))
	}
	next := &generation{answer, last.identity}
	next.identity.Generation, next.identity.Fence = answer.Generation, max(answer.Fence, last.identity.Fence)
	m.current.Store(next)
	return next, nil
}

// leaveTime bounds the last message of a trainer that ends before its work is done. Whoever told it to end waits for little more: a listener that
// stops a job gives its roles 3 seconds, of which the end of the membership may take 2.
const leaveTime = time.Second

// seekTime is for how long a trainer that has done all its work looks for a coordinator that is gone.
const seekTime = 5 * time.Second

// ErrUnheard is how a trainer ends that has not found a coordinator to tell its end to: alone when it has done all its work, of which the servers
// know, and beside fault.Drained. Its membership must not end in order: a coordinator hears of what members say themselves, and of their loss.
var ErrUnheard = errors.New("no coordinator has heard that the trainer leaves")

// leave is the trainer's last word, and returns how it ended. It is sent also when ctx has ended, because the coordinator should not have to guess;
// one that is gone is waited for, but not long, by a trainer that has done all its work. One that is told to end before anybody has heard of it has
// nobody to take leave of.
func (t *Trainer) leave(ctx context.Context, err error) error {
	err = t.outcome(ctx, err)
	drained := errors.Is(err, fault.Drained)
	m := &rpc.LeaveRequest{Drained: drained}
	switch {
	case errors.Is(err, fault.Fenced), !t.members.known && (drained || ctx.Err() != nil):
		return err
	case err == nil:
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
		defer cancel()
		if !drained {
			m.Failure = wire.FailureOf(err)
		}
	}
	say := func(ctx context.Context, attempt uint32) error {
		m.Id = t.id(0, attempt)
		_, err := t.cfg.Coordinator.Leave(ctx, m, grpc.WaitForReady(false))
		return err
	}
	if err != nil {
		if say(ctx, 0) != nil && drained { // a failure is followed by another start, of which the coordinator hears
			return errors.Join(err, ErrUnheard)
		}
		return err
	}
	ask := t.ask
	ask.patience = min(ask.patience, seekTime)
	if err = ask.call(ctx, question{"coordinator", "leave"}, say); errors.Is(err, fault.Unavailable) {
		t.cfg.Log.Warn("nobody has heard that this trainer leaves", "reason", err.Error())
		return ErrUnheard
	}
	return err
}

// outcome says why a trainer has ended, where err is only what followed from it: a lost lease, a drain, or, in async mode, having been given up.
func (t *Trainer) outcome(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	kind := fault.KindOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, fault.Fenced):
		return cause
	case t.ask.draining() && slices.Contains(followsFromDrain, kind):
		return fault.E(fault.Drained, fault.Got("the request to end before the data does"))
	case kind == fault.Canceled && cause != nil && fault.KindOf(cause) != fault.Internal:
		return cause
	case kind == fault.Stale && !t.cfg.Sync:
		return fault.E(fault.Fenced, fault.Got("that this trainer was given up: "+err.Error()), fault.Hint("start the role again"))
	}
	return err
}

// followsFromDrain are the errors that a trainer may meet which ends together with those around it.
var followsFromDrain = []fault.Kind{fault.Drained, fault.Canceled, fault.Unavailable, fault.DeadlineExceeded, fault.Superseded, fault.Stale,
	fault.LostMember}
