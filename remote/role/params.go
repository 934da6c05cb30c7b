package role

import (
	"os"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// loadPieces gives a pserver's variables their rows of the whole variables in dir, which holds one file per variable of the user's
// program. So a model saved from any number of servers, or from one machine, starts a job of any other number.
func loadPieces(scope *executor.Scope, dir string, p *program.Program) error {
	service, err := serviceOf(p)
	if err != nil {
		return err
	}
	return withFiles(dir, func(files *executor.DirStorage) error {
		whole := map[string]*tensor.Tensor{}
		for _, s := range service.Slices {
			declared, ok := p.Global().Var(s.Name)
			if !ok {
				return fault.E(fault.InvalidProgram, fault.Var(s.Name), fault.Got("a slice that block 0 does not declare"))
			}
			if whole[s.Origin] == nil {
				dims := append([]int64(nil), declared.Dims...)
				if len(dims) > 0 {
					dims[0] = s.TotalRows
				}
				if whole[s.Origin], err = load(files, s.Origin, declared.DType, dims); err != nil {
					return err
				}
			}
			piece := whole[s.Origin]
			if s.Rows != s.TotalRows {
				if piece, err = piece.Rows(s.FirstRow, s.FirstRow+s.Rows); err != nil {
					return err
				}
			}
			if err := scope.Set(s.Name, piece.Clone()); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadConstants gives a trainer the persistable variables that no server holds.
func loadConstants(scope *executor.Scope, dir string, p *program.Program) error {
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
	return withFiles(dir, func(files *executor.DirStorage) error {
		for _, name := range executor.Persistables(p) {
			if received[name] {
				continue
			}
			declared, _ := p.Global().Var(name)
			t, err := load(files, name, declared.DType, declared.Dims)
			if err != nil {
				return err
			}
			if err := scope.Set(name, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func load(files *executor.DirStorage, name string, dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	t, err := tensor.New(dtype, dims...)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	return t, files.Load(name, []*tensor.Tensor{t})
}

func withFiles(dir string, use func(*executor.DirStorage) error) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fault.E(fault.NotFound, fault.At(dir), fault.Got("no directory of parameters"), fault.Want("one file per variable"),
			fault.Cause(err))
	}
	files, err := executor.NewStorage(dir)
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
