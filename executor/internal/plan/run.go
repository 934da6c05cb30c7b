package plan

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Run runs the plan once, on the goroutine of the caller. If there is a pool and the plan gains from it, the workers of the pool help. When ctx ends,
// Run stops before the next step. An error names op, variable and line.
//
// A plan that checks for finite numbers does so between the gradients and the update. If the loss, or a fetched variable that is known by then, is
// not finite, the update does not happen. A part of a batch that weighs nothing is not checked.
//
// A plan that trains on one machine does a whole step or none: an error or the end of ctx before the update leaves the scope as it was, and an update
// that has begun ignores ctx. After an error of any other plan, the scope holds what the steps before the error wrote. After the send_barrier of a
// trainer, only ops that wait look at ctx: the servers may count the step, so the caller must learn what it fetched.
func (p *Plan) Run(ctx context.Context, pool *Pool) error {
	if pool == nil || p.trial == nil {
		return p.once(ctx, pool)
	}
	if p.trial.runsAlone() {
		pool = nil
	}
	start := time.Now()
	err := p.once(ctx, pool)
	p.trial.add(time.Since(start))
	return err
}

func (p *Plan) once(ctx context.Context, pool *Pool) error {
	if p.trains {
		p.undo.keep()
	}
	if err := RunToUpdate(ctx, p, pool); err != nil {
		if p.trains {
			p.undo.restore()
		}
		return err
	}
	if p.trains && !p.outside {
		ctx = context.Background()
	}
	if err := p.segments[1].run(ctx, p, pool); err != nil {
		return cutShort(p, err)
	}
	if !p.settled {
		p.settled = true
		p.scope.MarkReady(p.written...)
	}
	return p.finite.afterUpdate()
}

// RunToUpdate runs what comes before the update of a plan, with the checks of Run. A device of a trainer calls it, which leaves the exchange to another plan of the same
// scope. What is kept and fetched then has the values of the steps that have run.
func RunToUpdate(ctx context.Context, p *Plan, pool *Pool) error {
	for _, v := range p.values {
		ops.ClearValue(v)
	}
	if err := p.segments[0].run(ctx, p, pool); err != nil {
		return err
	}
	if !p.weight.isVoid(&p.step) {
		if p.trains && p.weight.lacksMean(&p.step) {
			return ops.NoMean(p.step.Round)
		}
		if err := p.finite.beforeUpdate(ctx); err != nil {
			return err
		}
	}
	if !p.outside {
		return nil
	}
	return p.weight.tell(&p.step, p.caller)
}

// cutShort adds to the error of an update on one machine that has failed what has become of the variables.
func cutShort(p *Plan, err error) error {
	var f *fault.Fault
	if !p.trains || p.outside || !errors.As(err, &f) {
		return err
	}
	c := *f
	if c.Hint != "" {
		c.Hint += "; "
	}
	c.Hint += "the update was cut short: some variables are those of this step and some those of the step before; load a saved state"
	return &c
}

// A segment is the steps before the update, or those from it on.
type segment struct {
	steps []step
	flow  *dataflow // of the steps, for runs on a pool; nil unless the plan gains from one
}

func (g *segment) run(ctx context.Context, p *Plan, pool *Pool) error {
	if pool != nil && g.flow != nil {
		return pool.run(ctx, g.flow)
	}
	return g.inOrder(ctx, p)
}

// inOrder runs steps one after the other.
func (g *segment) inOrder(ctx context.Context, p *Plan) (err error) {
	var at *piece
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(at.op, panicked(r))
		}
	}()
	declared := false
	for i := range g.steps {
		if ctx.Err() != nil && !declared {
			return stopped(ctx)
		}
		s := &g.steps[i]
		if p.trace != nil {
			err = s.traced(ctx, p, &at)
		} else {
			err = s.run(ctx, &at)
		}
		if err != nil {
			return failed(ctx, at, err)
		}
		declared = declared || s.isBarrier()
	}
	return nil
}

// isBarrier reports whether a step is the send_barrier of a trainer.
func (s *step) isBarrier() bool { return s.pieces[0].op.Type == "send_barrier" }

// traced runs a step and records how long it took.
func (s *step) traced(ctx context.Context, p *Plan, at **piece) error {
	start := time.Now()
	defer func() { p.trace.add(s, max(1, len(s.parts)), 0, start, p.step.Round) }()
	return s.run(ctx, at)
}

// failed adds the op to the error of a piece. If a kernel gave up because ctx has ended, the error says so.
func failed(ctx context.Context, p *piece, err error) error {
	if kind := fault.KindOf(err); ctx.Err() != nil && kind == fault.Internal {
		return stopped(ctx)
	}
	return ops.At(p.op, err)
}

// stopped is the fault of a context that ended.
func stopped(ctx context.Context) error {
	kind := fault.Canceled
	if ctx.Err() == context.DeadlineExceeded {
		kind = fault.DeadlineExceeded
	}
	return fault.E(kind, fault.Cause(context.Cause(ctx)))
}

// RunFromBarrier runs the plan from its first send_barrier on, without checks. A trainer that has no rows in a round calls it to take part in the
// round: it contributes nothing, tells the servers so, and receives the new parameters.
func (p *Plan) RunFromBarrier(ctx context.Context) error {
	i := slices.IndexFunc(p.steps, func(s step) bool { return s.isBarrier() })
	if i < 0 {
		return fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one row in a program without send_barrier"))
	}
	rest := segment{steps: p.steps[i:]}
	if err := rest.run(ctx, p, nil); err != nil {
		return err
	}
	p.scope.MarkReady(writtenBy(rest.steps)...)
	return nil
}

// writtenBy returns the names of the variables of the scope that some steps write.
func writtenBy(steps []step) (names []string) {
	for _, s := range steps {
		for _, p := range s.pieces {
			for _, v := range p.writes {
				if v.place == scoped {
					names = append(names, v.name)
				}
			}
		}
	}
	return names
}

// An undo brings back the variables of the scope that a run writes before its update, such as moving statistics. Of a plan that does not train
// these are all that it writes, except for what it reads from files. An undo is empty for a plan that exchanges variables with other machines,
// because a step then belongs to all of them.
type undo struct {
	scope Scope
	kept  []kept
}

// A kept variable lives in the scope and is written before the update.
type kept struct {
	name   string
	value  *tensor.Tensor
	copy   *tensor.Tensor // nil until the variable had a value when keep was called
	filled bool           // copy has the value that restore brings back
	spare  *tensor.Tensor // memory of swap; nil before the first one
}

func newUndo(scope Scope, beforeUpdate []*piece) undo {
	u := undo{scope: scope}
	seen := map[*variable]bool{}
	for _, p := range beforeUpdate {
		for _, v := range p.writes {
			if v.place == scoped && !seen[v] && p.def.Class != ops.FileIO {
				seen[v] = true
				u.kept = append(u.kept, kept{name: v.name, value: v.tensor})
			}
		}
	}
	return u
}

// keep copies the values. It leaves out a variable that has none yet. It allocates nothing after the first call.
func (u *undo) keep() {
	for i := range u.kept {
		k := &u.kept[i]
		if k.copy == nil {
			if _, ok := u.scope.Find(k.name); !ok {
				continue
			}
			k.copy = k.value.Clone()
		} else if err := k.copy.CopyFrom(k.value); err != nil {
			panic(err) // dims of variables in a scope never change
		}
		k.filled = true
	}
}

// restore gives the variables the values that they had at the last keep. A second restore does nothing.
func (u *undo) restore() {
	for i := range u.kept {
		k := &u.kept[i]
		if !k.filled {
			continue
		}
		if err := k.value.CopyFrom(k.copy); err != nil {
			panic(err)
		}
		k.filled = false
	}
}

// swap exchanges the values with the copies. It allocates nothing after the first call.
func (u *undo) swap() {
	for i := range u.kept {
		k := &u.kept[i]
		if !k.filled {
			continue
		}
		if k.spare == nil {
			k.spare = k.value.Clone()
		} else if err := k.spare.CopyFrom(k.value); err != nil {
			panic(err)
		}
		if err := k.value.CopyFrom(k.copy); err != nil {
			panic(err)
		}
		k.copy, k.spare = k.spare, k.copy
	}
}

// aside returns the copy of a value that swap exchanges; of any other tensor the tensor itself.
func (u *undo) aside(t *tensor.Tensor) *tensor.Tensor {
	for i := range u.kept {
		if k := &u.kept[i]; k.filled && k.value == t {
			return k.copy
		}
	}
	return t
}
