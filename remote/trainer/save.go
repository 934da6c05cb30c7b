package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/tensor"
)

// finish saves the state, or lets a last checkpoint be made of it, if this trainer is the one to do so, and takes leave of the servers.
func (g *generationRun) finish(ctx context.Context) error {
	cuts := g.cfg.Spec.Checkpoints.GetLast() && g.cfg.Spec.Save == ""
	if len(g.storage.dirs) == 0 && !cuts {
		return g.comm.Complete(ctx)
	}
	var r *rpc.SaveModelResponse
	target := callTarget{"coordinator", "the election of who saves the model"}
	err := g.caller.call(ctx, target, func(ctx context.Context, retry id.Retry) (err error) {
		r, err = g.cfg.Coordinator.RequestSaveModel(ctx, &rpc.SaveModelRequest{Id: g.id(0, retry)}, grpc.WaitForReady(false))
		return err
	})
	if err == nil && r.WithoutSave {
		err = g.storage.only(g.cfg.KeepDir)
	}
	if err == nil && r.Granted && len(g.storage.dirs) > 0 {
		err = g.save(ctx, r.Progress)
	}
	if err == nil && r.Granted && !r.WithoutSave && cuts && g.lastCut(ctx) == nil {
		err = fault.E(fault.TooLarge, fault.At(fmt.Sprintf("trainer %d", g.cfg.Rank)), fault.Gotf("no checkpoint of the trained state within %v", lastCutTime),
			fault.Wantf("a store that takes it: %s", g.cfg.Spec.Checkpoints.Store), fault.Hint(hintAfter(g.cfg.Spec, nil)))
	}
	if err != nil {
		return err
	}
	return g.comm.Complete(ctx)
}

// save writes the state as it is when all others have completed, and the progress. What cannot be written now is tried again for about a minute: the
// servers keep the trained state until this trainer has completed. One that is to end tries nothing again, so that it leaves no files behind. If only the user's
// directory cannot be written, the kept state is whole when save returns the error.
func (g *generationRun) save(ctx context.Context, progress *job.Progress) error {
	if g.in.DataEnded { // then the variables that no server holds are not there yet
		if err := g.startup(ctx); err != nil {
			return err
		}
	}
	return g.retrySave(ctx, func() error { return g.saveOnce(ctx, progress) })
}

// retrySave is save with what one try does.
func (g *generationRun) retrySave(ctx context.Context, try func() error) error {
	var wait *waits.Entry
	pausing, stop := g.caller.untilDrain(ctx)
	defer stop()
	err := executor.RetrySave(pausing, try, func(err error, pause time.Duration) {
		g.cfg.Log.Warn("the trained state cannot be saved yet", "error", err, "next try after", pause)
		if wait == nil {
			wait = g.cfg.Waits.Begin(waits.Wait{What: "a directory that takes the trained state", By: []string{g.storage.waiting()}, Limit: executor.SaveLimit})
		}
		wait.Update(func(w *waits.Wait) { w.LastError = err.Error() })
	})
	if wait != nil {
		wait.End()
	}
	if err == nil {
		return nil
	}
	kind := fault.KindOf(err)
	if g.caller.draining() { // what follows takes longer than a trainer has that is to end
		return fault.E(fault.Drained, fault.At(fmt.Sprintf("trainer %d", g.cfg.Rank)), fault.Cause(err))
	}
	if kind == fault.Unavailable && ctx.Err() == nil { // another start of this trainer would not help either
		kind = fault.TooLarge
	}
	return fault.E(kind, fault.At(fmt.Sprintf("trainer %d", g.cfg.Rank)), fault.Cause(err), fault.Hint(hintAfter(g.cfg.Spec, g.lastCut(ctx))))
}

// lastCutTime bounds the checkpoint that is made of what could not be saved.
const lastCutTime = time.Minute

// lastCut makes a checkpoint of the trained state, which servers lose when the job ends. It returns nil where the job makes none, or could not make this one.
func (g *generationRun) lastCut(ctx context.Context) (last *job.CheckpointStatus) {
	if g.cfg.Spec.Checkpoints.GetStore() == "" {
		return nil
	}
	target := callTarget{"coordinator", "a checkpoint of the trained state, which is not saved elsewhere"}
	err := g.caller.within(ctx, lastCutTime, target, func(ctx context.Context, retry id.Retry) (err error) {
		last, err = g.cfg.Coordinator.Checkpoint(ctx, &rpc.CheckpointRequest{Job: g.id(0, retry).Job, Who: fmt.Sprintf("trainer %d", g.cfg.Rank)}, grpc.WaitForReady(false))
		return err
	})
	if err != nil {
		g.cfg.Log.Warn("no checkpoint of the trained state", "store", g.cfg.Spec.Checkpoints.Store, "error", err)
		return nil
	}
	return last
}

// hintAfter says what is left of a training whose state could not be saved. last is the checkpoint that was made of it; nil: none was.
func hintAfter(spec *job.JobSpec, last *job.CheckpointStatus) string {
	store := spec.Checkpoints.GetStore()
	switch {
	case store == "":
		return "a job with --checkpoint keeps what it has trained"
	case last.GetName() != "":
		return fmt.Sprintf("a checkpoint has the trained state, after %d steps: \"edl checkpoint export %s@%s -o DIR\" writes it", last.Steps, store, last.Name)
	}
	return fmt.Sprintf("no last checkpoint could be made; if the job has made one before, what was trained until then is in %s: \"edl checkpoint list %s\" shows it",
		store, store)
}

// saveOnce receives every persistable variable, and writes those directories that have not been written yet.
func (g *generationRun) saveOnce(ctx context.Context, progress *job.Progress) error {
	err := g.storage.begin()
	if err == nil {
		g.comm.Receive(final)
		_, err = g.saver.Run(ctx, g.cfg.Save, nil)
	}
	if err == nil {
		err = g.storage.commit(progress)
	}
	return errors.Join(err, g.storage.failure())
}

// storage writes the state of a job into several directories: the same values into each. The zero storage has none. If a directory after the first one
// cannot be written, it is left out until the next begin, and failure tells why: the first one is still whole.
type storage struct {
	mu   sync.Mutex
	dirs []*savedDir // guarded by mu
}

// A savedDir is a directory of a storage.
type savedDir struct {
	name   string
	writer *executor.StateWriter
	failed error // why it is left out
	done   bool  // it has the state
}

var _ ops.Storage = (*storage)(nil)

// openStorage makes the directories, but for empty names.
func openStorage(files executor.Files, names ...string) (*storage, error) {
	s := &storage{}
	for _, name := range names {
		if name == "" {
			continue
		}
		writer, err := files.NewStateWriter(name)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.dirs = append(s.dirs, &savedDir{name: name, writer: writer})
	}
	return s, nil
}

// each calls do with every directory that is written now. A directory after the first one for which do fails is left out from then on.
func (s *storage) each(do func(d *savedDir) error) error {
	s.mu.Lock()
	dirs := slices.Clone(s.dirs)
	s.mu.Unlock()
	for i, d := range dirs {
		if s.failureOf(d) != nil || d.done {
			continue
		}
		if err := do(d); err != nil {
			if i == 0 {
				return err
			}
			s.mu.Lock()
			d.failed = errors.Join(d.failed, err)
			s.mu.Unlock()
		}
	}
	return nil
}

func (s *storage) failureOf(d *savedDir) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.failed
}

// failure returns why directories were left out.
func (s *storage) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	for _, d := range s.dirs {
		err = errors.Join(err, d.failed)
	}
	return err
}

// waiting names the directories that do not have the state yet.
func (s *storage) waiting() string {
	var names []string
	for _, d := range s.dirs {
		if !d.done {
			names = append(names, d.name)
		}
	}
	return strings.Join(names, ", ")
}

// only leaves one directory and ends the use of the others.
func (s *storage) only(name string) (err error) {
	var kept []*savedDir
	for _, d := range s.dirs {
		if d.name == name {
			kept = append(kept, d)
		} else {
			err = errors.Join(err, d.writer.Close())
		}
	}
	s.dirs = kept
	return err
}

// Close ends the use of the directories.
func (s *storage) Close() (err error) {
	for _, d := range s.dirs {
		err = errors.Join(err, d.writer.Close())
	}
	return err
}

// Save implements ops.Storage.
func (s *storage) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	return s.each(func(d *savedDir) error { return d.writer.Save(name, tensors, overwrite) })
}

// SaveShort implements ops.Storage.
func (s *storage) SaveShort(name string, t *tensor.Tensor, overwrite bool) error {
	return s.each(func(d *savedDir) error { return d.writer.SaveShort(name, t, overwrite) })
}

// Load implements ops.Storage: a trainer loads nothing with ops.
func (s *storage) Load(name string, _ []*tensor.Tensor) error {
	return fault.E(fault.Unsupported, fault.At(name), fault.Got("a load op in a save program"))
}

// begin begins a state in each directory that does not have it yet.
func (s *storage) begin() error {
	for _, d := range s.dirs {
		d.failed = nil
	}
	return s.each(func(d *savedDir) error { return d.writer.Begin() })
}

// commit makes what was saved since begin the state in each directory. A nil progress is not known.
func (s *storage) commit(p *job.Progress) error {
	var progress *executor.Progress
	if p != nil {
		now := jobspec.ProgressOf(p)
		progress = &now
	}
	return s.each(func(d *savedDir) error {
		err := d.writer.Commit(progress)
		d.done = err == nil
		return err
	})
}
