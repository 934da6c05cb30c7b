package reference

import (
	"context"

	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Rhythm makes Train compute what an async job of one trainer computes that adds up the gradients of push steps before it sends them, and receives
// parameters after every pull steps. Rows of tables that no trainer holds are those of each step. What is left at the end of a pass is sent. Learning-rate
// schedules count what is sent. Run knows no rhythm, as in a job that is fed.
//
// The state is that of the servers. Fetched values of the update are missing where nothing is sent. Gradients are clipped when they are added up; so a
// job differs that clips by the norm of all gradients, because there the trainer clips those of each step.
func (e *Executor) Rhythm(push, pull int) { e.pushEvery, e.pullEvery = push, pull }

// unpushed is what a trainer has in one Train that the servers do not have, and what they have that it does not.
type unpushed struct {
	pushEvery, pullEvery int
	steps                int                       // since the last push
	sincePull            int                       // steps since the last pull
	pass                 int                       // of the last step
	last                 *round                    // of them
	rows                 int64                     // of the last step
	sums                 map[string]*tensor.Tensor // of what crosses to the update
	pulled               map[string]*tensor.Tensor // parameters as they were pulled; nil: those of the state
}

// add adds a step to those that are not pushed, and reports whether a push is due.
func (u *unpushed) add(r *round, values map[string]*tensor.Tensor, rows int64) (due bool, err error) {
	u.steps++
	u.last, u.rows = r, rows
	for _, name := range r.crosses {
		if u.steps == 1 {
			u.sums[name] = values[name].Clone()
		} else if u.sums[name], err = added(u.sums[name], values[name]); err != nil {
			return false, err
		}
	}
	return u.steps >= u.pushEvery, nil
}

// added adds what a step has computed to the sum of those before it, which it may change. What crosses as integers are rows of a table.
func added(sum, value *tensor.Tensor) (*tensor.Tensor, error) {
	if sum.DType().IsFloat() {
		return sum, merge.Accumulate(sum, value)
	}
	both := sum.Clone()
	return both, merge.Gradients(both, []merge.Share{{Value: sum, Rows: 1}, {Value: value, Rows: 1}}, ops.MergeSum)
}

// push runs the update of the steps that are not pushed, as one.
func (u *unpushed) push(ctx context.Context, fetch []string) (map[string]*tensor.Tensor, error) {
	u.steps = 0
	return u.last.runUpdate(ctx, []share{{rows: u.rows, values: u.sums}}, u.rows, fetch)
}

// step ends a round that has one share.
func (u *unpushed) step(ctx context.Context, r *round, values map[string]*tensor.Tensor, rows int64, fetch []string) (map[string]*tensor.Tensor, error) {
	if u.pulled == nil {
		u.pull(r)
	}
	due, err := u.add(r, values, rows)
	if err != nil {
		return nil, err
	}
	var updated map[string]*tensor.Tensor
	if due {
		updated, err = u.push(ctx, fetch)
	}
	if u.sincePull++; u.sincePull >= u.pullEvery {
		u.sincePull = 0
		u.pull(r)
	}
	return updated, err
}

// pull takes the parameters as they are now.
func (u *unpushed) pull(r *round) {
	u.pulled = map[string]*tensor.Tensor{}
	for _, name := range r.parameters {
		if t, ok := r.Scope().Find(name); ok {
			u.pulled[name] = t.Clone()
		}
	}
}

// has returns a parameter as it was pulled; nil where that is the one of the state.
func (u *unpushed) has(parameter string) *tensor.Tensor {
	if u == nil {
		return nil
	}
	return u.pulled[parameter]
}

// settle pushes what is left before a step of another pass, and at the end, which is pass -1.
func (u *unpushed) settle(ctx context.Context, pass int) (err error) {
	if u == nil {
		return nil
	}
	if pass != u.pass && u.steps > 0 {
		_, err = u.push(ctx, nil)
	}
	u.pass = pass
	return err
}
