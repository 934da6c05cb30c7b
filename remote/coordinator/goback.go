package coordinator

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

// ErrWentBack is why a coordinator has ended that has taken its job back to a checkpoint: the same process leads the job again, as the next coordinator.
var ErrWentBack = errors.New("the job has gone back to a checkpoint")

// goBack takes a job back to its last checkpoint when a pserver is lost. Only that pserver is started again.
//
//	listener          coordinator                                             pservers
//	  |-- GoBack -------> halts: no generation, no report, no checkpoint counts
//	  |                   Restore of the newest checkpoint that is whole ------> each ends its generation and loads its slices, the new one, too
//	  |                   one transaction: the position in the data, Back
//	  |                   ends, and leads again: reads what is durable,
//	  |                   begins the next generation where Back says
//	  |-- GoBack again -> answers where that is
//
// Before the transaction nothing durable has changed. After it, any coordinator goes on from the checkpoint, and refuses a pserver that does not have the state
// of it (generation.Policy.History). A failure ends the coordinator with fault.LostState: then the listener starts all roles again.
type goBack struct {
	*core
	store   *store
	members *members
	changes *changes
	cuts    *cuts
}

// LastBack returns where the history begins that the entries of a job belong to; nil where it has never gone back.
func LastBack(ctx context.Context, s cluster.State) (*state.Back, error) {
	entries, err := s.Load(ctx)
	if err != nil {
		return nil, err
	}
	b, ok := entries[backKey]
	if !ok {
		return nil, nil
	}
	back := &state.Back{}
	err = proto.Unmarshal(b, back)
	if err != nil || back.Progress == nil || back.History == 0 || back.Passes < 1 || jobspec.ProgressOf(back.Progress).Check() != nil {
		return nil, fault.E(fault.Corrupt, fault.At("entry "+backKey), fault.Gotf("%d bytes that say no place in the data", len(b)), fault.Cause(err))
	}
	return back, nil
}

// checkHistory refuses a message of a listener about the steps of another history than the one that this coordinator leads. The listener has not heard yet that the job has gone
// back, and repeats the message when it has. Listeners of earlier builds do not name the history, and are believed.
func checkHistory(c *core, of *uint64) error {
	if have := c.cfg.Back.GetHistory(); of != nil && *of != have {
		return fault.E(fault.Unavailable, fault.At("coordinator"), fault.Gotf("a message about steps of history %d", *of), fault.Wantf("one about history %d, which the job has begun", have))
	}
	return nil
}

// ask begins the way back, unless it has begun, and returns where the history begins. This coordinator answers fault.Unavailable when it is done.
func (g *goBack) ask(ctx context.Context, history uint64) (*rpc.GoBackResponse, error) {
	have := g.cfg.Back.GetHistory()
	err := g.await(ctx, waitFor("the listener", "the coordinator's start"), func() (bool, error) { return g.ready, nil })
	switch {
	case err != nil:
		return nil, err
	case history == have && have > 0:
		return &rpc.GoBackResponse{Progress: g.cfg.Back.Progress, Records: g.cfg.Back.Records}, nil
	case history != have+1 || !g.cfg.goesBack():
		return nil, fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Gotf("a way back to history %d", history),
			fault.Wantf("history %d, of a job with checkpoints that is not fed", have+1))
	}
	g.locked(func() {
		if !g.goesBack && !g.ended {
			g.goesBack = true
			g.changes.giveUpEffects()
			g.monitor.Broadcast()
			g.spawn(g.run)
		}
	})
	w := waits.Wait{Who: "coordinator", What: "the state of the last checkpoint on all pservers", Limit: g.limit()}
	return nil, g.await(ctx, func() waits.Wait { return w }, func() (bool, error) { return false, nil })
}

// run goes back, and ends this coordinator.
func (g *goBack) run() {
	g.cuts.stop()
	ctx, cancel := context.WithTimeout(g.ctx, g.limit())
	defer cancel()
	name, err := g.restoreNewest(ctx)
	if err == nil {
		g.cfg.Log.Warn("the job goes back to a checkpoint, because a pserver was lost", "checkpoint", name)
		err = fault.E(fault.Canceled, fault.At("coordinator"), fault.Cause(ErrWentBack))
	} else {
		err = fault.E(fault.LostState, fault.At("coordinator"), fault.Got("a lost pserver, and no way back to a checkpoint"), fault.Cause(err))
	}
	g.Fail(err)
}

// limit is how long going back may take. The listener then starts all roles again, which has the start deadline.
func (g *goBack) limit() time.Duration { return g.cfg.StartDeadline / 2 }

// restoreNewest goes back to the newest checkpoint that is whole, and returns its name. One that is damaged is no checkpoint any more.
func (g *goBack) restoreNewest(ctx context.Context) (name string, err error) {
	if err := g.mayGoBack(); err != nil {
		return "", err
	}
	store, err := checkpoint.Open(ctx, g.cfg.Checkpoints.Store)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var list []checkpoint.Entry
	if err := wire.Retry(ctx, func(id.Retry) (err error) { list, err = store.List(ctx); return err }); err != nil {
		return "", err
	}
	for _, e := range list {
		if e.Run != g.cfg.Checkpoints.Run || !e.Complete {
			continue
		}
		err := g.restore(ctx, store, e.Name)
		switch {
		case err == nil:
			return e.Name, nil
		case errors.Is(err, errAllTrained):
			continue
		case !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.NotFound):
			return "", err
		}
		g.cfg.Log.Warn("a checkpoint is damaged; an older one may be whole", "checkpoint", e.Name, "error", err)
		if err := store.Discard(ctx, e); err != nil {
			return "", err
		}
	}
	return "", fault.E(fault.LostState, fault.At(g.cfg.Checkpoints.Store), fault.Got("no checkpoint that is whole"), fault.Want("one of this job"))
}

// errAllTrained says that nothing is left to train after a checkpoint. An older one is taken: trainers must learn that the data ends.
var errAllTrained = errors.New("nothing is left to train")

// mayGoBack refuses where a trainer has left, because nobody would train its share again.
func (g *goBack) mayGoBack() error {
	g.monitor.Lock()
	defer g.monitor.Unlock()
	left := g.members.machine.State().Left
	if len(left) > 0 || g.members.saver != nil || len(g.store.queues) == 0 {
		return fault.E(fault.LostState, fault.Gotf("a job of %d datasets, whose trainers %v have left", len(g.store.queues), left),
			fault.Want("one that trains"))
	}
	return nil
}

// restore goes back to one checkpoint.
func (g *goBack) restore(ctx context.Context, store *checkpoint.Store, name string) error {
	var c *checkpoint.Checkpoint
	err := wire.Retry(ctx, func(id.Retry) (err error) { c, err = store.Read(ctx, name); return err })
	if err != nil {
		return err
	}
	p := c.Manifest.Progress
	to := queue.Position{Round: id.Round(p.GetSteps()), Pass: p.GetPass(), Batch: p.GetBatch()}
	back := &state.Back{History: g.cfg.Back.GetHistory() + 1, Progress: p, Checkpoint: name}
	var last *state.Generation
	g.locked(func() {
		last = entryOf(g.members.machine.Generation())
		last.Number, last.Round = uint64(g.members.machine.Known()), uint64(to.Round)
		back.Generation = last.Number
		if !g.cfg.Sync {
			last.Members = nil // all have to join again
		}
		for _, q := range g.store.queues {
			back.Passes = q.Status().Passes - to.Pass
		}
	})
	if back.Passes < 1 {
		return errAllTrained
	}
	if err := g.tellServers(ctx, back, to.Round); err != nil {
		return err
	}
	return g.store.transactAlone(ctx, func(t *txn) error { return t.goBack(back, last, queue.WentBack{To: to, Trained: trainedOf(p)}) })
}

// tellServers lets every server take the state of a checkpoint. The first that cannot ends the others.
func (g *goBack) tellServers(ctx context.Context, back *state.Back, round id.Round) error {
	return wire.EachServer(ctx, len(g.cfg.Servers), func(ctx context.Context, i int) error {
		return wire.Retry(ctx, func(retry id.Retry) error {
			who := g.identity(id.Generation(back.Generation), retry)
			who.Round = uint64(round)
			a, err := g.cfg.Servers[i].Restore(ctx, &rpc.RestoreRequest{Id: who, Store: g.cfg.Checkpoints.Store, Name: back.Checkpoint, History: back.History,
				Placement: g.cfg.Placement.GetNumber()})
			if err = ofServer(ctx, serverName(i), err); err == nil && i == 0 {
				back.Records = a.Records
			}
			return err
		})
	})
}

// goBack makes what is durable that of a job that begins with a position. It is one transaction.
func (t *txn) goBack(back *state.Back, last *state.Generation, to queue.WentBack) error {
	for name := range t.queues {
		if _, err := t.step(name, to); err != nil {
			return err
		}
	}
	if n := proto.Size(back); n > cluster.MaxBytes/4 {
		return fault.E(fault.TooLarge, fault.Gotf("%d bytes of what is trained of a pass", n), fault.Wantf("at most %d", cluster.MaxBytes/4))
	}
	return errors.Join(t.put(generationKey, last), t.put(settledKey, &state.Settled{Generation: back.Generation}),
		t.put(stepsKey, &state.Steps{Steps: uint64(to.To.Round)}), t.put(backKey, back))
}
