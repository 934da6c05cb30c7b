package executor

import (
	"context"

	"github.com/edl-go/edl/program"
)

// Save implements Executor.
func (l *Local) Save(ctx context.Context, dir string, p *program.Program) error {
	if err := l.acquire(ctx); err != nil {
		return err
	}
	defer l.release()
	return SavePersistables(l.scope, dir, p)
}

// Load implements Executor.
func (l *Local) Load(ctx context.Context, from string, p *program.Program, _ LoadOptions) (LoadReport, error) {
	if err := l.acquire(ctx); err != nil {
		return LoadReport{}, err
	}
	defer l.release()
	return LoadReport{Loaded: Persistables(p)}, LoadParams(l.scope, from, p)
}
