package listen

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/pserver"
)

// newRun names the checkpoints of one run of a job. A later job of the same name has another.
func newRun(id string) string { return id + "-" + strings.ToLower(rand.Text()[:8]) }

// resume makes ready what a job starts with that goes on from a checkpoint of its user.
func (s *jobState) resume(ctx context.Context, spec *job.JobSpec, p *program.Program, scratch string) (executor.Progress, error) {
	c, err := checkpoint.Find(ctx, spec.Resume)
	if err != nil {
		return executor.Progress{}, err
	}
	defer c.Close()
	if err := checkVariables(c, p, spec.Partial); err != nil {
		return executor.Progress{}, err
	}
	s.first = int(c.Manifest.FirstPass)
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
				fault.Want("one with all variables"), fault.Hint("--partial lets the startup program make what is missing"))
		}
	}
	return nil
}

// export turns a checkpoint into a directory that roles load from. The directory of an earlier one is removed.
func (s *jobState) export(ctx context.Context, c *checkpoint.Checkpoint, scratch string) error {
	dir, err := os.MkdirTemp(scratch, "checkpoint-")
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

// goBack makes the last checkpoint of the job what its next attempt starts with. An attempt that has none begins where the job did. All roles have ended.
func goBack(ctx context.Context, j *Job) error {
	if j.spec.Checkpoints == nil || j.spec.Mode != job.Mode_SYNC {
		return nil
	}
	store, err := checkpoint.Open(ctx, j.spec.Checkpoints.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.List(ctx)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Run != j.name || !e.Complete {
			continue
		}
		c, err := store.Read(ctx, e.Name)
		before := j.state.restart
		if err == nil {
			if j.state.restart = c.Progress(); j.state.left() < 1 { // all is trained but nothing saved: the last round is trained again
				j.state.restart = before
				continue
			}
			err = j.state.export(ctx, c, j.manager.stateDir())
		}
		if err != nil { // an older one may be whole
			j.state.restart = before
			j.manager.cfg.Log.Warn("a checkpoint cannot be used", "job", j.ID, "checkpoint", e.Name, "error", err)
			continue
		}
		j.state.ledger = c.Manifest.Ledger
		j.manager.cfg.Log.Info("the job goes back to its last checkpoint", "job", j.ID, "checkpoint", e.Name, "steps", e.Steps)
		return nil
	}
	return nil
}

// restartProgress is where the attempt begins.
func (s *jobState) restartProgress() *job.Progress { return jobspec.ProgressMessage(s.restart) }

// records is how many records the job has trained where the attempt begins, each as often as it was.
func (s *jobState) records() (n int64) {
	l, err := pserver.DecodeLedger(s.ledger)
	if err != nil { // there is none
		return 0
	}
	for _, pass := range l.Counts() {
		n += pass.Records + pass.Again
	}
	return n
}

// whereFrom says it in words.
func (s *jobState) whereFrom() string {
	if s.restart.Steps > s.begin.Steps {
		return fmt.Sprintf("its checkpoint after %d steps", s.restart.Steps)
	}
	return "where it began"
}
