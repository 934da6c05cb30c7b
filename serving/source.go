package serving

import (
	"context"
	"errors"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A Source has the parameters of a model, apart from its program, and gets others while the model is served. Package serving/follow has one for the checkpoints of jobs. A Model calls its methods one
// after another.
type Source interface {
	// Newest returns the newest state: fault.NotFound if there is none yet.
	Newest(ctx context.Context) (State, error)
	// Changed reports whether there may be another state than at its last call. It is called often.
	Changed(ctx context.Context) (bool, error)
}

// A State is the parameters of a model at one time. Of a state that was removed, methods fail with fault.NotFound.
type State interface {
	// Name is the same for the same state alone.
	Name() string
	// Describe returns type and dims of a variable; ok is false where the state does not have it.
	Describe(variable string) (dtype tensor.DType, dims []int64, ok bool)
	// Same reports whether a variable has the same elements in an earlier state of the source. It may report false where they are equal.
	Same(variable string, since State) bool
	// Load reads a variable into a tensor of its type and dims. If since is not nil, the tensor has the variable as it is in that state.
	Load(ctx context.Context, variable string, since State, into *tensor.Tensor) error
}

// WithSource takes parameters from a source, and with WithReload takes each new state of it. Until there is a first one, the model has the parameters that lie beside its program, if any.
func WithSource(source Source) Option { return func(s *settings) { s.source = source } }

// WithTables keeps parameters that have at least so many bytes in files without a name in dir, "" for the directory of temporary files. The system brings rows to memory as they are looked up,
// so tables may be larger than memory. When others are read, they take twice their size of the disk, since requests go on with the rows with which they began. Where a dir has no room for a parameter of the
// model's files, it lies in memory; one of a source is an error. The default is 64 MiB in the directory of temporary files.
func WithTables(dir string, least int64) Option {
	return func(s *settings) { s.tables = tablesOf{dir: dir, least: max(1, least)} }
}

// tries bounds how often a model looks for another state when the one that it reads is removed.
const tries = 3

// loadSource reads the newest state for a program. It reads only what is not as in the state of old, which may be nil.
func (m *Model) loadSource(ctx context.Context, p *program.Program, old *version) (*parameters, error) {
	var state State
	for try := 1; ; try++ {
		next, err := m.settings.source.Newest(ctx)
		if err != nil {
			return nil, err
		}
		if state != nil && next.Name() == state.Name() {
			return nil, fault.E(fault.Unavailable, fault.At(m.path), fault.Got("a state whose parts were removed while they were read"), fault.Want("one that stays, or a newer one"))
		}
		state = next
		loaded, err := m.loadState(ctx, p, state, old)
		if err == nil || try == tries || !errors.Is(err, fault.NotFound) {
			return loaded, err
		}
	}
}

// parameters are those of a version, with what they lie in.
type parameters struct {
	scope  *executor.Scope
	state  State            // nil: of files
	values map[string]value // of state; of files those that lie in tables
}

// A value is a parameter of a state.
type value struct {
	tensor *tensor.Tensor
	table  *table // that has it; nil: memory that the collector frees
}

// end lets go of the tables.
func (l *parameters) end() {
	for _, v := range l.values {
		if v.table != nil {
			v.table.release()
		}
	}
}

// loadState reads a state. Parameters that are the same in the state of old are shared with it.
func (m *Model) loadState(ctx context.Context, p *program.Program, state State, old *version) (_ *parameters, err error) {
	loaded := &parameters{scope: executor.NewScope(), state: state, values: map[string]value{}}
	defer func() {
		if err != nil {
			loaded.end()
		}
	}()
	var before *parameters
	if old != nil && old.params.state != nil {
		before = old.params
	}
	for _, name := range executor.Persistables(p) {
		declared, _ := p.Global().Var(name)
		dtype, dims, ok := state.Describe(name)
		if !ok {
			return nil, fault.E(fault.InvalidArgument, fault.At(state.Name()), fault.Var(name), fault.Got("no such variable"), fault.Want("the state of a job that trains this model"))
		}
		if dtype == tensor.BFloat16 && declared.DType == tensor.Float32 && export.OnlyLookedUp(p, name) {
			declared.DType = dtype // an export has declared it wider than it is stored
		}
		fits := dtype == declared.DType && len(dims) == len(declared.Dims)
		for i := 0; fits && i < len(dims); i++ {
			fits = declared.Dims[i] < 0 || declared.Dims[i] == dims[i]
		}
		if !fits {
			return nil, fault.E(fault.ShapeMismatch, fault.At(state.Name()), fault.Var(name), fault.Gotf("%s%v", dtype, dims), fault.Wantf("%s%v, as the program declares", declared.DType, declared.Dims))
		}
		v, err := m.loadValue(ctx, name, dtype, dims, state, before)
		if err != nil {
			return nil, err
		}
		loaded.values[name] = v
		if err := loaded.scope.Set(name, v.tensor); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// loadValue reads a variable, or shares it with the state before.
func (m *Model) loadValue(ctx context.Context, name string, dtype tensor.DType, dims []int64, state State, before *parameters) (value, error) {
	var since State
	var had value
	if before != nil {
		if had = before.values[name]; had.tensor != nil {
			since = before.state
		}
	}
	if since != nil && state.Same(name, since) {
		if had.table != nil {
			had.table.retain()
		}
		return had, nil
	}
	n, ok := tensor.Count(dims)
	if ok && m.tables.holds(int64(n), dtype) {
		t, err := m.tables.take(name, dtype, dims)
		if err != nil {
			return value{}, err
		}
		if err := t.load(ctx, state); err != nil {
			t.release()
			return value{}, err
		}
		return value{t.tensor, t}, nil
	}
	if since != nil {
		t := had.tensor.Clone()
		return value{tensor: t}, state.Load(ctx, name, since, t)
	}
	t, err := tensor.New(dtype, dims...)
	if err != nil {
		return value{}, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	return value{tensor: t}, state.Load(ctx, name, nil, t)
}
