package serving

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
)

// A version is a model as its files were at one time: a program, parameters, and workers. Requests that have begun with it end with it.
type version struct {
	program *program.Program
	schema  Schema
	number  int // 1 for the first
	since   time.Time
	params  *parameters
	queue   *queue
	workers []*worker

	mu    sync.Mutex
	users int             // requests, and the Model while the version is its present one; 0: it ends
	live  *sync.WaitGroup // counts the versions of the Model that have not ended
	err   error           // of its end
}

// newVersion makes the workers of a version, and lets each try what it will run. The version ends its parameters, also if newVersion fails.
func newVersion(ctx context.Context, p *program.Program, params *parameters, number int, s *settings, live *sync.WaitGroup) (made *version, err error) {
	v := &version{program: p, params: params, number: number, since: time.Now(), users: 1, live: live}
	live.Add(1)
	defer func() {
		if err != nil {
			v.release()
		}
	}()
	if v.schema, err = schemaOf(p); err != nil {
		return nil, err
	}
	v.queue = newQueue(s.workers)
	for range s.workers {
		own, err := scopeOfWorker(p, params.scope)
		if err != nil {
			return nil, err
		}
		w := &worker{version: v, exe: executor.New(executor.WithScope(own))}
		v.workers = append(v.workers, w)
		if v.schema.fixed {
			if err := w.prepare(ctx, s.maxBatch); err != nil {
				return nil, err
			}
		}
		v.queue.idle <- w
	}
	return v, nil
}

// scopeOfWorker returns a scope that shares the parameters of all workers, and has copies of what ops name as outputs, such as the moving statistics of batch norm: an
// executor takes back after each run what the run has changed.
func scopeOfWorker(p *program.Program, shared *executor.Scope) (*executor.Scope, error) {
	own := shared.NewChild()
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range op.OutputNames() {
				if v, ok := b.Find(name); !ok || !v.Persistable {
					continue
				}
				if t, ok := shared.Find(name); ok {
					if err := own.Set(name, t.Clone()); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	return own, nil
}

// retain keeps the version until release. It reports false if the version has ended.
func (v *version) retain() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users == 0 {
		return false
	}
	v.users++
	return true
}

// release ends what retain began. The last one ends the version.
func (v *version) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.users--; v.users > 0 {
		return
	}
	for _, w := range v.workers {
		v.err = errors.Join(v.err, w.exe.Close())
	}
	v.params.end()
	v.live.Done()
}
