package trainer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
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
	ask := asking{patience: cfg.Patience, drain: cfg.Drain, log: cfg.Log, waits: newWaits(cfg.Log)}
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
