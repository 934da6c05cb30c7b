package remote

import (
	"context"
	"errors"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// A session is a fed job that has the state of an executor.
type session struct {
	client  *Client
	id      string
	program *program.Program
	hash    program.Hash
	trained uint64       // steps
	unsure  *rpc.StepRun // gives up the last step, which may be trained or not; nil: its outcome is known
}

// openSession submits p as a fed job with a spec that has everything else.
func openSession(ctx context.Context, c *Client, p *program.Program, spec *JobSpec) (*session, error) {
	hash, err := p.Hash()
	if err != nil {
		return nil, err
	}
	if spec.Program, err = p.Encode(); err != nil {
		return nil, err
	}
	id, err := c.Submit(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &session{client: c, id: id, program: p, hash: hash}, nil
}

// runs reports whether p is the program of the session.
func (s *session) runs(p *program.Program) bool {
	if s.program == p {
		return true
	}
	hash, err := p.Hash()
	if err == nil && hash == s.hash {
		s.program = p
		return true
	}
	return false
}

// step runs one step; without a feed it only reads. After an error a step may be trained or not: the next call of step finds out first.
func (s *session) step(ctx context.Context, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if err := s.resolve(ctx); err != nil {
		return nil, err
	}
	run := &rpc.StepRun{Fetch: fetch, Step: s.trained, Call: rand.Uint64()}
	for _, name := range sortedNames(feed) {
		if feed[name] == nil {
			return nil, fault.E(fault.InvalidArgument, fault.Var(name), fault.Got("a feed that is nil"), fault.Want("a tensor"))
		}
		run.Feed = append(run.Feed, &job.Value{Name: name, Stream: tensor.AppendStream(nil, feed[name])})
	}
	if len(feed) > 0 {
		s.unsure = &rpc.StepRun{Step: run.Step, Call: run.Call, GiveUp: true}
	}
	done, err := s.client.runStep(ctx, s.id, run)
	if len(feed) > 0 && (err == nil || errors.Is(err, fault.Duplicate)) { // which says that the step is trained, and what it fetched is lost
		s.trained++
		s.unsure = nil
	}
	if err != nil {
		return nil, err
	}
	return decodeAll(done.Step.GetFetched(), fetch)
}

// resolve finds out whether the last step is trained, when its call has ended with an error. If the coordinator has not accepted it, it never will.
func (s *session) resolve(ctx context.Context) error {
	if s.unsure == nil {
		return nil
	}
	done, err := s.client.runStep(ctx, s.id, s.unsure)
	if err == nil {
		s.trained, s.unsure = max(s.trained, done.Steps), nil
	}
	return err
}

// has reports whether the job knows a persistable variable.
func (s *session) has(name string) bool {
	v, ok := s.program.Global().Var(name)
	return ok && v.Persistable
}

// Run implements executor.Executor.
//
// A program that trains is run by a fed job, which lives until another program trains, the state is saved or loaded, or the executor is closed. The
// batch is split over the trainers by rows, and what they fetch is joined. The job loses trainers and coordinators without loss; when it loses a
// pserver, the state of its steps is gone: Run returns an error of kind fault.LostMember that says how many steps are lost, and the state is that
// before the first of them. The same holds for a step that fails in a trainer, as for a value that is not finite or a label out of range: all steps
// of the job are lost with it, where executor.Local keeps the state of the step before. Save between steps that must not be lost. A feed whose names,
// types or shapes are wrong is refused before, and costs no step.
//
// When ctx ends during a step, the step is trained or it is not. The next call of the executor finds out first, and Progress.Steps of a saved model
// counts it if it is. The batch of the next call is trained in any case.
//
// A program that trains nothing runs in this process, on the values of the state.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	trains := executor.Trains(p)
	call := "Run"
	if trains {
		call = "Run of a program that trains"
	}
	caller := ctx
	ctx, leave, err := e.enter(ctx, call, !trains)
	if err != nil {
		return nil, err
	}
	defer leave()
	var values []*tensor.Tensor
	if trains {
		values, err = e.trainStep(ctx, p, feed, fetch)
	} else {
		var local *executor.Local
		if local, err = e.values(ctx, p); err == nil {
			values, err = local.Run(ctx, p, feed, fetch...)
		}
	}
	return values, orClosed(e.open, caller, "a step", err)
}

// trainStep runs one fed step of a program that trains.
func (e *Executor) trainStep(ctx context.Context, p *program.Program, feed executor.Feed, fetch []string) ([]*tensor.Tensor, error) {
	if len(feed) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a step without a feed"), fault.Want("a batch"),
			fault.Hint("a program that reads its own data is run by Train"))
	}
	if e.session == nil || !e.session.runs(p) {
		if err := e.settle(ctx); err != nil {
			return nil, err
		}
		spec := e.state.spec(e.spec, p)
		spec.Data, spec.Fed = nil, true
		if spec.State != "" {
			spec.Params = "" // they were the beginning of the first job
		}
		if err := absolute(&spec.Save, &spec.Params); err != nil {
			return nil, err
		}
		var err error
		if e.session, err = openSession(ctx, e.client, p, spec); err != nil {
			e.session = nil
			return nil, err
		}
	}
	values, err := e.session.step(ctx, feed, fetch)
	if err != nil {
		_, err = e.look(ctx, err)
	}
	return values, err
}

// settle ends the fed job, if there is one: its state becomes the kept state.
func (e *Executor) settle(ctx context.Context) error {
	if e.session == nil {
		return nil
	}
	s, err := e.client.Finish(ctx, e.session.id, nil)
	if err != nil {
		if kept, err := e.look(ctx, err); !kept {
			return err
		}
		return nil // it had ended well before
	}
	e.state.become(ctx, e.session.id, s.Progress)
	e.session = nil
	return nil
}

// look finds out what has become of the fed job after an error, and returns the error with that. kept reports whether the job has ended well. When it
// has failed, the state is the one that it began with.
func (e *Executor) look(ctx context.Context, err error) (kept bool, _ error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTime)
	defer cancel()
	s, unknown := e.client.Status(ctx, e.session.id)
	switch {
	case unknown != nil && !errors.Is(unknown, fault.NotFound), unknown == nil && !ended(s.State):
		return false, err
	case unknown == nil && s.State == job.State_SUCCEEDED:
		e.state.become(ctx, e.session.id, s.Progress)
		e.session = nil
		return true, err
	case unknown == nil && s.Kept: // only the saving of its model has failed
		e.state.become(ctx, e.session.id, s.Progress)
		e.session = nil
		e.forgetValues()
		return false, err
	}
	lost := e.session.trained
	e.session = nil
	e.forgetValues()
	return false, fault.E(fault.KindOf(err), fault.At("remote executor"), fault.Cause(err),
		fault.Hintf("%d steps that were fed are lost with their job; the state is that before the first of them", lost))
}

// spec returns the spec of a job of program p that begins with the state and leaves its own behind.
func (s *state) spec(template *JobSpec, p *program.Program) *JobSpec {
	spec := proto.Clone(template).(*JobSpec)
	spec.State, spec.KeepState, spec.Partial = s.id, true, s.id != ""
	s.note(p)
	return spec
}
