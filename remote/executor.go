// Package remote runs programs on many processes and machines: it has the executor that a user swaps for the local one.
//
//	exe := executor.New()                              // one machine
//	exe, err := remote.NewExecutor(address, spec)      // a cluster, with the same methods
//
// An Executor sends the program and a JobSpec to a listener (package listen, the command edl listen), which transpiles it and
// starts the roles. With an empty address it starts a listener of its own, inside of this process, whose roles are goroutines, or
// whatever WithLauncher says: the command edl run --remote gives it child processes and an etcd server.
//
// The rooms below: wire moves bytes, role runs one process of a job, which is a coordinator, a pserver or a trainer; cluster is where they find each
// other; launch starts them; listen runs whole jobs.
package remote

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"google.golang.org/protobuf/proto"
)

// JobSpec says what cluster a job wants: trainers, pservers, mode, deadlines. The zero value is one trainer and one pserver in sync mode.
type JobSpec = job.JobSpec

// Executor runs programs on a cluster. It is what RemoteExecutor is in Fluid's design, and implements executor.Executor. Its methods may be
// called from several goroutines; steps run one at a time.
type Executor struct {
	client   *Client
	embedded *Listener // nil when the listener is another's
	spec     *JobSpec
	open     context.Context // until Close
	shut     context.CancelFunc

	mu      sync.Mutex
	session *session
	local   *executor.Local // runs programs that train nothing
	closed  bool
}

var _ executor.Executor = (*Executor)(nil)

// dialTime bounds the wait for a listener that has just been started.
const (
	dialTime  = 3 * time.Second
	dialPause = 50 * time.Millisecond
)

// embedTime bounds the start of an embedded listener, with its etcd.
const embedTime = 30 * time.Second

// NewExecutor connects to the listener at address, or starts an embedded one when address is empty. spec is the template of every job that
// the executor submits; its program, data, passes, fetches and save directory come from the calls.
func NewExecutor(address string, spec *JobSpec, options ...Option) (*Executor, error) {
	if spec == nil {
		spec = &JobSpec{}
	}
	e := &Executor{spec: proto.Clone(spec).(*JobSpec)}
	e.open, e.shut = context.WithCancel(context.Background())
	if address == "" {
		ctx, cancel := context.WithTimeout(context.Background(), embedTime)
		defer cancel()
		var err error
		if e.embedded, err = Listen(ctx, options...); err != nil {
			return nil, err
		}
		address = e.embedded.Address()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var err error
	if e.client, err = dialSoon(ctx, address); err != nil {
		if e.embedded != nil {
			err = errors.Join(err, e.embedded.Close())
		}
		return nil, err
	}
	return e, nil
}

// dialSoon is Dial for a listener that may need a moment before it is there.
func dialSoon(ctx context.Context, address string) (*Client, error) {
	for {
		c, err := Dial(ctx, address)
		if !errors.Is(err, fault.Unavailable) {
			return c, err
		}
		timer := time.NewTimer(dialPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}

// Client returns the connection to the listener, for status and logs.
func (e *Executor) Client() *Client { return e.client }

// finishTime bounds the orderly end of an interactive job in Close.
const finishTime = time.Minute

// Close gives up the step that is under way, ends the interactive job, saving its model
// if the JobSpec says so, and the embedded cluster. A second call does nothing.
func (e *Executor) Close() error {
	e.shut()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	var err error
	if e.session != nil {
		ctx, cancel := context.WithTimeout(context.Background(), finishTime)
		defer cancel()
		err = e.client.Finish(ctx, e.session.id)
		e.session = nil
	}
	if e.local != nil {
		err = errors.Join(err, e.local.Close())
		e.local = nil
	}
	err = errors.Join(err, e.client.Close())
	if e.embedded != nil {
		err = errors.Join(err, e.embedded.Close())
	}
	return err
}

// Train implements executor.Executor: it submits p as a job that reads its own data and follows it to its end. When ctx ends, the job is stopped.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	j, err := e.Submit(ctx, p, run)
	if err != nil {
		return executor.Summary{}, err
	}
	return j.Follow(ctx, each)
}

// Submit sends p as a job that reads its own data. The job goes on without this process, unless the listener is embedded.
func (e *Executor) Submit(ctx context.Context, p *program.Program, run executor.TrainOptions) (*Job, error) {
	spec := proto.Clone(e.spec).(*JobSpec)
	var err error
	if spec.Program, err = p.Encode(); err != nil {
		return nil, err
	}
	spec.Data, spec.Fed = nil, false
	for _, name := range sortedNames(run.Data) {
		binding := &job.DataBinding{Dataset: name, Globs: slices.Clone(run.Data[name]), Follow: follows(e.spec, name)}
		for i, glob := range binding.Globs {
			if binding.Globs[i], err = dataset.Absolute(glob); err != nil {
				return nil, err
			}
		}
		spec.Data = append(spec.Data, binding)
	}
	if run.Passes > 0 {
		spec.Passes = int32(run.Passes)
	}
	spec.Fetch, spec.Save, spec.Params = run.Fetch, run.Save, run.Params
	if err := absolute(&spec.Save, &spec.Params); err != nil {
		return nil, err
	}
	id, err := e.client.Submit(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &Job{ID: id, client: e.client, fetch: run.Fetch}, nil
}

// follows reports whether the template of jobs says that a dataset grows.
func follows(spec *JobSpec, name string) bool {
	return slices.ContainsFunc(spec.Data, func(d *job.DataBinding) bool { return d.Dataset == name && d.Follow })
}

// absolute makes paths mean the same in processes with other working directories.
func absolute(paths ...*string) error {
	for _, p := range paths {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fault.Wrap(fault.InvalidArgument, *p, err)
		}
		*p = abs
	}
	return nil
}
