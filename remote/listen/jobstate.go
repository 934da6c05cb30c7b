package listen

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/ops/reader"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/pserver"
)

// A jobState is what a job starts with and what it leaves behind:
//
//	it starts with   spec.params, files of the user    or   a kept state    or   a checkpoint    or   the startup program
//	it leaves        spec.save, files of the user      and  a kept state, if keep_state is set
type jobState struct {
	begin    executor.Progress
	restart  executor.Progress     // where the attempt begins: begin, or a checkpoint of the job after it
	last     *job.CheckpointStatus // the checkpoint of the job at restart; nil: none
	first    int                   // pass in which the job began, or the one whose checkpoint it has resumed
	passes   int                   // from first on; of a job that reads data
	ledger   []byte                // of that checkpoint, or of the pass in which an async job has ended; empty: nothing is trained yet
	origins  []string              // runs whose checkpoints this job goes on with, the last one last
	datasets []*rpc.Dataset        // that were read before that checkpoint, if the job goes on in them
	earlier  int64                 // records in it that a job before this one has trained, whose checkpoint or state this one has gone on with
	dir      string                // directory of the kept state that the roles start with; empty: params, or the startup program
	params   string                // directory of parameters that the roles start with; empty: dir, or the startup program
	unpacked string                // directory that parameters of one file, or of a bucket, were copied into; empty: none
	exported string                // directory that a checkpoint was exported to; empty: none
	done     func()                // with the kept state; nil: there is none
	saves    *executor.Hold        // of spec.save; nil: roles of other machines write there, or an earlier listener has made this ready
	keep     *expected
}

// openState makes ready what a job with this spec and program starts with. It takes as long as files are large.
func (m *Manager) openState(ctx context.Context, id string, spec *job.JobSpec, p *program.Program) (_ *jobState, err error) {
	s := &jobState{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if err := prepareStore(ctx, spec.Checkpoints); err != nil {
		return nil, err
	}
	if spec.Save != "" && launch.Here(m.cfg.Launcher) {
		if err := executor.FilesOf(ctx).PrepareSave(spec.Save, p); err != nil {
			return nil, err
		}
		if s.saves, err = executor.FilesOf(ctx).Hold(spec.Save); err != nil {
			return nil, err
		}
		if err := export.CheckSave(ctx, spec.Save, p, spec.Overwrite); err != nil {
			return nil, err
		}
	}
	if spec.State != "" {
		if err := m.states.mayUse(callerOf(ctx), spec.State, spec.Namespace); err != nil {
			return nil, err
		}
		if s.dir, s.done, err = m.states.use(spec.State); err != nil {
			return nil, err
		}
	}
	base, from := s.dir, s.dir
	if spec.Params != "" { // they win over the state; variables of other programs stay
		if err := s.unpack(executor.FilesOf(ctx), spec.Params, p, m.stateDir()); err != nil {
			return nil, err
		}
		s.dir, from = "", s.params
	}
	var progress executor.Progress
	if from != "" && executor.Trains(p) { // an evaluation begins with its first step, whatever the state
		files := executor.Files{} // of the listener
		if from == s.params && s.unpacked == "" {
			files = executor.FilesOf(ctx)
		}
		if progress, _, err = files.ReadProgress(from); err != nil {
			return nil, err
		}
	}
	if spec.Resume != "" {
		if progress, err = s.resume(ctx, spec, p, m.stateDir()); err != nil {
			return nil, err
		}
	}
	s.begin = jobspec.Begin(progress, executor.ReaderHash(p), spec.Fed)
	if s.begin.Files != "" && !spec.Fed {
		if s.datasets, err = jobspec.DatasetsOf(s.begin); err != nil {
			return nil, err
		}
	}
	if err := s.enterTrained(spec); err != nil {
		return nil, err
	}
	if s.restart = s.begin; spec.Resume == "" {
		s.first = s.begin.Pass
	}
	if s.passes, err = passesOf(p, spec); err != nil {
		return nil, err
	}
	if spec.Resume != "" && s.left() < 1 {
		return nil, fault.E(fault.InvalidArgument, fault.At(spec.Resume), fault.Gotf("a job whose %d passes are done", s.passes), fault.Want("more passes"),
			fault.Hintf("--passes counts all passes of the job, those before the checkpoint, too; \"edl checkpoint export %s -o DIR\" writes what is trained", spec.Resume))
	}
	if spec.KeepState {
		s.keep, err = m.states.expect(callerOf(ctx).user, id, spec.State, base)
	}
	return s, err
}

// enterTrained makes what is trained of the pass in which a job begins a part of its ledger, where the ledger says what is left of a pass. A sync job without backup
// trainers counts what it trains itself.
func (s *jobState) enterTrained(spec *job.JobSpec) error {
	if s.begin.Trained == "" || spec.Fed || spec.Mode == job.Mode_SYNC && jobspec.Backups(spec) == 0 {
		return nil
	}
	trained, ok := ranges.OfText(s.begin.Trained, math.MaxInt64)
	if !ok {
		return fault.E(fault.Corrupt, fault.Gotf("the trained records %s", fault.Quote(s.begin.Trained)))
	}
	ledger := &pserver.Ledger{}
	if len(s.ledger) > 0 {
		var err error
		if ledger, err = pserver.DecodeLedger(s.ledger); err != nil {
			return err
		}
	}
	if err := ledger.Commit(int32(s.begin.Pass), trained.Without(ledger.Committed(int32(s.begin.Pass)))); err != nil {
		return err
	}
	s.ledger, s.earlier = ledger.Encode(), 0
	s.earlier = s.records()
	return nil
}

// Names of directories of a job, in Manager.stateDir.
const (
	unpackedDir = "params-"
	exportedDir = "checkpoint-"
)

// leftBegins lists what earlier listeners have made in the data folder for jobs to begin with. Another directory than that of the data folder may be that of several listeners.
func leftBegins(m *Manager) (left []string) {
	if m.cfg.Data == nil || m.cfg.StateDir != m.cfg.Data.states() {
		return nil
	}
	entries, _ := os.ReadDir(m.cfg.StateDir) // what cannot be read is left
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), unpackedDir) || strings.HasPrefix(e.Name(), exportedDir) {
			left = append(left, filepath.Join(m.cfg.StateDir, e.Name()))
		}
	}
	return left
}

// removeBegins removes what is left, but for what jobs that were taken over begin with.
func removeBegins(m *Manager, left []string) {
	used := map[string]bool{}
	for _, j := range m.Jobs() {
		if j.inherited != nil {
			used[j.inherited.GetBegin().GetUnpacked()], used[j.inherited.GetBegin().GetExported()] = true, true
		}
	}
	for _, dir := range left {
		if used[dir] {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			m.cfg.Log.Warn("what a job of an earlier listener has begun with is left", "directory", dir, "error", err)
		}
	}
}

// unpack turns a combined parameter file into a directory of single ones, which is what roles load from: they know the variables
// of their own programs only, and a combined file does not name its own. The directory ends with the job.
func (s *jobState) unpack(files executor.Files, from string, p *program.Program, scratch string) error {
	if bucket.IsURL(from) {
		return s.fetch(files, from, scratch)
	}
	isDir, err := files.IsDir(from)
	if err != nil {
		return err
	}
	if isDir {
		s.params, err = filepath.Abs(from)
		return fault.Wrap(fault.InvalidArgument, from, err)
	}
	scope := executor.NewScope()
	if err := files.LoadFile(scope, from, p); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(scratch, unpackedDir)
	if err != nil {
		return fault.Wrap(fault.Internal, scratch, err)
	}
	s.unpacked = dir
	if err := executor.SavePersistables(scope, dir, p); err != nil {
		return err
	}
	s.params = dir
	return nil
}

// fetch copies a saved model from the URL of a bucket to a directory that ends with the job.
func (s *jobState) fetch(files executor.Files, from, scratch string) error {
	dir, err := os.MkdirTemp(scratch, unpackedDir)
	if err != nil {
		return fault.Wrap(fault.Internal, scratch, err)
	}
	s.unpacked, s.params = dir, filepath.Join(dir, "model")
	return files.FetchState(from, s.params)
}

// give tells a role what it starts with and what it leaves.
func (s *jobState) give(spec *job.RoleSpec) {
	spec.Begin, spec.StateDir = jobspec.ProgressMessage(s.restart), s.dir
	if s.exported != "" { // what a checkpoint lacks, the startup program makes
		spec.Spec = proto.CloneOf(spec.Spec)
		spec.Spec.Partial = true
		if s.passes > 0 {
			spec.Spec.Passes = int32(s.left())
		}
	}
	spec.FirstPass = int32(s.first)
	if spec.Role == job.Role_PSERVER && spec.Index == 0 {
		spec.Ledger = s.ledger
	}
	if s.keep != nil && spec.Role == job.Role_TRAINER {
		spec.KeepDir = s.keep.dir
	}
}

// left is how many passes are not done where the attempt begins. A job that is fed has no passes, and always something left.
func (s *jobState) left() int {
	if s.passes == 0 {
		return 1
	}
	return s.first + s.passes - s.restart.Pass
}

// passesOf is how often a job reads its data; 0 for one that is fed.
func passesOf(p *program.Program, spec *job.JobSpec) (int, error) {
	if spec.Fed {
		return 0, nil
	}
	if spec.Passes > 0 {
		return int(spec.Passes), nil
	}
	read, err := executor.ReadOp(p)
	if err != nil {
		return 0, err
	}
	pipeline, err := reader.PipelineOf(p.Global(), read)
	return max(1, pipeline.Passes), err
}

// finish keeps the state of a job, and returns its Progress if it is known. A job that has failed leaves a state only if its last step is trained and
// the state is whole, for example when the user's directory was full.
func (s *jobState) finish(failed bool) (*job.Progress, error) {
	if s.keep == nil {
		return nil, nil
	}
	if failed {
		if p, whole, err := executor.ReadProgress(s.keep.dir); err != nil || !whole || p.Steps <= s.begin.Steps {
			return nil, nil // close removes it
		}
	}
	p, err := s.keep.keep()
	s.keep = nil
	if err != nil {
		return nil, err
	}
	return jobspec.ProgressMessage(p), nil
}

// close removes what the job needed and does not leave.
func (s *jobState) close() (err error) {
	s.saves.Release()
	if s.keep != nil {
		s.keep.drop()
	}
	if s.done != nil {
		s.done()
	}
	for _, dir := range []string{s.unpacked, s.exported} {
		if dir != "" {
			err = errors.Join(err, fault.Wrap(fault.Internal, dir, os.RemoveAll(dir)))
		}
	}
	return err
}
