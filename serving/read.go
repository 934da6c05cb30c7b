package serving

import (
	"context"
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
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
	p, params, err := m.load()
	if err != nil {
		return err
	}
	again, err := m.look()
	if err != nil {
		return err
	}
	if !again.equal(seen) {
		return fault.E(fault.Unavailable, fault.At(m.path), fault.Got("files that change while they are read"), fault.Want("a model that stays, or is replaced at once"))
	}
	number := 1
	old := m.current.Load()
	if old != nil {
		number = old.number + 1
	}
	v, err := newVersion(ctx, p, params, number, &m.settings, &m.versions)
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

// load reads the inference program and its parameters.
func (m *Model) load() (*program.Program, *executor.Scope, error) {
	path, err := programOf(m.path)
	if err != nil {
		return nil, nil, err
	}
	whole, err := program.Load(path, program.DefaultLimits())
	if err != nil {
		return nil, nil, err
	}
	p, err := export.Program(whole, nil, m.settings.fetch)
	if err != nil {
		var hint fault.Hint
		if len(m.settings.fetch) == 0 && len(whole.Targets()) == 0 {
			hint = "WithFetch or --fetch NAME,... says what the model computes"
		}
		return nil, nil, fault.E(fault.KindOf(err), fault.At(path), fault.Cause(err), hint)
	}
	if err := ops.Verify(p, program.StageLocal); err != nil {
		return nil, nil, err
	}
	params := m.paramsOf(path)
	if params == "" {
		if len(executor.Persistables(p)) > 0 {
			return nil, nil, fault.E(fault.NotFound, fault.At(path), fault.Got("a program whose name does not say where its parameters are"), fault.Want("their path (WithParams, --params)"))
		}
		return p, executor.NewScope(), nil
	}
	scope, err := export.LoadParams(params, whole, p)
	return p, scope, err
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
