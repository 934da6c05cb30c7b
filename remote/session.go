package remote

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// session is an interactive job.
type session struct {
	id      string
	program *program.Program
	hash    program.Hash
	steps   uint64
}

// Run implements executor.Executor. The fed batch is split over the trainers by rows, and what they fetch is joined. The first program that trains
// opens an interactive job, which lives until Close. A program that trains nothing, such as a clone for testing, runs in this process, on the values
// that the job's variables have now. Close ends it.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.open, cancel)()
	values, err := e.run(ctx, p, feed, fetch)
	if err != nil && e.open.Err() != nil {
		return nil, fault.E(fault.Canceled, fault.At("remote executor"), fault.Got("a step, and the end of the executor"), fault.Cause(err))
	}
	return values, err
}

// run is Run with e.mu held.
func (e *Executor) run(ctx context.Context, p *program.Program, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if e.closed {
		return nil, context.Canceled
	}
	if !trains(p) {
		return e.evaluate(ctx, p, feed, fetch)
	}
	if err := e.begin(ctx, p); err != nil {
		return nil, err
	}
	if len(feed) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a step without a feed"), fault.Want("a batch"),
			fault.Hint("a program that reads its own data is run by Train"))
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

// begin submits p as an interactive job, unless it is the one that runs.
func (e *Executor) begin(ctx context.Context, p *program.Program) error {
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
		return fault.E(fault.InvalidArgument, fault.At("remote executor"), fault.Got("a second program that trains"),
			fault.Want("program "+e.session.hash.Short()), fault.Hint("use one executor per model"))
	}
	spec := proto.Clone(e.spec).(*JobSpec)
	spec.Data, spec.Fed = nil, true
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
	run := &rpc.StepRun{Fetch: fetch, Step: e.session.steps}
	for _, name := range sortedNames(feed) {
		if feed[name] == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that is nil"), fault.Want("a tensor"))
		}
		run.Feed = append(run.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, feed[name])})
	}
	step, err := e.client.runStep(ctx, e.session.id, run)
	if err != nil {
		return nil, err
	}
	if len(feed) > 0 {
		e.session.steps++
	}
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
