package role

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// startState is the state that a job starts with, one file per variable of the user's program. So a state that was saved from any number of servers, or
// from one machine, starts a job of any other number.
type startState struct {
	dir     string // empty: the startup program makes all
	partial bool   // the startup program makes what dir does not have
	files   executor.Files
	reshape bool // and what it has with another type or other dims
}

func (r *runner) start() startState {
	// A program takes from the state of an executor what has its name. Other dims are a mistake there: they would drop a trained variable silently.
	return startState{cmp.Or(r.spec.StateDir, r.spec.Spec.Params), r.spec.Spec.Partial, executor.FilesOf(confined(context.Background(), r)), r.spec.StateDir == ""}
}

// loadPieces gives a pserver's variables their rows of the whole variables.
func (s startState) loadPieces(scope *executor.Scope, p *program.Program) error {
	if s.dir == "" {
		return nil
	}
	service, err := serviceOf(p)
	if err != nil {
		return err
	}
	return s.withFiles(func(files *executor.DirStorage) error {
		whole, loaded := map[string]*tensor.Tensor{}, map[string]bool{}
		for _, slice := range service.Slices {
			declared, ok := p.Global().Var(slice.Name)
			if !ok {
				return fault.E(fault.InvalidProgram, fault.Var(slice.Name), fault.Got("a slice that block 0 does not declare"))
			}
			if !loaded[slice.Origin] {
				loaded[slice.Origin] = true
				dims := append([]int64(nil), declared.Dims...)
				if len(dims) > 0 {
					dims[0] = slice.TotalRows
				}
				if whole[slice.Origin], err = s.load(files, slice.Origin, declared.DType, dims); err != nil {
					return err
				}
			}
			piece := whole[slice.Origin]
			if piece == nil {
				continue
			}
			if piece, err = pieceOf(slice, piece); err == nil {
				err = scope.Set(slice.Name, piece)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// pieceOf copies the rows of a slice out of a whole variable.
func pieceOf(slice comm.Slice, whole *tensor.Tensor) (*tensor.Tensor, error) {
	if !slice.Striped {
		if slice.Whole() {
			return whole.Clone(), nil
		}
		piece, err := whole.Rows(slice.FirstRow, slice.FirstRow+slice.Rows)
		if err != nil {
			return nil, err
		}
		return piece.Clone(), nil
	}
	dims := slices.Clone(whole.Dims())
	dims[0] = slice.Rows
	piece, err := tensor.New(whole.DType(), dims...)
	if err != nil {
		return nil, err
	}
	from, err := wire.Memory(whole)
	to, err2 := wire.Memory(piece)
	if err = errors.Join(err, err2); err != nil || slice.Rows == 0 {
		return piece, err
	}
	stripes, each := kernel.StripesOf(slice.TotalRows), int64(len(to))/slice.Rows
	for at := range slice.Rows {
		copy(to[at*each:][:each], from[stripes.Row(slice.FirstRow+at)*each:])
	}
	return piece, nil
}

// constants returns what gives a trainer the persistable variables that no server holds; nil when the startup program makes them.
func (s startState) constants(p *program.Program) func(*executor.Scope) error {
	if s.dir == "" {
		return nil
	}
	names := constantNames(p)
	return func(scope *executor.Scope) error {
		return s.withFiles(func(files *executor.DirStorage) error {
			for _, name := range names {
				declared, _ := p.Global().Var(name)
				t, err := s.load(files, name, declared.DType, declared.Dims)
				if err == nil && t != nil {
					err = scope.Set(name, t)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// constantNames lists the persistable variables of a trainer program that no server holds.
func constantNames(p *program.Program) []string {
	received := map[string]bool{}
	if p.Startup != nil {
		for _, op := range p.Startup.Global().Ops {
			if op.Type == "recv" || op.Type == "concat" {
				for _, name := range op.OutputNames() {
					received[name] = true
				}
			}
		}
	}
	return slices.DeleteFunc(executor.Persistables(p), func(name string) bool { return received[name] })
}

// constant returns what finds a persistable variable of trainers that no server holds; nil when the startup program makes all.
func (s startState) constant(p *program.Program) func(name string) (*tensor.Tensor, error) {
	if s.dir == "" {
		return nil
	}
	return func(name string) (t *tensor.Tensor, err error) {
		declared, ok := p.Global().Var(name)
		if !ok || !declared.Persistable {
			return nil, nil
		}
		err = s.withFiles(func(files *executor.DirStorage) (err error) {
			t, err = s.load(files, name, declared.DType, declared.Dims)
			return err
		})
		return t, err
	}
}

// load returns a variable, or nil where the startup program is to make it.
func (s startState) load(files *executor.DirStorage, name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	t, err := tensor.New(dtype, dims...)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	err = files.Load(name, []*tensor.Tensor{t})
	if s.partial && (errors.Is(err, fs.ErrNotExist) || s.reshape && errors.Is(err, fault.ShapeMismatch)) {
		return nil, nil
	}
	if errors.Is(err, fault.ShapeMismatch) || errors.Is(err, fault.TypeMismatch) {
		return nil, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Cause(err),
			fault.Hint("another program has trained a variable of this name: name the layer, or use another executor"))
	}
	return t, err
}

func (s startState) withFiles(use func(*executor.DirStorage) error) error {
	files, err := s.files.OpenStorage(s.dir)
	if err != nil {
		return err
	}
	defer files.Close()
	return use(files)
}

// serviceOf finds the listen_and_serv op of a pserver program.
func serviceOf(p *program.Program) (comm.Service, error) {
	for _, op := range p.Global().Ops {
		if op.Type == "listen_and_serv" {
			return comm.ServiceOf(op)
		}
	}
	return comm.Service{}, fault.E(fault.InvalidProgram, fault.Got("no listen_and_serv"), fault.Want("a pserver program"))
}
