package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Run runs the plan once: on the caller's goroutine, joined by those of pool when there is one and the plan gains from it. When ctx ends
// it stops before the next step. An error names op, variable and line; what the scope holds is then as far as the steps came.
//
// A plan that checks for finite numbers does so between the gradients and the update: when the loss or a fetched variable that is
// known by then is not finite, the update does not happen.
//
// A plan that trains on one machine makes a whole step or none: what fails or ends before the update leaves the scope as it was, and an update that
// has begun does not look at ctx.
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
		p.Keep()
	}
	if err := p.untilUpdate(ctx, pool); err != nil {
		if p.trains {
			p.Restore()
		}
		return err
	}
	if p.trains && !p.outside {
		ctx = context.Background()
	}
	if err := p.segment(ctx, pool, 1, p.update, len(p.steps)); err != nil {
		return p.cutShort(err)
	}
	if !p.settled {
		p.settled = true
		p.settle(0)
	}
	return p.checkAfterUpdate()
}

func (p *Plan) untilUpdate(ctx context.Context, pool *Pool) error {
	if err := p.segment(ctx, pool, 0, 0, p.update); err != nil {
		return err
	}
	return p.checkBeforeUpdate(ctx)
}

// cutShort completes the error of an update on one machine that has failed.
func (p *Plan) cutShort(err error) error {
	var f *fault.Fault
	if !p.trains || p.outside || !errors.As(err, &f) {
		return err
	}
	c := *f
	c.Hint = "the update was cut short: some variables are those of this step and some those of the step before; load a saved state"
	return &c
}

// A kept variable lives in the scope and is written before the update.
type kept struct {
	name   string
	value  *tensor.Tensor
	copy   *tensor.Tensor // nil until the variable had a value when Keep was called
	filled bool           // copy has the value that Restore brings back
}

// chooseKept finds out whether the plan trains, and what Keep copies. Nothing is kept of a plan that exchanges variables with other machines, where
// a step belongs to all of them, nor of what is read from files.
func (c *compiler) chooseKept() {
	p := c.plan
	for _, n := range c.nodes {
		p.outside = p.outside || n.def.Class == ops.Dist || n.def.Class == ops.Serve
		p.trains = p.trains || n.op.Role().Has(program.RoleOptimize)
	}
	p.trains = p.trains || p.outside
	if p.outside {
		return
	}
	seen := map[*variable]bool{}
	for _, s := range p.pieces[:p.firstPiece(p.update)] {
		for _, v := range s.writes {
			if v.place == scoped && !seen[v] && s.def.Class != ops.FileIO {
				seen[v] = true
				p.kept = append(p.kept, kept{name: v.name, value: v.tensor})
			}
		}
	}
}

// Keep copies the variables of the scope that a run writes before its update, such as moving statistics: of a plan that does not train all that it
// writes, except for what it reads from files. A variable that has no value yet is left out. It allocates nothing after the first call.
func (p *Plan) Keep() {
	for i := range p.kept {
		k := &p.kept[i]
		if k.copy == nil {
			if _, ok := p.scope.Find(k.name); !ok {
				continue
			}
			k.copy = k.value.Clone()
		} else if err := k.copy.CopyFrom(k.value); err != nil {
			panic(err) // dims of variables in a scope never change
		}
		k.filled = true
	}
}

// Restore gives the variables the values that they had at the last Keep.
func (p *Plan) Restore() {
	for i := range p.kept {
		k := &p.kept[i]
		if !k.filled {
			continue
		}
		if err := k.value.CopyFrom(k.copy); err != nil {
			panic(err)
		}
		k.filled = false
	}
}

// settle tells the scope that the variables that steps from one on write have values.
func (p *Plan) settle(from int) {
	for _, s := range p.pieces[p.firstPiece(from):] {
		for _, v := range s.writes {
			if v.place == scoped {
				p.scope.MarkReady(v.name)
			}
		}
	}
}

func (p *Plan) segment(ctx context.Context, pool *Pool, index, from, to int) error {
	if pool != nil && p.dataflow != nil {
		return pool.run(ctx, p.dataflow[index])
	}
	return p.inOrder(ctx, from, to)
}

// inOrder runs steps one after the other.
func (p *Plan) inOrder(ctx context.Context, from, to int) (err error) {
	var at *piece
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(at.op, panicked(r))
		}
	}()
	for i := from; i < to; i++ {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		s := &p.steps[i]
		if p.trace != nil {
			err = s.traced(ctx, p, &at)
		} else {
			err = s.run(ctx, &at)
		}
		if err != nil {
			return failed(ctx, at, err)
		}
	}
	return nil
}

// traced is run with a record of how long it took.
func (s *step) traced(ctx context.Context, p *Plan, at **piece) error {
	start := time.Now()
	defer func() { p.trace.add(s, max(1, len(s.parts)), 0, start, p.step.Round) }()
	return s.run(ctx, at)
}

// failed completes the error of a piece. A kernel that only gave up because ctx ended reports that.
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

// RunFromBarrier runs the plan from its first send_barrier on, without checks. It is how a trainer that has no rows in a round stays in step with
// the others: it contributes nothing, says so, and receives what the round made.
func (p *Plan) RunFromBarrier(ctx context.Context) error {
	for i := range p.steps {
		if p.steps[i].pieces[0].op.Type != "send_barrier" {
			continue
		}
		if err := p.segment(ctx, nil, 1, i, len(p.steps)); err != nil {
			return err
		}
		p.settle(i)
		return nil
	}
	return fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one row in a program without send_barrier"))
}

// chooseChecks decides what must be finite before the update: the loss, which gets memory of its own so that it can be looked at, and
// everything fetched. A program without an update is not checked.
func (c *compiler) chooseChecks() {
	update := slices.IndexFunc(c.nodes, func(n node) bool { return isUpdate(n.op, n.def) })
	if !c.CheckFinite || update < 0 {
		return
	}
	p := c.plan
	check := func(v *variable) {
		if v.meta.DType.IsFloat() && v.place != fed && !uses(p.checks, v) {
			p.checks = append(p.checks, v)
		}
	}
	for _, n := range c.nodes[:update] {
		if role := n.op.Role(); !role.Has(program.RoleLoss) || role.Has(program.RoleBackward) {
			continue
		}
		for _, name := range n.op.OutputNames() {
			if v := c.variables[name]; v.place == temporary && ops.Product(v.meta.Dims) == 1 {
				v.place = own
				check(v)
			}
		}
	}
	for _, name := range c.Fetch {
		check(c.variables[name])
	}
}

// isUpdate reports whether an op changes parameters, speaks to other machines or saves: everything before the first such op can be
// computed again.
func isUpdate(op *program.Op, def *ops.Def) bool {
	saves := def.Class == ops.FileIO && len(op.OutputNames()) == 0
	return op.Role().Has(program.RoleOptimize) || def.Class == ops.Dist || def.Class == ops.Serve || saves
}

// nonFinite returns the index of the first NaN or infinity, -1 when there is none or t is no float.
func nonFinite(t *tensor.Tensor) int {
	switch t.DType() {
	case tensor.Float32:
		return kernel.FirstNonFinite(t.Float32s())
	case tensor.Float64:
		return kernel.FirstNonFinite(t.Float64s())
	}
	return -1
}

func element(t *tensor.Tensor, i int) string {
	if t.DType() == tensor.Float32 {
		return fmt.Sprint(t.Float32s()[i])
	}
	return fmt.Sprint(t.Float64s()[i])
}

// checkBeforeUpdate looks at what the first segment computed.
func (p *Plan) checkBeforeUpdate(ctx context.Context) error {
	update := p.firstPiece(p.update)
	for _, v := range p.checks {
		if v.writer >= 0 && v.writer < update && nonFinite(v.tensor) >= 0 {
			return p.diagnose(ctx, v)
		}
	}
	return nil
}

// checkAfterUpdate looks at fetched variables that the update computes, such as parameters.
func (p *Plan) checkAfterUpdate() error {
	update := p.firstPiece(p.update)
	for _, v := range p.checks {
		if v.writer >= update && nonFinite(v.tensor) >= 0 {
			return p.notFinite(p.pieces[v.writer], v, "the update has happened: load a saved state, and lower the learning rate or clip gradients")
		}
	}
	return nil
}

// diagnose runs the first segment again, piece by piece, to find the one that made the first number that is not finite. The feeds and parameters
// are those of the step, and chance is counted, so it computes the same again; only what the forward pass itself
// updates, such as moving averages, advances once more, until Run restores it.
func (p *Plan) diagnose(ctx context.Context, found *variable) error {
	for _, f := range p.feeds {
		if at := nonFinite(f.value); at >= 0 {
			return fault.E(fault.NotFinite, fault.Var(f.name), fault.At(p.where()),
				fault.Gotf("%s in element %d of the feed", element(f.value, at), at), fault.Want("finite numbers"))
		}
	}
	for i, s := range p.pieces[:p.firstPiece(p.update)] {
		for _, v := range s.reads {
			if v.place == scoped && (v.writer < 0 || v.writer >= i) && nonFinite(v.tensor) >= 0 {
				return p.notFinite(s, v, beforeUpdate)
			}
		}
		if err := s.run(ctx); err != nil {
			return failed(ctx, s, err)
		}
		for _, v := range s.writes {
			if v.tensor != nil && nonFinite(v.tensor) >= 0 {
				return p.notFinite(s, v, beforeUpdate)
			}
		}
	}
	return p.notFinite(p.pieces[found.writer], found, beforeUpdate)
}

// beforeUpdate is what to do about numbers that are not finite while the parameters still are.
const beforeUpdate = "lower the learning rate, clip gradients or check the data"

func (p *Plan) notFinite(s *piece, v *variable, hint string) error {
	got := "a variable that was not finite"
	if at := nonFinite(v.tensor); at >= 0 {
		got = fmt.Sprintf("%s in element %d of %v", element(v.tensor, at), at, v.tensor)
	}
	return ops.At(s.op, fault.E(fault.NotFinite, fault.Var(v.name), fault.At(p.where()), fault.Got(got), fault.Want("finite numbers"),
		fault.Hint(hint)))
}

func (p *Plan) where() string { return fmt.Sprintf("step %d", p.step.Round) }
