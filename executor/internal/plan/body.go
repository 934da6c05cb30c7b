package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A body runs a block for an op of class Control. Dims of what it reads may change from run to run, so it is not compiled as a whole. It is a list of parts:
//
//   - an op of class Control, whose kernel reads dims when it runs;
//   - a run of other ops (a straight part), which is compiled into a plan once for each list of dims that it meets, and of values that give attributes.
//
// A body that meets only dims that it has met before allocates nothing.
type body struct {
	frame   *frame
	parts   []part
	fresh   []*tensor.Tensor // that have no value before the block runs
	outer   *ops.Step        // of the plan around it
	step    ops.Step
	tape    *ops.Tape // for the gradient; nil for none
	entries []entry   // what the gradient needs as it was when a run began
	records bool      // a gradient takes the tape
}

type part interface {
	run(ctx context.Context) error
}

// newBody prepares a block that an op runs. gradient is nil unless the block is one.
func newBody(index program.BlockIndex, around *around, gradient *reversal) (*body, error) {
	of, op, outer := around.block, around.op, around.vars
	block, err := of.Program().Block(index)
	if err != nil {
		return nil, err
	}
	b := &body{frame: &frame{block: block, outer: outer, budget: around.budget, grain: around.grain, own: map[string]*holder{}, tapes: around.tapes}, outer: around.env.Step}
	if gradient != nil {
		b.frame.reverses(gradient)
	}
	own := *around.env
	own.Step, own.Workers = &b.step, 1
	own.Rank = b.frame.ranks()
	uses := block.Uses()
	store := newStore(around.budget)
	var line []*program.Op
	first := 0
	flush := func(end int) {
		if len(line) > 0 {
			b.parts = append(b.parts, newStraight(b.frame, line, placed{first, end, uses}, &own, store))
		}
		line = nil
	}
	for i, op := range block.Ops {
		def, ok := ops.Lookup(op.Type)
		switch {
		case !ok:
			return nil, ops.Unregistered(op.Type, fault.On(op))
		case def.Class != ops.Control:
			if rewrites(line, op) {
				flush(i)
			}
			if line == nil {
				first = i
			}
			line = append(line, op)
			continue
		}
		flush(i)
		p, err := b.control(op, def, &own)
		if err != nil {
			return nil, ops.At(op, err)
		}
		b.parts = append(b.parts, p)
	}
	flush(len(block.Ops))
	_, writes := of.Touches(op)
	for name := range writes {
		if h := outer.holder(name); h != nil && h.tensor != nil && firstValue(of, op, name) {
			b.fresh = append(b.fresh, h.tensor)
		}
	}
	for _, name := range op.OutputNames() {
		h := outer.holder(name)
		if h == nil {
			continue
		}
		if tape, ok := h.value.(*ops.Tape); ok {
			b.tape, tape.Forward = tape, b
		}
	}
	return b, nil
}

// rewrites reports whether op writes a variable that an op of the line reads and that op does not change in place. The new value may have other dims.
func rewrites(line []*program.Op, op *program.Op) bool {
	for _, name := range op.OutputNames() {
		if slices.Contains(op.InputNames(), name) {
			continue
		}
		if slices.ContainsFunc(line, func(before *program.Op) bool { return slices.Contains(before.InputNames(), name) }) {
			return true
		}
	}
	return false
}

// firstValue reports whether a variable has no value before op of block runs.
func firstValue(block *program.Block, op *program.Op, name string) bool {
	v, own := block.Var(name)
	if !own || v.Persistable || slices.Contains(op.InputNames(), name) {
		return false
	}
	for _, before := range block.Ops {
		if before == op {
			return true
		}
		if _, writes := block.Touches(before); writes[name] {
			return false
		}
	}
	return true
}

// Run implements ops.Body.
func (b *body) Run(ctx context.Context, n int64) error {
	b.step = *b.outer
	b.step.Iteration = b.outer.Iteration*1_000_003 + uint64(n) + 1
	b.frame.clear()
	if b.records && n == 0 {
		b.tape.Begin()
	}
	for _, e := range b.entries {
		if err := tensor.Assign(e.copy, e.of); err != nil {
			return err
		}
	}
	for _, p := range b.parts {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	if b.records {
		return b.tape.Record()
	}
	return nil
}

// Skip implements ops.Body.
func (b *body) Skip() {
	if b.records {
		b.tape.Begin()
	}
	for _, t := range b.fresh {
		tensor.Zero(t)
	}
}

// Inside implements ops.Body.
func (b *body) Inside(name string) *tensor.Tensor {
	if v, ok := b.frame.block.Var(name); !ok || !isTensor(v) || b.frame.links[name] != nil {
		return nil
	}
	b.frame.keep(name)
	return b.frame.holder(name).tensor
}

// A control is an op of class Control in a block.
type control struct {
	op     *program.Op
	kernel ops.Kernel
}

func (c *control) run(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = ops.At(c.op, panicked(r))
		}
	}()
	return ops.At(c.op, c.kernel(ctx))
}

// control binds an op to the variables of the frame.
func (b *body) control(op *program.Op, def *ops.Def, env *ops.Env) (c *control, err error) {
	var noScratch error
	binding := ops.NewBinding(op, def, env, b.frame.tensors(op.Inputs), b.frame.tensors(op.Outputs), func(dtype tensor.DType, n int) *tensor.Tensor {
		t, err := b.scratch(dtype, n)
		if err != nil {
			noScratch = err
		}
		return t
	})
	defer func() {
		if r := recover(); r != nil {
			err = cmp.Or(noScratch, panicked(r))
		}
	}()
	kernel, err := def.Bind(binding.Within(&around{block: b.frame.block, op: op, vars: b.frame, env: env, budget: b.frame.budget, grain: b.frame.grain, tapes: b.frame.tapes}))
	return &control{op: op, kernel: kernel}, cmp.Or(noScratch, err)
}

// scratch makes memory for one op of the block.
func (b *body) scratch(dtype tensor.DType, n int) (*tensor.Tensor, error) {
	if err := b.frame.budget.Take("", int64(n)*int64(dtype.Size())); err != nil {
		return nil, err
	}
	return tensor.New(dtype, int64(n))
}

// An around implements ops.Surroundings for one op.
type around struct {
	block  *program.Block
	op     *program.Op
	vars   surrounding
	env    *ops.Env
	budget *tensor.Budget
	grain  time.Duration // of the plans of blocks
	tapes  *tapes
}

func (a *around) Value(name string) any {
	if h := a.vars.holder(name); h != nil {
		return h.value
	}
	return nil
}

func (a *around) Body(index program.BlockIndex) (ops.Body, error) {
	return newBody(index, a, nil)
}

// laidOut finds the variables of a block that is compiled as a whole.
type laidOut struct{ variables *variables }

func (l laidOut) holder(name string) *holder {
	v := l.variables.named[name]
	if v == nil {
		return nil
	}
	return &holder{tensor: v.tensor, value: v.value, laid: v.place != scoped}
}

// surround gives a binding what an op of class Control needs.
func (b *binder) surround(n *node, binding *ops.Binding) {
	for _, names := range [][]string{n.op.InputNames(), n.op.OutputNames(), n.reads, n.writes} {
		for _, name := range names {
			if v := b.variables.named[name]; v != nil && v.tensor != nil && v.place != dynamic {
				tensor.Fix(v.tensor)
			}
		}
	}
	binding.Within(&around{block: b.block, op: n.op, vars: laidOut{b.variables}, env: b.env, budget: b.room.budget, grain: b.grain, tapes: b.tapes})
}

// complete adds to a piece what the blocks of its op read and write. They may leave what they write as it was, so it counts as read, too. If the op makes
// sequences, the piece hands on their offsets.
func (b *binder) complete(n *node, p *piece) {
	add := func(list *[]*variable, name string) {
		if v := b.variables.named[name]; v != nil && !uses(*list, v) {
			*list = append(*list, v)
		}
	}
	for _, name := range n.reads {
		add(&p.reads, name)
	}
	for _, name := range slices.Concat(n.writes, n.op.OutputNames()) {
		add(&p.reads, name)
		add(&p.writes, name)
	}
	var made []feed
	for _, v := range p.writes {
		if v.meta.LoDLevel > 0 && v.meta.LoDOf == v.name {
			made = append(made, feed{value: v.tensor, followers: b.variables.followers(v)})
		}
	}
	if len(made) == 0 {
		return
	}
	kernel := p.kernel
	p.kernel = func(ctx context.Context) error {
		if err := kernel(ctx); err != nil {
			return err
		}
		for i := range made {
			if err := made[i].passOn(); err != nil {
				return err
			}
		}
		return nil
	}
}

// passOn gives the LoD of the variable itself to its followers.
func (f *feed) passOn() error {
	for _, s := range f.followers {
		if len(f.value.LoD()) < s.levels {
			return fault.E(fault.ShapeMismatch, fault.Gotf("%d LoD levels", len(f.value.LoD())), fault.Wantf("%d or more", s.levels))
		}
		if s.value != f.value {
			s.value.SetLoD(f.value.LoD()[:s.levels])
		}
	}
	return nil
}
