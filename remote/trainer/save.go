package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/tensor"
)

// finish saves the state if this trainer is the one to do so, and takes leave of the servers.
func (g *generationRun) finish(ctx context.Context) error {
	if len(g.storage.dirs) == 0 {
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
	if err != nil {
		return err
	}
	return g.comm.Complete(ctx)
}

// save receives every persistable variable as it is when all others have completed, and writes them and the progress. If only the user's directory
// cannot be written, the kept state is whole when save returns the error.
func (g *generationRun) save(ctx context.Context, progress *job.Progress) error {
	if g.in.DataEnded { // then the variables that no server holds are not there yet
		if err := g.startup(ctx); err != nil {
			return err
		}
	}
	err := g.storage.begin()
	if err == nil {
		g.comm.Receive(final)
		_, err = g.saver.Run(ctx, g.cfg.Save, nil)
	}
	if err == nil {
		err = g.storage.commit(progress)
	}
	if err = errors.Join(err, g.storage.failure()); err != nil {
		return fault.E(fault.KindOf(err), fault.At(fmt.Sprintf("trainer %d", g.cfg.Rank)), fault.Cause(err))
	}
	return nil
}

// storage writes the state of a job into several directories: the same values into each. The zero storage has none. If a directory after the first one
// cannot be written, it is left out, and failure tells why: the first one is still whole.
type storage struct {
	mu     sync.Mutex
	names  []string // of the directories; guarded by mu
	dirs   []*executor.StateWriter
	failed error // why directories were left out; guarded by mu
}

var _ ops.Storage = (*storage)(nil)

// openStorage makes the directories, but for empty names.
func openStorage(names ...string) (*storage, error) {
	s := &storage{}
	for _, name := range names {
		if name == "" {
			continue
		}
		dir, err := executor.NewStateWriter(name)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.names, s.dirs = append(s.names, name), append(s.dirs, dir)
	}
	return s, nil
}

// each calls do with every directory. A directory after the first one for which do fails is left out from then on.
func (s *storage) each(do func(dir *executor.StateWriter) error) error {
	s.mu.Lock()
	names, dirs := slices.Clone(s.names), slices.Clone(s.dirs)
	s.mu.Unlock()
	for i, name := range names {
		err := do(dirs[i])
		if err != nil && i == 0 {
			return err
		}
		if err != nil {
			s.leaveOut(name, err)
		}
	}
	return nil
}

// leaveOut ends the use of a directory after an error. Only the first error of a directory counts.
func (s *storage) leaveOut(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.names, name); i >= 0 {
		s.failed = errors.Join(s.failed, err, s.dirs[i].Close())
		s.names, s.dirs = slices.Delete(s.names, i, i+1), slices.Delete(s.dirs, i, i+1)
	}
}

// failure returns why directories were left out.
func (s *storage) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// only leaves one directory and ends the use of the others.
func (s *storage) only(name string) (err error) {
	names, dirs := s.names, s.dirs
	s.names, s.dirs = nil, nil
	for i, dir := range dirs {
		if names[i] == name {
			s.names, s.dirs = append(s.names, name), append(s.dirs, dir)
		} else {
			err = errors.Join(err, dir.Close())
		}
	}
	return err
}

// Close ends the use of the directories.
func (s *storage) Close() (err error) {
	for _, dir := range s.dirs {
		err = errors.Join(err, dir.Close())
	}
	return err
}

// Save implements ops.Storage.
func (s *storage) Save(name string, tensors []*tensor.Tensor, overwrite bool) error {
	return s.each(func(dir *executor.StateWriter) error { return dir.Save(name, tensors, overwrite) })
}

// Load implements ops.Storage: a trainer loads nothing with ops.
func (s *storage) Load(name string, _ []*tensor.Tensor) error {
	return fault.E(fault.Unsupported, fault.At(name), fault.Got("a load op in a save program"))
}

// begin begins a state in each directory.
func (s *storage) begin() error { return s.each((*executor.StateWriter).Begin) }

// commit makes what was saved since begin the state in each directory. A nil progress is not known.
func (s *storage) commit(p *job.Progress) error {
	var progress *executor.Progress
	if p != nil {
		progress = &executor.Progress{Steps: p.Steps, Pass: int(p.Pass), Batch: p.Batch, Reader: p.Reader}
	}
	return s.each(func(dir *executor.StateWriter) error { return dir.Commit(progress) })
}
