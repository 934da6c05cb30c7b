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
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/bucket"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// JobSpec says what cluster a job wants: trainers, pservers, mode, deadlines. The zero value is one trainer and one pserver in sync mode.
type JobSpec = job.JobSpec

// Executor runs programs on a cluster. It is what RemoteExecutor is in Fluid's design, and implements executor.Executor. Its methods may be
// called from several goroutines; calls wait for each other.
//
// Between calls the state of the executor is in one of two places:
//
//		          Run of a program that trains
//		  kept  ---------------------------------->  fed job
//		 (state) <----------------------------------  (session)
//		   |  ^   Train, Save, Load, another program
//		   |  |
//		   +--+  Train: a job that begins with the kept state and leaves the next one
//
//	  - kept: the listener holds it under an id, or it is empty. No job of the executor runs.
//	  - fed job: a job that began with the kept state has a newer one in its pservers. The kept one stays until the job has left its own, and the
//	    executor keeps what it has fed since, so that another job can train it again. Type session has the rules.
type Executor struct {
	submitted func(id string) // is called with the id of each job of Train; may be nil
	client    *Client
	embedded  *Listener // nil when the listener is another's
	spec      *JobSpec
	open      context.Context // until Close
	shut      context.CancelFunc
	turns     *turns

	// Of the call whose turn it is.
	state     state
	fed       feeder
	local     *executor.Local // runs programs that train nothing; nil: none has run
	read      map[string]int  // variables of local, by the version of the kept state that they are of
	evaluates evaluating
	trains    *training // the job of Train that trains, for calls from its callback; nil: none does
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
	e := &Executor{spec: proto.Clone(spec).(*JobSpec), turns: newTurns(), read: map[string]int{}}
	e.open, e.shut = context.WithCancel(context.Background())
	if address == "" {
		ctx, cancel := context.WithTimeout(context.Background(), embedTime)
		defer cancel()
		authority, err := credential.NewAuthority() // that options may replace
		if err != nil {
			return nil, err
		}
		options = append([]Option{WithAuthority(authority)}, options...)
		if e.embedded, err = Listen(ctx, options...); err != nil {
			return nil, err
		}
		address = e.embedded.Address()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTime)
	defer cancel()
	var err error
	if e.client, err = dialSoon(ctx, address, options); err != nil {
		if e.embedded != nil {
			err = errors.Join(err, e.embedded.Close())
		}
		return nil, err
	}
	e.state = state{client: e.client, version: 1, sizes: map[string]int64{}}
	e.fed = feeder{client: e.client, template: e.spec, state: &e.state, bounds: defaultBounds}
	return e, nil
}

// dialSoon is Dial for a listener that may need a moment before it is there.
func dialSoon(ctx context.Context, address string, options []Option) (*Client, error) {
	for {
		c, err := Dial(ctx, address, options...)
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

// enter waits for the turn of a call; see turns.enter. The context that it returns ends with the executor, too. leave ends the turn, and the executor if
// the callback of the call has closed it.
func (e *Executor) enter(ctx context.Context, call string, reads bool) (_ context.Context, leave func() error, err error) {
	t, err := e.turns.enter(ctx, call, reads)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	unlink := context.AfterFunc(e.open, cancel)
	return ctx, func() (err error) {
		unlink()
		cancel()
		if t.leave() {
			err = e.end()
			t.leave()
		}
		return err
	}, nil
}

// orClosed says that a call has failed because the executor was closed, whose context is open, or because the context of its caller has ended.
func orClosed(open, ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case open.Err() != nil:
		return fault.E(fault.Canceled, fault.At("remote executor"), fault.Got(what+", and the end of the executor"), fault.Cause(err))
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()): // the transport tells of the end of a context without the context's own error
		return fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(&endOfContext{err, ctx.Err()}))
	}
	return err
}

// endOfContext is the error of a call, which also is that of the context that ended it.
type endOfContext struct{ err, context error }

func (e *endOfContext) Error() string   { return e.err.Error() }
func (e *endOfContext) Unwrap() []error { return []error{e.err, e.context} }

// finishTime bounds the orderly end of a job whose follower has given up.
const finishTime = time.Minute

// Close gives up the call that is under way, ends the fed job in good order, which saves its model if the JobSpec says so, releases the state, and
// ends the embedded cluster. A second call does nothing. While the callback of Train runs, Close returns at once, and Train does all this before it
// returns.
func (e *Executor) Close() error {
	e.shut()
	t := e.turns.close()
	if t == nil {
		return nil
	}
	defer t.leave()
	return e.end()
}

// end is the work of Close.
func (e *Executor) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	var err error
	if e.fed.session != nil {
		err = e.fed.end(ctx)
	}
	e.state.become(ctx, "", nil)
	e.forgetValues()
	err = errors.Join(err, e.client.Close())
	if e.embedded != nil {
		err = errors.Join(err, e.embedded.Close())
	}
	return err
}

// Train implements executor.Executor: it submits p as a job that reads its own data, begins with the state, and leaves the next one. Data, Save and
// Params are paths of the machines that the roles run on. When the job fails, because its data is wrong or it was restarted too often, the state is
// that before the call. When only the saving to Save fails, the state is that of the last step.
//
// A program without update ops is evaluated in this process, on the values of the state: its data, and Params, must be readable here.
func (e *Executor) Train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (summary executor.Summary, err error) {
	if err := executor.CheckProgram(p); err != nil {
		return executor.Summary{}, err
	}
	caller := ctx
	ctx, leave, err := e.enter(ctx, "Train", false)
	if err != nil {
		return executor.Summary{}, err
	}
	defer func() {
		if wrong := leave(); wrong != nil {
			err = errors.Join(err, wrong)
		}
	}()
	each = during(e.turns, each)
	if executor.Trains(p) {
		summary, err = e.train(ctx, p, run, each)
	} else {
		summary, err = e.evaluate(ctx, p, run, each)
	}
	return summary, orClosed(e.open, caller, "Train", err)
}

func (e *Executor) train(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	if err := executor.CheckRun(p, run); err != nil {
		return executor.Summary{}, err
	}
	if err := e.fed.settle(ctx); err != nil {
		return executor.Summary{}, err
	}
	spec := e.state.spec(e.spec, p)
	if spec.Mode == job.Mode_SYNC && each != nil && run.Ahead >= 0 {
		spec.MaxAhead = int32(min(run.Ahead, math.MaxInt32-1)) + 1
	}
	e.evaluates.give(spec)
	j, err := submit(ctx, e.client, e.spec, spec, p, run)
	if err != nil {
		return executor.Summary{}, err
	}
	j.gentle = true
	if e.submitted != nil {
		e.submitted(j.ID)
	}
	e.trains = &training{client: e.client, job: j, program: p}
	j.evaluated = e.trains.tellEvaluated(e.turns, e.evaluates.each)
	defer func() { e.trains = nil }()
	defer e.adopt(ctx, j.ID) // also when each panics
	return j.Follow(ctx, e.trains.tell(each))
}

// adopt makes the state that a job has left the one of the executor, if the job has ended well.
func (e *Executor) adopt(ctx context.Context, id string) {
	s, err := lastOf(ctx, e.client, id)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	if err == nil && (s.State == job.State_SUCCEEDED || s.Kept) {
		e.state.become(ctx, id, s.Progress)
	}
}

// OnSubmit lets f be called with the id of each job that Train submits. Call it before Train.
func (e *Executor) OnSubmit(f func(id string)) { e.submitted = f }

// evaluate trains nothing: it reads the data and calls each.
func (e *Executor) evaluate(ctx context.Context, p *program.Program, run executor.TrainOptions,
	each func(executor.StepResult) error) (executor.Summary, error) {
	if run.Save != "" {
		if err := executor.CheckNames(p); err != nil {
			return executor.Summary{}, err
		}
		if err := executor.PrepareSave(run.Save, p); err != nil {
			return executor.Summary{}, err
		}
	}
	if run.Params != "" {
		if _, err := e.load(ctx, run.Params, p, executor.LoadOptions{}); err != nil {
			return executor.Summary{}, err
		}
	}
	local, err := e.values(ctx, p)
	if err != nil {
		return executor.Summary{}, err
	}
	save := run.Save
	run.Save, run.Params = "", ""
	summary, err := local.Train(ctx, p, run, each)
	if err == nil && save != "" {
		err = e.save(ctx, save, p)
	}
	return summary, err
}

// Submit sends p as a job that reads its own data. The job has a state of its own, which is not that of the executor: it begins with run.Params or
// the startup program. It goes on without this process, unless the listener is embedded.
func (e *Executor) Submit(ctx context.Context, p *program.Program, run executor.TrainOptions) (*Job, error) {
	spec := proto.Clone(e.spec).(*JobSpec)
	e.evaluates.give(spec)
	j, err := submit(ctx, e.client, e.spec, spec, p, run)
	if err != nil {
		return nil, err
	}
	j.evaluated = e.evaluates.each
	return j, nil
}

// submit sends p as a job that reads its own data. spec is filled in; template says which datasets grow.
func submit(ctx context.Context, c *Client, template, spec *JobSpec, p *program.Program, run executor.TrainOptions) (*Job, error) {
	err := executor.CheckProgram(p)
	if err == nil {
		err = executor.CheckRun(p, run)
	}
	if err != nil {
		return nil, err
	}
	if spec.Program, err = p.Encode(); err != nil {
		return nil, err
	}
	spec.Data, spec.Fed = nil, false
	for _, name := range sortedNames(run.Data) {
		binding := &job.DataBinding{Dataset: name, Globs: slices.Clone(run.Data[name]), Follow: follows(template, name)}
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
	id, err := submitOnce(ctx, c, spec)
	if err != nil {
		return nil, err
	}
	return &Job{ID: id, client: c, fetch: run.Fetch, sync: spec.Mode == job.Mode_SYNC, ahead: spec.MaxAhead > 0, waits: spec.Evaluation.GetWaits()}, nil
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
		var err error
		if *p, err = dataset.Absolute(bucket.LocalPath(*p)); err != nil {
			return err
		}
	}
	return nil
}
