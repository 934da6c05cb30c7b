package remote

import (
	"bytes"
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/sparse"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/tensor"
)

// readBytes is how many bytes of variables one call asks a listener for, as far as their declarations tell.
const readBytes = 256 << 20

// A state is what the listener keeps for an executor while no fed job has it. It implements what an executor does with kept states: begin a job with
// one, take the one that a job leaves, read, write and release.
type state struct {
	client  *Client
	id      string // of the kept state; empty: the state is empty
	version int    // counts kept states. A job with a name leaves each of its states under the same id
	now     executor.Progress
	sizes   map[string]int64 // bytes of the variables that the programs of this executor have declared
}

// note takes note of the variables of a program that acts on the state.
func (s *state) note(p *program.Program) {
	for _, name := range executor.Persistables(p) {
		v, _ := p.Global().Var(name)
		elements := int64(1)
		for _, d := range v.Dims {
			elements *= max(1, d)
		}
		s.sizes[name] = elements * int64(v.DType.Size())
	}
}

// spec returns the spec of a job of program p that begins with the state and leaves its own behind.
func (s *state) spec(template *JobSpec, p *program.Program) *JobSpec {
	spec := proto.Clone(template).(*JobSpec)
	spec.State, spec.KeepState, spec.Partial = s.id, true, s.id != ""
	s.note(p)
	return spec
}

// become makes a state that a job or an upload has left the one of the executor. The one before it is released; where that fails, the listener does
// it in its time.
func (s *state) become(ctx context.Context, id string, p *job.Progress) {
	before := s.id
	s.id, s.now = id, jobspec.ProgressOf(p)
	s.version++
	if before != "" && before != id {
		_ = s.client.ReleaseState(ctx, before)
	}
}

// atOnce is how many of the named variables one call asks for.
func (s *state) atOnce(names []string) (n int) {
	bytes := int64(0)
	for n < len(names) && (n == 0 || bytes+s.sizes[names[n]] <= readBytes) {
		bytes += s.sizes[names[n]]
		n++
	}
	return n
}

// read calls take with those of the named variables that the state has.
func (s *state) read(ctx context.Context, names []string, take func(name string, value *tensor.Tensor) error) error {
	for s.id != "" && len(names) > 0 {
		n := s.atOnce(names)
		values, err := s.client.ReadState(ctx, s.id, names[:n])
		if err != nil {
			return err
		}
		for _, v := range values.Values {
			t, err := decode(v)
			if err == nil {
				err = take(v.Name, t)
			}
			if err != nil {
				return err
			}
		}
		names = names[n:]
	}
	return nil
}

// Save implements executor.Executor. A fed job ends in good order before; the next step begins another one.
func (e *Executor) Save(ctx context.Context, dir string, p *program.Program) error {
	if err := executor.CheckProgram(p); err != nil {
		return err
	}
	caller := ctx
	ctx, leave, err := e.enter(ctx, "Save", true)
	if err != nil {
		return err
	}
	defer leave()
	return orClosed(e.open, caller, "Save", e.save(ctx, dir, p))
}

func (e *Executor) save(ctx context.Context, dir string, p *program.Program) error {
	if err := executor.PrepareSave(dir, p); err != nil {
		return err
	}
	if err := e.fed.settle(ctx); err != nil {
		return err
	}
	e.state.note(p)
	scope, now := executor.NewScope(), e.state.now
	var fromJob, fromState []string
	for _, name := range executor.Persistables(p) {
		if e.trains != nil && e.trains.has(name) {
			fromJob = append(fromJob, name)
		} else {
			fromState = append(fromState, name)
		}
	}
	err := e.state.read(ctx, fromState, scope.Set)
	if err == nil && e.trains != nil {
		now, err = e.trains.read(ctx, &e.state, fromJob, scope.Set)
	}
	if err != nil {
		return err
	}
	return executor.SaveState(scope, dir, p, &now)
}

// Load implements executor.Executor. The files are read here and sent to the listener.
func (e *Executor) Load(ctx context.Context, from string, p *program.Program, options executor.LoadOptions) (executor.LoadReport, error) {
	if err := executor.CheckProgram(p); err != nil {
		return executor.LoadReport{}, err
	}
	caller := ctx
	ctx, leave, err := e.enter(ctx, "Load", false)
	if err != nil {
		return executor.LoadReport{}, err
	}
	defer leave()
	report, err := e.load(ctx, from, p, options)
	return report, orClosed(e.open, caller, "Load", err)
}

func (e *Executor) load(ctx context.Context, from string, p *program.Program, options executor.LoadOptions) (executor.LoadReport, error) {
	local := executor.New()
	defer local.Close()
	report, err := local.Load(ctx, from, p, options)
	if err != nil {
		return executor.LoadReport{}, err
	}
	if err := e.fed.settle(ctx); err != nil {
		return executor.LoadReport{}, err
	}
	whole := &rpc.StateValues{Namespace: e.spec.Namespace, Progress: jobspec.ProgressMessage(local.Progress())}
	grown := sparse.Grown(p)
	add := func(name string, value *tensor.Tensor) error {
		var file bytes.Buffer
		var err error
		if grown[name] {
			err = tensor.WriteShort(&file, value)
		} else {
			_, err = value.WriteTo(&file)
		}
		whole.Values = append(whole.Values, &job.Value{Name: name, Stream: file.Bytes()})
		return err
	}
	loaded := executor.Persistables(p)
	for _, name := range loaded {
		value, ok := local.Scope().Find(name)
		if !ok {
			return executor.LoadReport{}, fault.E(fault.NotFound, fault.Var(name), fault.Got("no value after Load"), fault.Want("a startup program that sets it"))
		}
		if err := add(name, value); err != nil {
			return executor.LoadReport{}, err
		}
	}
	others := slices.DeleteFunc(sortedNames(e.state.sizes), func(name string) bool { return slices.Contains(loaded, name) })
	if err := e.state.read(ctx, others, add); err != nil {
		return executor.LoadReport{}, err
	}
	id, err := e.client.WriteState(ctx, whole)
	if err != nil {
		return executor.LoadReport{}, err
	}
	e.state.note(p)
	e.state.become(ctx, id, whole.Progress)
	e.forgetValues()
	return report, nil
}

// values returns a local executor that has the values of the state for p, a program that trains nothing. Variables that the state does not have are
// left to the startup program of p.
func (e *Executor) values(ctx context.Context, p *program.Program) (*executor.Local, error) {
	if e.local == nil {
		e.local = executor.New()
	}
	var fromJob, fromState []string
	for _, name := range executor.Persistables(p) {
		if e.fed.has(name) || e.trains != nil && e.trains.has(name) {
			fromJob = append(fromJob, name)
		} else if e.read[name] != e.state.version {
			fromState = append(fromState, name)
		}
	}
	var now executor.Progress
	switch {
	case e.trains != nil:
		e.state.note(p)
		var err error
		now, err = e.trains.read(ctx, &e.state, fromJob, func(name string, value *tensor.Tensor) error {
			delete(e.read, name)
			return e.local.Scope().Set(name, value)
		})
		if err != nil {
			return nil, err
		}
	case len(fromJob) > 0:
		values, err := e.fed.read(ctx, fromJob)
		if err != nil {
			return nil, err
		}
		for i, name := range fromJob {
			if err := e.local.Scope().Set(name, values[i]); err != nil {
				return nil, err
			}
			delete(e.read, name)
		}
	}
	err := e.state.read(ctx, fromState, func(name string, value *tensor.Tensor) error {
		e.read[name] = e.state.version
		return e.local.Scope().Set(name, value)
	})
	if e.trains == nil {
		now = e.state.now
		now.Steps = e.fed.steps()
	}
	e.local.SetProgress(now)
	return e.local, err
}

// forgetValues drops the values that were read of a state that is not the executor's any more.
func (e *Executor) forgetValues() {
	if e.local != nil {
		_ = e.local.Close() // no step of it runs
		e.local = nil
	}
	clear(e.read)
}
