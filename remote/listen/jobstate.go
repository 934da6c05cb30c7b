package listen

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// A jobState is what a job starts with and what it leaves behind:
//
//	it starts with   spec.params, files of the user    or   a kept state    or   the startup program
//	it leaves        spec.save, files of the user      and  a kept state, if keep_state is set
type jobState struct {
	begin    executor.Progress
	dir      string // directory of the kept state that the roles start with; empty: params, or the startup program
	params   string // directory of parameters that the roles start with; empty: dir, or the startup program
	unpacked string // directory that a combined file of parameters was unpacked into; empty: none
	done     func() // with the kept state; nil: there is none
	keep     *expected
}

// openState makes ready what a job with this spec and program starts with. It takes as long as files are large.
func (m *Manager) openState(id string, spec *job.JobSpec, p *program.Program) (_ *jobState, err error) {
	s := &jobState{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if spec.State != "" {
		if s.dir, s.done, err = m.states.use(spec.State); err != nil {
			return nil, err
		}
	}
	base, from := s.dir, s.dir
	if spec.Params != "" { // they win over the state; variables of other programs stay
		if err := s.unpack(spec.Params, p, m.cfg.RunDir); err != nil {
			return nil, err
		}
		s.dir, from = "", s.params
	}
	var progress executor.Progress
	if from != "" && executor.Trains(p) { // an evaluation begins with its first step, whatever the state
		if progress, _, err = executor.ReadProgress(from); err != nil {
			return nil, err
		}
	}
	s.begin = jobspec.Begin(progress, executor.ReaderHash(p), spec.Fed)
	if spec.KeepState {
		s.keep, err = m.states.expect(id, spec.State, base)
	}
	return s, err
}

// unpack turns a combined parameter file into a directory of single ones, which is what roles load from: they know the variables
// of their own programs only, and a combined file does not name its own. The directory ends with the job.
func (s *jobState) unpack(from string, p *program.Program, scratch string) error {
	info, err := os.Stat(from)
	if err != nil {
		return fault.File(fault.InvalidArgument, from, err)
	}
	if info.IsDir() {
		s.params, err = filepath.Abs(from)
		return fault.Wrap(fault.InvalidArgument, from, err)
	}
	scope := executor.NewScope()
	if err := executor.LoadCombined(scope, from, p); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(scratch, "params-")
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

// give tells a role what it starts with and what it leaves.
func (s *jobState) give(spec *job.RoleSpec) {
	spec.Begin, spec.StateDir = jobspec.ProgressMessage(s.begin), s.dir
	if s.keep != nil && spec.Role == job.Role_TRAINER {
		spec.KeepDir = s.keep.dir
	}
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
	if s.keep != nil {
		s.keep.drop()
	}
	if s.done != nil {
		s.done()
	}
	if s.unpacked != "" {
		err = fault.Wrap(fault.Internal, s.unpacked, os.RemoveAll(s.unpacked))
	}
	return err
}
