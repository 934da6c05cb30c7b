package serving

import (
	"context"
	"errors"
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// read reads the files of the model, and makes them its present version.
func (m *Model) read(ctx context.Context) error {
	m.reading.Lock()
	defer m.reading.Unlock()
	if m.closed.Load() {
		return closed(m.path)
	}
	seen, err := m.look()
	if err != nil {
		return err
	}
	old := m.current.Load()
	p, params, err := m.load(ctx, old)
	if err != nil {
		return err
	}
	again, err := m.look()
	if err == nil && !again.equal(seen) {
		err = fault.E(fault.Unavailable, fault.At(m.path), fault.Got("files that change while they are read"), fault.Want("a model that stays, or is replaced at once"))
	}
	if err != nil {
		params.end()
		return err
	}
	number := 1
	if old != nil {
		number = old.number + 1
	}
	v, err := newVersion(ctx, p, params, number, &m.settings, &m.versions) // which ends params
	if err != nil {
		return err
	}
	m.seen = seen
	m.current.Store(v)
	if old != nil {
		old.release()
	}
	return nil
}

// load reads the inference program and its parameters. old is the version before, if any.
func (m *Model) load(ctx context.Context, old *version) (*program.Program, *parameters, error) {
	path, whole, p, err := m.loadProgram()
	if err != nil {
		return nil, nil, err
	}
	if m.settings.source != nil {
		params, err := m.loadSource(ctx, p, old)
		if err == nil && old == nil {
			m.settings.log.InfoContext(ctx, "the model has the parameters of a state that it follows", "path", path, "state", params.state.Name())
		}
		if !errors.Is(err, fault.NotFound) || m.paramsOf(path) == "" {
			return p, params, err
		}
		m.settings.log.WarnContext(ctx, "there is no state to follow yet, so requests are answered with the parameters beside the program until there is one", "path", path, "error", err)
	}
	params := m.paramsOf(path)
	if params == "" {
		if len(executor.Persistables(p)) > 0 {
			return nil, nil, fault.E(fault.NotFound, fault.At(path), fault.Got("a program whose name does not say where its parameters are"), fault.Want("their path (WithParams, --params)"))
		}
		return p, &parameters{scope: executor.NewScope()}, nil
	}
	loaded, err := m.loadFiles(ctx, params, whole, p)
	return p, loaded, err
}

// loadFiles reads the parameters beside a program. Large ones lie in files of their own, so that nobody can change them, or in memory if there is no room for that.
func (m *Model) loadFiles(ctx context.Context, path string, whole, p *program.Program) (_ *parameters, err error) {
	loaded := &parameters{values: map[string]value{}}
	defer func() {
		if err != nil {
			loaded.end()
		}
	}()
	place := func(name string, dtype tensor.DType, dims []int64, bytes int64) (*tensor.Tensor, error) {
		if !m.tables.holds(bytes/int64(dtype.Size()), dtype) {
			return nil, nil
		}
		if again, ok := loaded.values[name]; ok {
			again.table.release()
			delete(loaded.values, name)
		}
		t, err := m.tables.take(name, dtype, dims)
		if err != nil {
			m.settings.log.WarnContext(ctx, "a parameter has no room in a file, and lies in memory", "path", path, "error", err)
			return nil, nil
		}
		t.state = nil
		loaded.values[name] = value{t.tensor, t}
		return t.tensor, nil
	}
	loaded.scope, err = export.LoadParamsInto(place, path, whole, p)
	return loaded, notAllThere(err)
}

// notAllThere says what to do when files do not have the variables of the program. A server loads all of them or none, so what helps a program that trains does not help here.
func notAllThere(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.NotFound && f.Kind != fault.ShapeMismatch || f.Variable == "" {
		return err
	}
	c := *f
	c.Hint = "export the model again: \"edl export\" writes the program and all its parameters"
	return &c
}

// loadProgram reads the program at the path of the model, whole and as it is served.
func (m *Model) loadProgram() (path string, whole, p *program.Program, err error) {
	if path, err = programOf(m.path); err != nil {
		return "", nil, nil, err
	}
	if whole, err = program.Load(path, program.DefaultLimits()); err != nil {
		return "", nil, nil, err
	}
	if p, err = export.Program(whole, nil, m.settings.fetch); err != nil {
		var hint fault.Hint
		if len(m.settings.fetch) == 0 && len(whole.Targets()) == 0 {
			hint = "WithFetch or --fetch NAME,... says what the model computes"
		}
		return "", nil, nil, fault.E(fault.KindOf(err), fault.At(path), fault.Cause(err), hint)
	}
	return path, whole, p, ops.Verify(p, program.StageLocal)
}

// paramsOf returns the path of the parameters of the program at path, "" for none.
func (m *Model) paramsOf(path string) string {
	if m.settings.params != "" {
		return m.settings.params
	}
	return export.ParamsOf(path)
}

// programOf returns the path of the program of a model.
func programOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fault.File(fault.InvalidArgument, path, err)
	}
	if !info.IsDir() {
		return path, export.RefuseONNX(path)
	}
	if err := executor.CheckComplete(path); err != nil {
		return "", err
	}
	found, err := export.ProgramIn(path, func(path string) bool {
		_, err := program.Load(path, program.DefaultLimits())
		return err == nil
	})
	if err == nil && found == "" {
		err = fault.E(fault.NotFound, fault.At(path), fault.Got("a directory without "+export.ModelFile), fault.Want("a model that was exported"), fault.Hint("\"edl export\" writes one"))
	}
	return found, err
}
