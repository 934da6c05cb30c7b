package plan

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostPlans is how many plans a straight part keeps: for as many lists of dims of what it reads. It bounds the memory of a loop whose dims are ever new. If there are
// more, the plan that was used longest ago gets the new dims.
const mostPlans = 64

// mostValues is how many plans a straight part keeps that takes attributes from values: as many as such a loop often has runs, since each run has another value. One that takes the
// numbers of rows from values keeps mostPlans: batches rarely have the same lengths again.
const mostValues = 1024

// A straight part of a block is a run of ops of a block whose dims follow from those of what they read, and from values that give them attributes.
type straight struct {
	frame  *frame
	ops    []*program.Op
	stay   func(name string) bool
	inputs []*tensor.Tensor // that the ops read before they write them, and whose dims may change
	lod    bool             // dims or sequences that the ops make follow from the offsets of what they read
	env    *ops.Env
	store  *Store    // of all straight parts of the block
	plans  []*shaped // the one that was used last at the end

	place  placed
	given  []ops.Missing    // variables that have their values before the part runs, and give attributes of its ops or decide rows
	from   []*tensor.Tensor // of given
	counts bool             // given has one that gives an attribute, of which all numbers count, as the counter of a loop
	halves []*straight      // that run in its place: it would compute such values itself. nil if it need not be divided
}

// A shaped is a plan for one list of dims, and of values.
type shaped struct {
	inputs  []ops.Meta
	values  []*tensor.Tensor // of straight.given, or the largest of them alone
	plan    *Plan
	outputs []output
}

// An output has the dims that a plan gives it.
type output struct {
	name   string
	tensor *tensor.Tensor
	dtype  tensor.DType
	dims   []int64
	lod    [][]int64 // that ops have made; nil for none
}

// A placed says which ops of a block a part has, from first to end, and where the block uses its variables.
type placed struct {
	first, end int
	uses       map[string]program.Use
}

// newStraight prepares some ops of a block.
func newStraight(f *frame, list []*program.Op, at placed, env *ops.Env, store *Store) *straight {
	first, end, uses := at.first, at.end, at.uses
	outside := func(positions []int) bool {
		return slices.ContainsFunc(positions, func(i int) bool { return i < first || i >= end })
	}
	s := &straight{frame: f, ops: list, place: at, env: env, store: store, stay: func(name string) bool {
		return f.kept[name] || outside(uses[name].Readers) || outside(uses[name].Writers)
	}}
	written := map[string]bool{}
	for _, op := range list {
		if def, ok := ops.Lookup(op.Type); ok && def.MakesLoD != nil && def.MakesLoD(op) {
			s.lod = true
		}
		for _, name := range op.InputNames() {
			if h := f.holder(name); !written[name] && h != nil && h.tensor != nil && (h.laid || !tensor.IsFixed(h.tensor)) && !slices.Contains(s.inputs, h.tensor) {
				s.inputs = append(s.inputs, h.tensor)
			}
		}
		for _, name := range op.OutputNames() {
			written[name] = true
		}
	}
	return s
}

func (s *straight) run(ctx context.Context) error {
	if s.halves != nil {
		return s.runHalves(ctx)
	}
	c, err := s.find()
	if err != nil {
		return err
	}
	if c == nil {
		return s.runHalves(ctx)
	}
	for i := range c.outputs {
		if o := &c.outputs[i]; o.tensor.DType() != o.dtype || !slices.Equal(o.tensor.Dims(), o.dims) {
			if err := resize(o.tensor, o.name, o.dtype, o.dims); err != nil {
				if i := slices.IndexFunc(s.ops, func(op *program.Op) bool { return slices.Contains(op.OutputNames(), o.name) }); i >= 0 {
					return ops.At(s.ops[i], err)
				}
				return err
			}
		}
	}
	for i := range c.outputs {
		if o := &c.outputs[i]; o.lod != nil {
			o.tensor.SetLoD(o.lod)
		}
	}
	for i := range c.plan.sources {
		if err := c.plan.sources[i].passOn(); err != nil {
			return err
		}
	}
	step := *s.env.Step
	c.plan.step, c.plan.caller = step, nil
	return c.plan.Run(ctx, nil)
}

func (s *straight) runHalves(ctx context.Context) error {
	for _, half := range s.halves {
		if err := half.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// find returns the plan for the present dims and values. It compiles one that is new. It returns nil if it has divided the part instead.
func (s *straight) find() (*shaped, error) {
	for k := range s.plans {
		i := len(s.plans) - 1 - k
		if s.counts { // a loop meets its values in the same order again: the one that was used longest ago comes next
			i = k
		}
		c := s.plans[i]
		if !s.hasValues(c.values) || !c.fits(s.inputs, s.lod) {
			continue
		}
		copy(s.plans[i:], s.plans[i+1:])
		s.plans[len(s.plans)-1] = c
		return c, nil
	}
	c, err := s.make()
	if c == nil {
		return nil, err
	}
	c.inputs = c.inputs[:0]
	for _, t := range s.inputs {
		m := ops.MetaOfValue(t)
		m.Dims = slices.Clone(m.Dims)
		if s.lod {
			m.LoD = tensor.CloneLoD(t.LoD())
		}
		c.inputs = append(c.inputs, m)
	}
	for i, t := range s.from {
		value := copied(t)
		if s.given[i].Largest {
			if value, err = tensor.FromSlice([]int64{ops.Largest(t)}); err != nil {
				return nil, err
			}
		}
		c.values = append(c.values, value)
	}
	c.outputs = c.outputs[:0]
	for _, v := range c.plan.making.in.variables.order {
		if v.hasDims() {
			c.outputs = append(c.outputs, output{v.name, v.tensor, v.meta.DType, slices.Clone(v.meta.Dims), c.plan.made[v.name]})
		}
	}
	s.plans = append(s.plans, c)
	return c, nil
}

// make returns a plan for the present dims: a new one, or one of others that gets them.
func (s *straight) make() (*shaped, error) {
	if len(s.plans) >= mostPlans && (!s.counts || len(s.plans) >= mostValues) {
		c := s.plans[0]
		s.plans = slices.Delete(s.plans, 0, 1)
		if Resize(c.plan, nil) {
			c.values = c.values[:0]
			return c, nil
		}
	}
	for {
		var waits *program.Op
		var missing []ops.Missing
		compiled, err := Compile(Request{Block: s.frame.block, Ops: s.ops, LoD: s.lod, Stay: s.stay, Scope: s.frame, Env: *s.env, Store: s.store, Budget: s.frame.budget, Grain: s.frame.grain,
			Given: s.given, Waits: func(op *program.Op, list []ops.Missing) { waits, missing = op, list }})
		if err == nil {
			return &shaped{plan: compiled}, nil
		}
		if waits == nil || !s.give(waits, missing) {
			return nil, err
		}
		if s.halves != nil {
			return nil, nil
		}
	}
}

// give lets plans depend on the values that op lacks. If ops before it write them, the part is divided before op. It reports false if that was done before.
func (s *straight) give(op *program.Op, missing []ops.Missing) bool {
	at := slices.Index(s.ops, op)
	written := at >= 0 && slices.ContainsFunc(s.ops[:at], func(before *program.Op) bool {
		return slices.ContainsFunc(missing, func(m ops.Missing) bool { return slices.Contains(before.OutputNames(), m.Variable) })
	})
	if written {
		middle := s.place.first + at
		s.halves = []*straight{newStraight(s.frame, s.ops[:at], placed{s.place.first, middle, s.place.uses}, s.env, s.store),
			newStraight(s.frame, s.ops[at:], placed{middle, s.place.end, s.place.uses}, s.env, s.store)}
		return true
	}
	more := false
	for _, m := range missing {
		t, ok := s.frame.Find(m.Variable)
		i := slices.IndexFunc(s.given, func(g ops.Missing) bool { return g.Variable == m.Variable })
		switch {
		case ok && i < 0:
			s.given, s.from, more = append(s.given, m), append(s.from, t), true
		case ok && s.given[i].Largest && !m.Largest:
			s.given[i].Largest, more = false, true
		}
		s.counts = s.counts || m.Attr != "" && !m.Largest
	}
	if more {
		s.plans = nil // they know less
	}
	return more
}

// hasValues reports whether the variables that give attributes have these values.
func (s *straight) hasValues(values []*tensor.Tensor) bool {
	if len(values) != len(s.from) {
		return false
	}
	for i, t := range s.from {
		if s.given[i].Largest {
			if values[i].Int64s()[0] != ops.Largest(t) {
				return false
			}
		} else if !sameNumbers(t, values[i]) {
			return false
		}
	}
	return true
}

// copied returns a tensor with the elements of t, which stay as they are.
func copied(t *tensor.Tensor) *tensor.Tensor {
	c := &tensor.Tensor{}
	if err := tensor.Assign(c, t); err != nil {
		return nil
	}
	return c
}

// sameNumbers reports whether two tensors have the same type, dims and elements.
func sameNumbers(a, b *tensor.Tensor) bool {
	if b == nil || a.DType() != b.DType() || !slices.Equal(a.Dims(), b.Dims()) {
		return false
	}
	switch a.DType() {
	case tensor.Int64:
		return slices.Equal(a.Int64s(), b.Int64s())
	case tensor.Int32:
		return slices.Equal(a.Int32s(), b.Int32s())
	case tensor.Float32:
		return slices.Equal(a.Float32s(), b.Float32s())
	case tensor.Float64:
		return slices.Equal(a.Float64s(), b.Float64s())
	case tensor.Bool:
		return slices.Equal(a.Bools(), b.Bools())
	}
	return false
}

// fits reports whether tensors have the dims that the plan was compiled for, and the offsets if it depends on them.
func (c *shaped) fits(inputs []*tensor.Tensor, lod bool) bool {
	for i, t := range inputs {
		m := &c.inputs[i]
		if t.DType() != m.DType || !slices.Equal(t.Dims(), m.Dims) || len(t.LoD()) != len(m.Sequences) {
			return false
		}
		for k, level := range t.LoD() {
			if int64(len(level))-1 != m.Sequences[k] || lod && !slices.Equal(level, m.LoD[k]) {
				return false
			}
		}
	}
	return true
}
