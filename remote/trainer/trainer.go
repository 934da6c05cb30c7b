package trainer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/dataplane"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/timing"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// Config is what a trainer is told about its job.
type Config struct {
	Identity    wire.Identity // without generation
	Rank        id.Rank
	Incarnation id.Incarnation // of this process among all that had the rank
	Sync        bool
	Program     *program.Program // trainer program with its startup
	Save        *program.Program // brings every persistable variable of the servers here, and saves it
	Spec        *job.JobSpec
	Begin       *job.Progress               // where the job begins; nil: at its first step
	KeepDir     string                      // directory that the state is written to after the last step, as well as to Spec.Save; empty: none
	Constants   func(*executor.Scope) error // loads what no server holds; nil when the startup program does all
	Deadlines   jobspec.Deadlines           // of the job
	Servers     []rpc.ParameterServerClient // by index
	Placement   uint64                      // number of the placement that Program, Save and Servers belong to
	// Placed returns those of another placement, which a generation has. nil: the placement never changes.
	Placed      func(ctx context.Context, in *rpc.Identity, number uint64) (Placed, error)
	Coordinator rpc.CoordinatorClient
	Data        *dataplane.Dialer // opens data connections to the servers; nil: steps go over gRPC
	// Host names the machine that the trainer runs on, if trainers of one machine are to merge their contributions before they send them: those with
	// the same name form a group. Leader is where others of the group connect; it must be given with a Host. Empty: this trainer is in no group.
	Host   string
	Leader *Leader
	// Drain is closed when the trainer is to end before its data does: it finishes the step that it is in and takes leave. May be nil.
	Drain   <-chan struct{}
	Waits   *waits.Board      // lists what the trainer waits for; may be nil
	Times   *timing.Recorder  // notes the phases of its rounds; may be nil
	Kernels *executor.Profile // records its kernels; may be nil
	Log     *slog.Logger      // may be nil
}

// Placed is what a trainer needs of a placement.
type Placed struct {
	Program, Save *program.Program
	Servers       []rpc.ParameterServerClient
}

// Trainer is one trainer of a job.
type Trainer struct {
	cfg      Config
	caller   caller
	comm     *Comm
	members  *membership
	reporter *reporter
	storage  *storage // of the saved model, nil when none is saved
	data     data
	heldBack heldBack
	lastFed  fedReport
	kept     *kept        // of the last generation; nil: nothing
	laps     *timing.Laps // from the end of a generation to the first step of the next one; nil behind that
}

// Run trains until the data ends, and then returns nil or ErrNoCoordinator, or until the trainer is drained: then it returns fault.Drained, joined with
// ErrNoCoordinator where that holds. It reports its end to the coordinator, with the reason when something went wrong. When ctx ends because the
// trainer's lease is lost (fault.Fenced), it sends the reports of its steps, for half of Deadlines.LostLease at most, and nothing else.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := caller{unavailable: cfg.Deadlines.Unavailable, drain: cfg.Drain, waits: cfg.Waits}
	t := &Trainer{cfg: cfg, caller: c, members: newMembership(&cfg, c)}
	t.comm = &Comm{Rank: cfg.Rank, Sync: cfg.Sync, CheckFinite: !cfg.Spec.NoFiniteCheck, Deadline: cfg.Deadlines.TrainerRound, Servers: cfg.Servers, Data: cfg.Data, Times: cfg.Times,
		Log: cfg.Log, Leader: cfg.Leader, caller: c}
	if err := t.comm.rhythm.set(cfg.Spec, cfg.Program, len(cfg.Servers)); err != nil {
		return t.leave(ctx, err)
	}
	t.comm.pace.set(cfg.Spec, &t.comm.rhythm)
	t.comm.verdicts.on = jobspec.Backups(cfg.Spec) > 0
	storage, err := openStorage(executor.FilesOf(ctx), cfg.KeepDir, cfg.Spec.Save)
	if err != nil {
		return t.leave(ctx, err)
	}
	defer storage.Close()
	t.storage = storage
	t.reporter = newReporter(ctx, t)
	t.members.again = t.reporter.repeat
	err = t.generations(ctx)
	if errors.Is(context.Cause(ctx), fault.Fenced) { // all trainers may have lost their leases at once, as on a machine that slept
		if lost := t.reporter.repeat(); lost != nil {
			cfg.Log.Warn("the last steps of a trainer without a lease may be untold", "error", lost)
		}
	}
	t.reporter.close()
	t.heldBack.close()
	if wrong := t.data.close(); wrong != nil {
		cfg.Log.Warn("a dataset does not close", "error", wrong)
	}
	if errors.Is(err, errEnded) {
		return nil
	}
	return t.leave(ctx, err)
}

// generations joins and trains in one generation after the other. Before it asks for the next, or takes leave, it has reported all that is to be
// reported of the last: the coordinator closes the rounds of a generation when it begins another.
func (t *Trainer) generations(ctx context.Context) error {
	for {
		t.laps = timing.BeginLaps()
		g, err := t.members.next(ctx)
		if err != nil {
			return err
		}
		t.laps.Lap("join")
		t.cfg.Log.Info("generation begins", "generation", g.Generation, "members", g.Trainers, "round", g.Round)
		if err = t.place(ctx, g); err == nil {
			t.laps.Lap("programs")
			err = t.runGeneration(ctx, g)
		}
		if !errors.Is(err, fault.Superseded) {
			return err
		}
		if lost := t.reporter.repeat(); lost != nil { // the generation may have ended because the coordinator has died
			return lost
		}
		if t.caller.draining() {
			return err
		}
		t.cfg.Log.Info("generation has ended", "generation", g.Generation, "reason", err.Error())
	}
}

// place takes the programs and servers of the placement that a generation has.
func (t *Trainer) place(ctx context.Context, g *generation) error {
	if g.Placement == t.cfg.Placement {
		return nil
	}
	if t.cfg.Placed == nil {
		return fault.E(fault.Internal, fault.Gotf("a generation of placement %d", g.Placement), fault.Wantf("placement %d", t.cfg.Placement))
	}
	p, ok := t.comm.news.take(g.Placement)
	if ok {
		return t.takePlace(g, p)
	}
	err := t.caller.call(ctx, callTarget{"coordinator", "the programs of the placement"}, func(ctx context.Context, retry id.Retry) (err error) {
		p, err = t.cfg.Placed(ctx, g.message(0, retry), g.Placement)
		return err
	})
	if err != nil {
		return err
	}
	return t.takePlace(g, p)
}

// takePlace makes a placement that of the next generation.
func (t *Trainer) takePlace(g *generation, p Placed) error {
	t.cfg.Placement, t.cfg.Program, t.cfg.Save, t.cfg.Servers = g.Placement, p.Program, p.Save, p.Servers
	serveBy(t.comm, p.Servers)
	t.cfg.Log.Info("placement", "number", g.Placement, "pservers", len(p.Servers))
	return nil
}

// id is the identity of a message that is sent now.
func (t *Trainer) id(round id.Round, retry id.Retry) *rpc.Identity {
	return t.members.now().message(round, retry)
}

// A generation is what a trainer knows of one that it is a member of.
type generation struct {
	*rpc.JoinResponse
	identity wire.Identity // of the messages in it
	rank     id.Rank       // of this trainer
}

// message is the identity of a message.
func (g *generation) message(round id.Round, retry id.Retry) *rpc.Identity {
	return g.identity.Of(g.rank, round, retry)
}

// membership is the sequence of a trainer's generations. now is safe for concurrent use.
type membership struct {
	coordinator rpc.CoordinatorClient
	incarnation id.Incarnation
	caller      caller
	known       bool         // to a coordinator, or perhaps: a request has been sent
	again       func() error // reports again what a coordinator that has died may not have told
	host        string       // where the trainer may be in a group; empty: it is in none
	address     string       // of its Leader

	current atomic.Pointer[generation]
}

// newMembership is that of a trainer which has not joined yet.
func newMembership(cfg *Config, c caller) *membership {
	m := &membership{coordinator: cfg.Coordinator, incarnation: cfg.Incarnation, caller: c}
	if cfg.Host != "" && cfg.Sync && cfg.Data != nil {
		m.host, m.address = cfg.Host, cfg.Leader.calls.Addr().String()
	}
	m.current.Store(&generation{&rpc.JoinResponse{}, cfg.Identity, cfg.Rank})
	return m
}

// errEnded is what next returns when the job has ended without this trainer.
var errEnded = errors.New("the job has ended")

// now is the last generation that was joined, number 0 before the first.
func (m *membership) now() *generation { return m.current.Load() }

// next joins a generation newer than the last one. There is no deadline: the coordinator has one for those whom it waits for. If it dies while the trainer
// waits, the next one is told first what the trainer had reported: it closes the rounds before a generation when that begins.
func (m *membership) next(ctx context.Context) (*generation, error) {
	last := m.now()
	ctx, cancel := m.caller.untilDrain(ctx)
	defer cancel()
	var answer *rpc.JoinResponse
	err := m.caller.call(ctx, callTarget{"coordinator", "the next generation"}, func(ctx context.Context, retry id.Retry) error {
		if retry > 0 && m.again != nil {
			if err := m.again(); err != nil {
				return err
			}
		}
		var err error
		var to peer.Peer
		answer, err = m.coordinator.Join(ctx, &rpc.JoinRequest{Id: last.message(0, retry), Incarnation: uint64(m.incarnation), Host: m.host,
			Address: m.address},
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
	next := &generation{answer, last.identity, last.rank}
	next.identity.Generation, next.identity.Fence = id.Generation(answer.Generation), max(id.Fence(answer.Fence), last.identity.Fence)
	m.current.Store(next)
	return next, nil
}

// ErrNoCoordinator says that a trainer could not report its end. Run returns it alone when the trainer has done all its work, which the servers know,
// or joined with fault.Drained. Then the trainer's key must not be given up: a coordinator learns of an end by the member's message, or because the
// key was lost.
var ErrNoCoordinator = errors.New("no coordinator has answered that the trainer leaves")

// leave sends the trainer's last message, and returns how the trainer ended. It sends also when ctx has ended, because the coordinator should not have
// to guess. A trainer that has done all its work waits for a coordinator that is gone, for Deadlines.Seek. A trainer that is told to end before any
// coordinator knows it sends nothing.
func (t *Trainer) leave(ctx context.Context, err error) error {
	err = t.reasonOf(ctx, err)
	drained := errors.Is(err, fault.Drained)
	m := &rpc.LeaveRequest{Drained: drained}
	switch {
	case errors.Is(err, fault.Fenced), !t.members.known && (drained || ctx.Err() != nil):
		return err
	case err == nil:
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), t.cfg.Deadlines.Leave)
		defer cancel()
		if !drained {
			m.Failure = wire.FailureOf(err)
		}
	}
	send := func(ctx context.Context, retry id.Retry) error {
		m.Id = t.id(0, retry)
		_, err := t.cfg.Coordinator.Leave(ctx, m, grpc.WaitForReady(false))
		return err
	}
	if err != nil {
		if send(ctx, 0) != nil && drained { // after a failure the trainer is started again, and the coordinator learns from its Join
			return errors.Join(err, ErrNoCoordinator)
		}
		return err
	}
	c := t.caller
	c.unavailable = min(c.unavailable, t.cfg.Deadlines.Seek)
	if err = c.call(ctx, callTarget{"coordinator", "leave"}, send); errors.Is(err, fault.Unavailable) {
		t.cfg.Log.Warn("no coordinator has answered that this trainer leaves", "reason", err.Error())
		return ErrNoCoordinator
	}
	return err
}

// reasonOf returns why a trainer has ended, where err is only what followed from it: a lost lease, a drain, or, in async mode, having been given up.
func (t *Trainer) reasonOf(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	kind := fault.KindOf(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(cause, fault.Fenced):
		return cause
	case t.caller.draining() && slices.Contains(followsFromDrain, kind):
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
	fault.LostMember, fault.LostState}
