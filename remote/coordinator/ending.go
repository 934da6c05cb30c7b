package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/coordinator/queue"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
)

// ending decides when a job ends that does not fail: at the end of its data, or earlier when its user says so. It also lets the rounds of a job begin
// that must not be far ahead of its user (Config.MaxAhead), and tells where a later job goes on.
//
// No trainer ever trains a round that finish has ruled out, and all trainers end with the same round:
//
//	job with MaxAhead: a trainer begins a round when permit has answered for it. finish holds permit back until the end is durable.
//	job whose evaluations wait for the follower: while one does, no trainer begins the round that follows it. finish holds the answers back, too.
//	other sync jobs:   a trainer begins the rounds whose tasks it was given. The end lies behind all of them, and every later answer names it.
//	async jobs:        a trainer trains the task that it has. The queue gives no more.
//	fed jobs:          the items that were given are done. No more are accepted.
type ending struct {
	*core
	store   *store
	members *members
	steps   *steps
	feeds   *feeds

	dispatch *dispatch

	evaluations *evaluations

	left         *job.Progress // what the trainer that saves was told; nil: none was
	acknowledged id.Step       // the user has been told the steps below
	permitted    id.Round      // with MaxAhead: rounds below may have begun
	finishing    int           // calls of finish that decide: nothing is permitted meanwhile
	withoutSave  bool          // the model is not saved; durable
}

// finish lets the job end in good order, and returns how many steps it will have trained if its data does not end before. In async mode that is how many
// it has trained now. It returns when the end is durable. withoutSave leaves the saving of the model out.
func (e *ending) finish(ctx context.Context, after *uint64, withoutSave bool) (uint64, error) {
	what := "a generation"
	if !e.cfg.Fed {
		what += ", and the first report of the dataset"
	}
	ended, steps := false, uint64(0)
	// What trainers did before the first generation of this coordinator, an earlier one has permitted. That generation tells how far they came.
	err := e.await(ctx, waitFor("the user", what), func() (bool, error) {
		ended = e.ended
		return ended || e.members.begun && (e.cfg.Fed || len(e.store.queues) > 0), nil
	})
	if err != nil {
		return 0, err
	}
	if ended {
		e.locked(func() { steps = e.steps.written() })
		return steps, nil
	}
	e.locked(func() { e.finishing++ })
	defer e.locked(func() { e.finishing--; e.monitor.Broadcast() })
	err = e.store.transact(ctx, func(t *txn) (err error) {
		if e.cfg.Fed || withoutSave {
			t.then(func() {
				e.feeds.finished = true
				e.withoutSave = withoutSave
				steps = e.feeds.first + e.feeds.accepted
			})
			if err := t.put(finishedKey, &state.Finished{WithoutSave: withoutSave}); err != nil || e.cfg.Fed {
				return err
			}
		}
		steps, err = e.stop(t, after)
		return err
	})
	if err != nil {
		return 0, err
	}
	return steps, nil
}

// stop lets the queues end, and returns how many steps the job will have trained.
func (e *ending) stop(t *txn, after *uint64) (steps uint64, err error) {
	e.monitor.Lock()
	steps = e.steps.written()
	trained := max(e.members.machine.Generation().Round, id.Round(steps))
	permitted := e.permitted
	held, isHeld := e.evaluations.heldAt()
	e.monitor.Unlock()
	for name, q := range t.queues {
		end := trained
		switch {
		case !e.cfg.Sync:
		case isHeld:
			end = max(end, held)
		case e.cfg.MaxAhead > 0:
			end = max(end, permitted)
		default:
			end = max(end, q.Covered())
		}
		if after != nil {
			end = max(end, id.Round(*after)+1)
		}
		if _, err := t.step(name, queue.Stopped{End: end}); err != nil {
			return 0, err
		}
		if stopped, ok := t.queues[name].EndRound(); ok {
			steps = uint64(stopped)
		}
	}
	return steps, nil
}

// acknowledge takes the word that the user has been told all steps below a number.
func (e *ending) acknowledge(steps uint64) {
	e.locked(func() {
		if id.Step(steps) > e.acknowledged {
			e.acknowledged = id.Step(steps)
			e.monitor.Broadcast()
		}
	})
}

// permit waits until the round of a trainer may begin. With MaxAhead n, round r may begin when the user has been told all steps up to step r-n. So with
// 1 each round waits for the step before it; the first n rounds of the job wait for nothing.
func (e *ending) permit(ctx context.Context, who *rpc.Identity) (*rpc.PermitResponse, error) {
	round, ahead := id.Round(who.Round), id.Round(e.cfg.MaxAhead)
	if ahead == 0 || !e.cfg.Sync || e.cfg.Fed {
		return nil, fault.E(fault.InvalidArgument, fault.At("coordinator"), fault.Got("a question whether a round may begin"),
			fault.Want("a sync job with max_ahead that reads its own data"))
	}
	reason := func() waits.Wait {
		return waits.Wait{Who: trainerName(who.Rank), What: fmt.Sprintf("the follower of the job to acknowledge step %d", round-ahead)}
	}
	r := &rpc.PermitResponse{}
	err := e.await(ctx, reason, func() (bool, error) {
		if e.ended {
			return false, nil
		}
		if err := e.members.isMember(who); err != nil {
			return false, err
		}
		end, stopped := e.end()
		if r.End = stopped && round >= end; r.End {
			return true, nil
		}
		until := end // the user waits for the end, and acknowledges no more
		if !stopped {
			until = max(min(id.Round(e.acknowledged), math.MaxUint64-ahead), e.cfg.start().Round) + ahead
		}
		if e.finishing > 0 || round >= until {
			return false, nil
		}
		e.permitted = max(e.permitted, until)
		r.Until = uint64(until)
		return true, nil
	})
	return r, err
}

// end returns the first round that is not trained because of finish. The monitor is held.
func (e *ending) end() (end id.Round, stopped bool) {
	for _, q := range e.store.queues {
		if at, ok := q.EndRound(); ok && (!stopped || at < end) {
			end, stopped = at, true
		}
	}
	return end, stopped
}

// progress is where a later job goes on with the state that is saved when all trainers but one have left. The monitor is held.
func (e *ending) progress() *job.Progress {
	if e.left != nil {
		return e.left
	}
	return e.progressAt(e.known())
}

// known is how many steps are known to be trained. The monitor is held.
func (e *ending) known() id.Round { return id.Round(max(e.steps.written(), e.steps.reported())) }

// progressAfter is progress after the rounds below steps, where the ledger has what is trained of a pass: nothing is trained meanwhile.
func (e *ending) progressAfter(ctx context.Context, steps func() id.Round) (p *job.Progress, err error) {
	var files string
	e.locked(func() { p, files = e.progressAt(steps()), e.grownFiles() })
	if !e.cfg.Fed && e.byLedger() {
		err = e.leftByLedger(ctx, p, files != "")
	}
	if p.Batch > 0 || p.Trained != "" { // else the next job begins with a pass, in whose order is nothing to keep
		p.Files = cmp.Or(files, p.Files)
	}
	return p, err
}

// grownFiles are the files of datasets that follow folders, as a Progress has them; empty: there are none, or too many. The monitor is held.
func (e *ending) grownFiles() string {
	grown := slices.DeleteFunc(e.datasets(true), func(d *rpc.Dataset) bool { return !d.Grows })
	if len(grown) == 0 {
		return ""
	}
	text := jobspec.FilesText(grown)
	if text == "" {
		e.cfg.Log.Warn("the saved state does not name the files that the job has followed: there are too many", "hint", "go on from a checkpoint")
	}
	return text
}

// leftByLedger makes p the place in a pass of which the ledger has some records. named says that the files of the dataset are kept with it.
func (e *ending) leftByLedger(ctx context.Context, p *job.Progress, named bool) error {
	for _, q := range e.store.current() {
		round := uint64(0)
		if e.cfg.Sync {
			round = p.Steps
		}
		p.Pass = min(p.Pass, q.Pass()) // it is behind the last pass that has ended, of which nothing is left
		committed, err := e.dispatch.committed(ctx, p.Pass, round)
		if err != nil {
			return err
		}
		e.within(q, p, committed, named)
	}
	return nil
}

// byLedger reports whether the ledger says what is left of a pass, and no number of batches.
func (c *core) byLedger() bool { return !c.cfg.Sync || c.cfg.Backup > 0 }

// within makes p the position in its pass of a dataset, of which the ledger has some records. It is the next pass where none is left, or where these are so
// scattered that a Progress cannot name them. named says that the files of the dataset are kept with p.
func (e *ending) within(q *queue.Queue, p *job.Progress, committed ranges.Set, named bool) {
	trained, left := queue.Within(q, p.Pass, committed, named)
	if p.Batch, p.Trained = 0, trained.Text(); left {
		err := jobspec.ProgressOf(p).Check()
		if err == nil {
			return
		}
		e.cfg.Log.Warn("a later job does not train the rest of the pass", "pass", p.Pass, "error", err)
	}
	p.Pass, p.Trained = p.Pass+1, ""
}

// progressAt is where a later job goes on with the state after the rounds below steps. The monitor is held.
func (e *ending) progressAt(steps id.Round) *job.Progress {
	p, _ := e.positionAt(steps)
	return p
}

// positionAt is progressAt, and whether that is the place in the data of exactly these steps. The monitor is held.
func (e *ending) positionAt(steps id.Round) (p *job.Progress, known bool) {
	begin := e.cfg.start()
	p, known = &job.Progress{Steps: uint64(steps), Pass: begin.Pass, Batch: begin.Batch, Reader: e.cfg.Begin.GetReader()}, true
	if e.cfg.Begin == nil && e.cfg.Program != nil {
		p.Reader = executor.ReaderHash(e.cfg.Program)
	}
	if e.cfg.Fed {
		p.Trained, p.Files = e.cfg.Begin.GetTrained(), e.cfg.Begin.GetFiles()
	}
	for _, q := range e.store.queues {
		at, trained, ok := q.Position(steps)
		switch {
		case ok:
			p.Pass, p.Batch, p.Trained = at.Pass, at.Batch, trained.Text()
		default:
			known = false
		}
	}
	return p, known
}

// datasets are the files that the job reads, in the order of their records. A checkpoint has, and a state that is saved within a pass, also those of folders that the job follows (grown): no list of a folder tells
// in which order they have come. The monitor is held.
func (e *ending) datasets(grown bool) (list []*rpc.Dataset) {
	for _, name := range sortedNames(e.store.queues) {
		q := e.store.queues[name]
		d := &rpc.Dataset{Name: name, Files: q.Files()}
		if _, d.Grows = e.cfg.Follow[name]; d.Grows {
			d.Groups = queue.Groups(q)
		}
		if grown || !d.Grows {
			list = append(list, d)
		}
	}
	return list
}

// isOver reports whether nothing changes the model any more: the trainer that saves it is the last one. The monitor is held.
func (e *ending) isOver() bool {
	saver := e.members.saver
	return saver != nil && e.members.machine.Saves(id.Rank(*saver)) && len(e.members.machine.Others(id.Rank(*saver))) == 0
}

// requestSave elects the first trainer that asks, and answers it when all others have left: then nothing changes the model any more. The same trainer
// asking again is told the same, so that a repeated message does no harm. When the one that was elected is lost for good another is.
func (e *ending) requestSave(ctx context.Context, m *rpc.SaveModelRequest) (*rpc.SaveModelResponse, error) {
	rank := m.Id.Rank
	granted := false
	err := e.store.transact(ctx, func(t *txn) error {
		e.monitor.Lock()
		defer e.monitor.Unlock()
		if err := e.members.isMember(m.Id); err != nil {
			return err
		}
		saver := e.members.saver
		if t.saver != nil { // elected by a request before this one
			saver = t.saver
		}
		if saver != nil && (*saver == rank || e.members.machine.Saves(id.Rank(*saver))) {
			granted = *saver == rank
			return nil
		}
		granted, t.saver = true, &rank
		t.then(func() { e.members.saver = &rank })
		return t.put(saverKey, &state.Saver{Rank: rank})
	})
	if err != nil || !granted {
		return &rpc.SaveModelResponse{}, err
	}
	others := func() []id.Rank { return e.members.machine.Others(id.Rank(rank)) }
	reason := func() waits.Wait {
		w := waits.Wait{Who: trainerName(rank), What: "the other trainers to finish, before the model is saved"}
		for _, other := range others() {
			w.By = append(w.By, trainerName(other))
		}
		return w
	}
	if err = e.await(ctx, reason, func() (bool, error) { return len(others()) == 0, e.members.isMember(m.Id) }); err != nil {
		return nil, err
	}
	r := &rpc.SaveModelResponse{Granted: true}
	if r.Progress, err = e.progressAfter(ctx, e.known); err != nil {
		return nil, err
	}
	e.locked(func() { e.left, r.WithoutSave = r.Progress, e.withoutSave })
	return r, nil
}
