package remote

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// JobSpec says what cluster a job wants: trainers, pservers, mode, deadlines. The zero value is one trainer and one pserver in sync mode.
type JobSpec = job.JobSpec

// Executor runs programs on a cluster. It is what RemoteExecutor is in Fluid's design, and implements executor.Executor. Its methods may be
// called from several goroutines; steps run one at a time.
type Executor struct {
	client   *Client
	embedded *Listener // nil when the listener is another's
	spec     *JobSpec

	mu      sync.Mutex
	session *session
	local   *executor.Local // runs programs that train nothing
	closed  bool
}

// session is an interactive job.
type session struct {
	id      string
	program *program.Program
	hash    program.Hash
	steps   uint64
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

// Run implements executor.Executor. The fed batch is split over the trainers by rows, and what they fetch is joined. The first program that trains opens
// an interactive job, which lives until Close. A program that trains nothing, such as a clone for testing, runs in this process, on the
// values that the job's variables have now.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !trains(p) {
		return e.evaluate(ctx, p, feed, fetch)
	}
	if err := e.open(ctx, p); err != nil {
		return nil, err
	}
	if len(feed) == 0 {
		return nil, &fault.Fault{Kind: fault.InvalidArgument, Got: "a step without a feed", Want: "a batch", Hint: "a program that reads its own data is run by Train"}
	}
	return e.step(ctx, feed, fetch)
}

// trains reports whether a program updates anything.
func trains(p *program.Program) bool {
	for _, op := range p.Global().Ops {
		if op.Role().Has(program.RoleOptimize) {
			return true
		}
	}
	return false
}

// open submits p as an interactive job, unless it is the one that runs.
func (e *Executor) open(ctx context.Context, p *program.Program) error {
	if e.session != nil && e.session.program == p {
		return nil
	}
	hash, err := p.Hash()
	if err != nil {
		return err
	}
	if e.session != nil {
		if e.session.hash == hash {
			e.session.program = p
			return nil
		}
		return &fault.Fault{Kind: fault.InvalidArgument, Where: "remote executor", Got: "a second program that trains", Want: "program " + e.session.hash.Short(), Hint: "use one executor per model"}
	}
	spec := proto.Clone(e.spec).(*JobSpec)
	spec.Data, spec.Interactive = nil, true
	if spec.Program, err = p.Encode(); err != nil {
		return err
	}
	if err := absolute(&spec.Save, &spec.Params); err != nil {
		return err
	}
	id, err := e.client.Submit(ctx, spec)
	if err != nil {
		return err
	}
	e.session = &session{id: id, program: p, hash: hash}
	return nil
}

// step runs one step of the session; without a feed it only reads.
func (e *Executor) step(ctx context.Context, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	run := &rpc.StepRun{Job: e.session.id, Fetch: fetch, Step: e.session.steps}
	for _, name := range sortedNames(feed) {
		if feed[name] == nil {
			return nil, &fault.Fault{Kind: fault.InvalidArgument, Variable: name, Got: "a feed that is nil", Want: "a tensor"}
		}
		run.Feed = append(run.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, feed[name])})
	}
	step, err := e.client.runStep(ctx, run)
	if err != nil {
		return nil, err
	}
	e.session.steps++
	return decodeAll(step.GetFetched(), fetch)
}

// evaluate runs a program that trains nothing.
func (e *Executor) evaluate(ctx context.Context, p *program.Program, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if e.local == nil {
		e.local = executor.New()
	}
	if e.session != nil {
		if err := e.refresh(ctx, p); err != nil {
			return nil, err
		}
	}
	return e.local.Run(ctx, p, feed, fetch...)
}

// refresh brings the variables that p shares with the session's program here.
func (e *Executor) refresh(ctx context.Context, p *program.Program) error {
	var names []string
	for _, name := range executor.Persistables(p) {
		if v, ok := e.session.program.Global().Var(name); ok && v.Persistable {
			names = append(names, name)
		}
	}
	values, err := e.step(ctx, nil, names)
	if err != nil {
		return err
	}
	for i, name := range names {
		if err := e.local.Scope().Set(name, values[i]); err != nil {
			return err
		}
	}
	return nil
}

// Train implements executor.Executor: it submits p as a job that reads its own data and follows it to its end. When ctx ends, the job is stopped.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions, each func(executor.StepResult) error) (executor.Summary, error) {
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
	spec.Data, spec.Interactive = nil, false
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

// Client returns the connection to the listener, for status and logs.
func (e *Executor) Client() *Client { return e.client }

// finishTime bounds the orderly end of an interactive job in Close.
const finishTime = time.Minute

// Close ends the interactive job, saving its model if the JobSpec says so, and the embedded cluster. A second call does nothing.
func (e *Executor) Close() error {
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
