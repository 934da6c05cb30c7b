package remote

import (
	"context"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/tensor"
)

// Run implements executor.Executor.
//
// A program that trains is run by a fed job, which lives until another program trains, the state is saved or loaded, or the executor is closed. The
// batch is split over the trainers by rows, and what they fetch is joined.
//
// The executor keeps the feeds of the job, encoded, since the state that the job began with: at most 64 MiB or 1000 steps, and the last feed. Then
// the job ends before the next step, its state is kept, and another job begins with it. When a job fails, the executor begins another one with the
// kept state and feeds all of these steps again. In sync mode this gives the same bits. So a failure costs the time of at most that many steps:
//
//   - A step that fails in a trainer, as for a value that is not finite or a label out of range, ends its job. Run returns the error when another
//     job has the state of the step before.
//   - When a job loses a pserver, the other job trains the step, too. Run tries this three times without getting further. Then it returns an error
//     of kind fault.LostMember or fault.LostState, and the next call feeds the steps again.
//   - When a user has stopped the job, Run says so, and the next call feeds the steps again.
//   - Steps are lost if no job can train them again, as when the listener has ended. The error says how many.
//
// A job that loses trainers or coordinators goes on, and nothing is fed again. A feed whose names, types or shapes are wrong is refused before, and
// ends no job. When this process ends without Close, the job ends after the start_deadline of its JobSpec.
//
// When ctx ends during a step, the step is trained or it is not. The next call of the executor finds out first, and Progress.Steps of a saved model
// counts it if it is. The batch of the next call is trained in any case. When ctx ends while steps are fed again, the next call goes on with that.
//
// A program that trains nothing runs in this process, on the values of the state.
func (e *Executor) Run(ctx context.Context, p *program.Program, feed executor.Feed, fetch ...string) ([]*tensor.Tensor, error) {
	if err := executor.CheckProgram(p); err != nil {
		return nil, err
	}
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
	if err := executor.CheckStep(p, feed, fetch...); err != nil {
		return nil, err
	}
	if len(feed) == 0 {
		return nil, fault.E(fault.InvalidArgument, fault.Got("a step without a feed"), fault.Want("a batch"),
			fault.Hint("a program that reads its own data is run by Train"))
	}
	var encoded []*job.Value
	for _, name := range sortedNames(feed) {
		encoded = append(encoded, &job.Value{Name: name, Stream: tensor.AppendStream(nil, feed[name])})
	}
	done, err := e.fed.step(ctx, p, encoded, fetch)
	if err != nil {
		return nil, err
	}
	return decodeAll(done.Step.GetFetched(), fetch)
}
