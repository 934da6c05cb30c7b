package testkit

import (
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Persistables returns what a scope holds of the persistable variables of p.
func Persistables(scope *executor.Scope, p *program.Program) map[string]*tensor.Tensor {
	values := map[string]*tensor.Tensor{}
	for _, name := range executor.Persistables(p) {
		if v, ok := scope.Find(name); ok {
			values[name] = v
		}
	}
	return values
}

// Saved returns the persistable variables of p that a job has saved, read as a local run would read them.
func Saved(t TB, dir string, p *program.Program) map[string]*tensor.Tensor {
	t.Helper()
	scope := executor.NewScope()
	if err := executor.LoadPersistables(scope, dir, p); err != nil {
		t.Fatal(err)
	}
	return Persistables(scope, p)
}
