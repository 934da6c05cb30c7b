package listen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/pserver"
	"github.com/edl-go/edl/remote/wire"
)

// newRun names the checkpoints of one run of a job. A later job of the same name has another. Names of checkpoints have dots of their own.
func newRun(id string) string {
	return strings.ReplaceAll(id, jobspec.Separator, "-") + "-" + strings.ToLower(rand.Text()[:8])
}

// storeTime bounds the first look at a store, when a job is submitted.
const storeTime = 20 * time.Second

// prepareStore refuses a job whose checkpoints have no place that can be written to.
func prepareStore(ctx context.Context, c *job.Checkpoints) error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, storeTime, fault.E(fault.DeadlineExceeded, fault.At(c.Store), fault.Gotf("no answer for %v", storeTime),
		fault.Want("a store that answers")))
	defer cancel()
	store, err := checkpoint.Open(ctx, c.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.Prepare(ctx)
}

// lastTime bounds the last checkpoints that the end of a listener waits for.
const lastTime = 20 * time.Second

// saveAll lets each job that runs make a last checkpoint. It logs what could not be made.
func (m *Manager) saveAll() {
	ctx, cancel := context.WithTimeout(m.ctx, lastTime)
	defer cancel()
	var group sync.WaitGroup
	for _, j := range m.Jobs() {
		begun := false
		j.withLock(func() { begun = j.hasBegun() })
		if !begun || isIn(j, job.State_WAITING) || j.Ended() || j.spec.Checkpoints == nil {
			continue
		}
		group.Go(func() {
			if last, err := save(ctx, j); err != nil {
				m.cfg.Log.Warn("no last checkpoint of the job", "job", j.ID, "error", err)
			} else {
				m.cfg.Log.Info("the last checkpoint of the job", "job", j.ID, "steps", last.Steps, "store", last.Store)
			}
		})
	}
	group.Wait()
}

// save makes a checkpoint of a job that runs, and goes on.
func save(ctx context.Context, j *Job) (*job.CheckpointStatus, error) {
	if j.spec.Checkpoints == nil {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a job without checkpoints"), fault.Want("one that was started with --checkpoint STORE"))
	}
	if isIn(j, job.State_WAITING) {
		return nil, fault.E(fault.InvalidArgument, fault.At("job "+j.ID), fault.Got("a job that waits"), fault.Want("one that runs"))
	}
	c, err := j.coordinator(ctx)
	if err != nil {
		return nil, err
	}
	last, err := c.Checkpoint(ctx, &rpc.CheckpointRequest{Job: j.ID})
	j.withLock(func() {
		if err == nil {
			j.reports.enterSaved(last)
		}
	})
	return last, j.orFailure(ctx, wire.FromStatus("coordinator", err))
}

// resume makes ready what a job starts with that goes on from a checkpoint of its user. It makes spec name that very checkpoint, because a later one may be
// the last in the store when the job is resumed itself.
func (s *jobState) resume(ctx context.Context, spec *job.JobSpec, p *program.Program, scratch string) (executor.Progress, error) {
	c, err := checkpoint.Find(ctx, spec.Resume)
	if err != nil {
		return executor.Progress{}, err
	}
	defer c.Close()
	if err := checkVariables(c, p, spec.Partial); err != nil {
		return executor.Progress{}, err
	}
	spec.Resume = c.Address()
	s.origins = append(slices.Clone(c.Manifest.Origins), c.Run())
	s.origins = s.origins[max(0, len(s.origins)-maxContinued):]
	if c.Manifest.Progress.GetReader() == executor.ReaderHash(p) { // else it begins with the first pass
		s.datasets, s.first, s.ledger = c.Manifest.Data, int(c.Manifest.FirstPass), c.Manifest.Ledger
		s.earlier = s.records()
	}
	return c.Progress(), s.export(ctx, c, scratch)
}

// checkVariables refuses a checkpoint that lacks variables of a program. The checkpoint of the same program lacks what its startup program makes: what
// neither changes nor was given.
func checkVariables(c *checkpoint.Checkpoint, p *program.Program, partial bool) error {
	hash, err := p.Hash()
	if err != nil || partial || slices.Equal(hash[:], c.Manifest.Program) {
		return err
	}
	have := c.Variables()
	for _, name := range executor.Persistables(p) {
		if _, ok := slices.BinarySearch(have, name); !ok {
			return fault.E(fault.NotFound, fault.At(c.Address()), fault.Var(name), fault.Got("a checkpoint of another program, without this variable"),
				fault.Want("one with all variables"), fault.Hint("resume with the program of the job; or export the checkpoint, and use --params with --partial"))
		}
	}
	return nil
}

// export turns a checkpoint into a directory that roles load from. The directory of an earlier one is removed.
func (s *jobState) export(ctx context.Context, c *checkpoint.Checkpoint, scratch string) error {
	dir, err := os.MkdirTemp(scratch, exportedDir)
	if err != nil {
		return fault.Wrap(fault.Internal, scratch, err)
	}
	if err := c.Export(ctx, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	if s.exported != "" {
		err = os.RemoveAll(s.exported)
	}
	s.exported, s.dir = dir, dir
	return fault.Wrap(fault.Internal, scratch, err)
}

// goBack makes the last checkpoint of the job what its next attempt starts with. An attempt that has none begins where the job did. All roles have ended. A
// store that does not answer is asked again for the start deadline: then the job fails, because to begin at its first step would throw its work away.
func goBack(ctx context.Context, j *Job) error {
	if j.spec.Checkpoints == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, j.limits.Start)
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		<-timer.C
		err := findLast(ctx, j)
		if err == nil || fault.KindOf(err).Permanent() || ctx.Err() != nil {
			return err
		}
		j.manager.cfg.Log.Warn("the checkpoints of the job cannot be read; trying again", "job", j.ID, "error", err)
		select {
		case <-ctx.Done():
			return err
		default:
			timer.Reset(j.limits.Start / storeTries)
		}
	}
}

// storeTries is about how often a store is asked within the start deadline.
const storeTries = 100

// findLast is goBack once. A checkpoint that is damaged is passed over, and is no checkpoint any more.
func findLast(ctx context.Context, j *Job) error {
	store, err := checkpoint.Open(ctx, j.spec.Checkpoints.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.List(ctx)
	if err != nil {
		return err
	}
	log, before := j.manager.cfg.Log, j.state.restart
	for _, e := range list {
		if e.Run != j.name || !e.Complete {
			continue
		}
		c, err := store.Read(ctx, e.Name)
		if err == nil {
			if j.state.restart = c.Progress(); j.state.left() < 1 { // all is trained but nothing saved: the last rounds are trained again
				j.state.restart = before
				continue
			}
			err = j.state.export(ctx, c, j.manager.stateDir())
		}
		if err == nil {
			j.state.ledger = c.Manifest.Ledger
			last := &job.CheckpointStatus{Store: j.spec.Checkpoints.Store, Name: e.Name, Steps: e.Steps, CreatedMs: c.Manifest.CreatedMs}
			for _, s := range c.Manifest.Shards {
				last.Bytes += s.Bytes
			}
			j.withLock(func() { j.datasets, j.state.last = c.Manifest.Data, last })
			log.Info("the job goes back to its last checkpoint", "job", j.ID, "checkpoint", e.Name, "steps", e.Steps)
			return nil
		}
		j.state.restart = before
		if !errors.Is(err, fault.Corrupt) && !errors.Is(err, fault.NotFound) {
			return err
		}
		log.Warn("a checkpoint is damaged; an older one may be whole", "job", j.ID, "checkpoint", e.Name, "error", err)
		if err := store.Discard(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// records is how many records this job has trained where the attempt begins, each as often as it was.
func (s *jobState) records() (n int64) {
	l, err := pserver.DecodeLedger(s.ledger)
	if err != nil { // there is none
		return 0
	}
	for _, pass := range l.Counts() {
		n += pass.Records + pass.Again
	}
	return n - s.earlier
}

// whereFrom says it in words.
func (s *jobState) whereFrom() string {
	if s.restart.Steps > s.begin.Steps {
		return fmt.Sprintf("its checkpoint after %d steps", s.restart.Steps)
	}
	return "where it began"
}
