package coordinator

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/coordinator/generation"
	"github.com/edl-go/edl/remote/id"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// stateReader shows the user the variables of a sync job with MaxAhead, or whose evaluations wait for it, that reads its own data. It reads when nothing moves:
//
//	horizon   the first round that no trainer may begin. It moves when the user acknowledges a step or an evaluation, which a user who waits for an answer does not do
//	read      every server has applied all rounds below the horizon, and the horizon and the generation are the same before and after: the values are
//	          the state after so many steps
//	          Else stateReader tries again, until the trainers have come as far as the horizon.
//
// A job whose data ends before the horizon ends by itself. Then its user reads the state that it leaves.
type stateReader struct {
	*core
	members *members
	ending  *ending

	evaluations *evaluations
}

// read returns those of the variables that the job has, and the Progress of the state that they are of.
func (r *stateReader) read(ctx context.Context, run *rpc.StepRun) (*rpc.StepDone, error) {
	if len(run.Feed) > 0 || run.GiveUp || !r.cfg.Sync || r.cfg.MaxAhead == 0 && !r.cfg.Evaluation.GetWaits() || r.cfg.Save == nil {
		return nil, r.checkFed()
	}
	err := r.await(ctx, waitFor("the user", "the first generation"), func() (bool, error) { return r.members.begun, nil })
	if err != nil {
		return nil, err
	}
	var life context.Context
	r.locked(func() { life = r.ctx })
	ctx, cancel := context.WithTimeout(ctx, r.cfg.LedgerDeadline)
	defer cancel()
	defer context.AfterFunc(life, cancel)()
	var done *rpc.StepDone
	err = wire.Retry(ctx, func(retry id.Retry) (err error) {
		done, err = r.try(ctx, run.Fetch, retry)
		return err
	})
	if err != nil && ctx.Err() != nil { // the user asks again, and learns what has become of the job
		err = fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("no values yet"), fault.Cause(err))
	}
	return done, asUnavailable(err)
}

// try reads once. It fails with fault.Unavailable while the trainers have not come as far as they may.
func (r *stateReader) try(ctx context.Context, names []string, retry id.Retry) (*rpc.StepDone, error) {
	g, horizon, err := r.look()
	if err != nil {
		return nil, err
	}
	done := &rpc.StepDone{Step: &job.Step{Step: uint64(horizon)}}
	for _, name := range names {
		value, err := r.variable(ctx, g, horizon, name, retry)
		if err != nil {
			return nil, err
		}
		if value != nil {
			done.Step.Fetched = append(done.Step.Fetched, &job.Value{Name: name, Stream: tensor.AppendStream(nil, value)})
		}
	}
	now, later, err := r.look()
	if err != nil {
		return nil, err
	}
	if now.Number != g.Number || later != horizon {
		return nil, fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("steps while variables were read"))
	}
	done.Progress, err = r.ending.progressAfter(ctx, func() id.Round { return horizon })
	return done, err
}

// look returns the generation that trains, and the first round that no trainer of it may begin yet.
func (r *stateReader) look() (g generation.Generation, horizon id.Round, err error) {
	r.locked(func() {
		if r.ended || r.members.machine.Phase() != generation.Running {
			err = fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("no generation that trains"))
			return
		}
		g = r.members.machine.Generation()
		horizon = max(g.Round, r.ending.permitted)
		held, isHeld := r.evaluations.heldAt()
		if isHeld {
			horizon = held
		} else if r.cfg.MaxAhead == 0 {
			err = fault.E(fault.Unavailable, fault.At("coordinator"), fault.Got("rounds that begin without waiting for the user"))
		}
	})
	return g, horizon, err
}

// variable returns a variable as it is after the rounds below the horizon; nil where the job has no value of it.
func (r *stateReader) variable(ctx context.Context, g generation.Generation, horizon id.Round, name string, retry id.Retry) (*tensor.Tensor, error) {
	pieces := piecesOf(r.cfg.Save, name)
	if pieces == nil {
		if r.cfg.Constant == nil {
			return nil, nil
		}
		return r.cfg.Constant(name)
	}
	values := make([]*tensor.Tensor, len(pieces))
	for i, piece := range pieces {
		server, there, err := serverOf(r.cfg.Save, piece)
		if err != nil {
			return nil, err
		}
		if values[i], err = r.emptyOf(r.cfg.Save, piece); err != nil {
			return nil, err
		}
		if err := r.getVariable(ctx, g, horizon, server, there, values[i], retry); err != nil {
			return nil, err
		}
	}
	if len(values) == 1 {
		return values[0], nil
	}
	return r.joinRows(name, values)
}

// joinRows makes one variable of runs of its rows, in order.
func (r *stateReader) joinRows(name string, pieces []*tensor.Tensor) (*tensor.Tensor, error) {
	whole, err := r.emptyOf(r.cfg.Save, name)
	if err != nil {
		return nil, err
	}
	to, err := wire.Memory(whole)
	if err != nil {
		return nil, err
	}
	for _, piece := range pieces {
		from, err := wire.Memory(piece)
		if err != nil {
			return nil, err
		}
		to = to[copy(to, from):]
	}
	if len(to) > 0 {
		return nil, fault.E(fault.Internal, fault.Var(name), fault.Gotf("pieces that lack %d bytes", len(to)))
	}
	return whole, nil
}

// emptyOf returns a tensor with the declared type and dims of a variable.
func (c *core) emptyOf(p *program.Program, name string) (*tensor.Tensor, error) {
	declared, ok := p.Global().Find(name)
	if !ok {
		return nil, fault.E(fault.InvalidProgram, fault.Var(name), fault.Got("no declaration"))
	}
	return tensor.New(declared.DType, declared.Dims...)
}

// piecesOf names what a save program receives of a variable: the variable itself, or runs of its rows in order; nil where it does not receive it.
func piecesOf(save *program.Program, name string) []string {
	pieces := []string{name}
	for _, op := range save.Global().Ops {
		if op.Type == "concat" && slices.Contains(op.Outputs["Out"], name) {
			pieces = op.Inputs["X"]
		}
	}
	if _, _, err := serverOf(save, pieces[0]); err != nil {
		return nil
	}
	return pieces
}
