package control

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A recurrent op runs a block once for each row of its inputs, the first row first, or the last one with reverse. Each run sees one row of each input under the
// name that the input has outside, and the states that the run before has left. Rows of outputs are collected in the order of the inputs.
//
//	inputs [T, ...]  --row t-->  block  --row t-->  outputs [T, ...]
//	initial_states  ---> ex_states    states ---> ex_states of the next run
//
// The gradient goes the other way. It gives the block of the gradient a row of the gradients of the outputs, and the gradients of the states, which are those
// of ex_states of the run before it, zeros at first. It collects the gradients of inputs by rows. Those of ex_states of the last run are those of
// initial_states. Gradients of parameters are summed over the runs.

func init() {
	inputs := []ops.Slot{
		{Name: "inputs", Doc: "[steps, ...]: a step has one row", Duplicable: true},
		{Name: "initial_states", Doc: "the states before the first step", Duplicable: true, Dispensable: true},
		{Name: "parameters", Doc: "what else the block reads", Duplicable: true, Dispensable: true},
	}
	scopes := ops.Slot{Name: "step_scopes", Doc: "what the runs leave to their gradients", Dispensable: true}
	attrs := func(block string) []ops.Attr {
		return []ops.Attr{blockAttr(block),
			{Name: "ex_states", Doc: "what the block calls the states before a step", Default: []string{}},
			{Name: "states", Doc: "what it calls those after the step", Default: []string{}},
			{Name: "reverse", Doc: "begin with the last row", Default: false},
			{Name: "has_states", Doc: "whether there are states; no effect here: the lists tell", Default: false},
			{Name: "is_train", Doc: "keep what gradients need; no effect here: it is kept if there is a gradient", Default: true}}
	}
	ops.Register(ops.Def{
		Type:  "recurrent",
		Class: ops.Control,
		Doc: "Runs a block once for each row of its inputs: a recurrent network over sequences of one length. Row t of the outputs is what the run on row t of the " +
			"inputs has computed. A run begins with the states that the run before has left.",
		Inputs:    inputs,
		Outputs:   []ops.Slot{{Name: "outputs", Doc: "[steps, ...]: rows that the block computes, under their names in the block", Duplicable: true}, scopes},
		Attrs:     attrs("the block of a step"),
		Infer:     inferRecurrent,
		Gradient:  gradientOfRecurrent,
		Bind:      bindRecurrent,
		MixesRows: opkit.Mixes,
	})
	gradOf := func(slot string) string { return slot + program.GradSuffix }
	ops.Register(ops.Def{
		Type:  "recurrent_grad",
		Class: ops.Control,
		Doc:   "Runs the gradient of the block of recurrent, once for each run of the block and in reverse order.",
		Inputs: append(slices.Clone(inputs),
			ops.Slot{Name: "outputs", Doc: "of the forward op", Duplicable: true, Dispensable: true},
			ops.Slot{Name: gradOf("outputs"), Doc: "their gradients, under their names in the block", Duplicable: true, Dispensable: true},
			ops.Slot{Name: "step_scopes", Doc: "what the runs of the forward block have left"},
			ops.Slot{Name: gradOf("step_scopes"), Doc: "no effect here", Dispensable: true}),
		Outputs: []ops.Slot{
			{Name: gradOf("inputs"), Doc: "by rows; zeros for what the block does not use", Duplicable: true, Dispensable: true},
			{Name: gradOf("initial_states"), Doc: "of ex_states of the first step", Duplicable: true, Dispensable: true},
			{Name: gradOf("parameters"), Doc: "sums over the steps, zeros if there was none", Duplicable: true, Dispensable: true},
		},
		Attrs: attrs("the gradient of the block"),
		Infer: func(s *ops.Shapes) error {
			for _, slot := range []string{"inputs", "initial_states", "parameters"} {
				if names := s.Op().Outputs[gradOf(slot)]; len(names) > 0 && len(names) != len(s.Ins(slot)) {
					return s.Errorf(slot, "as many variables as there are gradients")
				}
				s.Like(gradOf(slot), slot)
			}
			return cmpErr(checkBlock(s), checkSteps(s))
		},
		Bind:      bindRecurrentGrad,
		MixesRows: opkit.Mixes,
	})
}

func inferRecurrent(s *ops.Shapes) error {
	if err := cmpErr(checkBlock(s), checkSteps(s)); err != nil {
		return err
	}
	if s.Has("inputs") {
		return nil
	}
	return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("no inputs"), fault.Want("one or more, whose rows are the steps"))
}

// cmpErr returns the first error of two.
func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// checkSteps checks what recurrent and its gradient hand to the block.
func checkSteps(s *ops.Shapes) error {
	steps, _ := ops.StepsOf(s.Op())
	if len(steps.Initial) != len(steps.Before) || len(steps.Initial) != len(steps.After) {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d initial_states, %d ex_states and %d states", len(steps.Initial), len(steps.Before), len(steps.After)),
			fault.Want("as many of each"))
	}
	rows := int64(program.Unknown)
	for i, m := range s.Ins("inputs") {
		name := s.Op().Inputs["inputs"][i]
		switch {
		case m.Kind != program.LoDTensor || len(m.Dims) < 2:
			return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(name), fault.Got(m.String()), fault.Want("a dense tensor of rank 2 or more: [steps, ...]"))
		case !opkit.Agree(rows, m.Dims[0]):
			return fault.E(fault.ShapeMismatch, fault.On(s.Op()), fault.Var(name), fault.Gotf("%d steps", m.Dims[0]), fault.Wantf("%d, as the inputs before have", rows))
		case rows == program.Unknown:
			rows = m.Dims[0]
		}
	}
	if rows > MostIterations {
		return fault.E(fault.TooLarge, fault.On(s.Op()), fault.Gotf("%d steps", rows), fault.Wantf("at most %d", MostIterations))
	}
	for i, m := range s.Ins("initial_states") {
		if m.Kind != program.LoDTensor {
			return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(steps.Initial[i]), fault.Got(m.String()), fault.Want("a dense tensor"))
		}
	}
	return nil
}

// gradientOfRecurrent is the Def.Gradient of recurrent.
func gradientOfRecurrent(g *ops.Grad) ([]*program.Op, error) {
	block := g.Block()
	if block == nil || g.Op().Out("step_scopes") == "" {
		return nil, fault.E(fault.InvalidProgram, fault.On(g.Op()), fault.Got("no gradient of the block, or no variable in step_scopes"), fault.Want("both"))
	}
	steps, _ := ops.StepsOf(g.Op())
	op := g.GradOp("recurrent_grad")
	op.Attrs["sub_block"] = block.Block
	wanted := func(slot string, has func(i int, name string) bool) {
		if len(g.In(slot)) == 0 {
			return
		}
		op.Inputs[slot] = g.In(slot)
		grads := make([]string, len(g.In(slot)))
		for i, name := range g.InGrad(slot) {
			grads[i] = program.Empty
			if has(i, g.In(slot)[i]) {
				grads[i] = name
			}
		}
		op.Outputs[slot+program.GradSuffix] = grads
	}
	wanted("inputs", func(_ int, name string) bool { return slices.Contains(block.Left, name) })
	wanted("initial_states", func(i int, _ string) bool { return slices.Contains(block.Left, steps.Before[i]) })
	wanted("parameters", func(_ int, name string) bool { return slices.Contains(block.Parts, name) })
	op.Inputs["outputs"], op.Inputs["step_scopes"] = g.Out("outputs"), g.Out("step_scopes")
	op.Inputs["outputs"+program.GradSuffix] = g.OutGrad("outputs")
	return []*program.Op{op}, nil
}

// A rowLink hands row t of a tensor outside to one inside of the block, or takes it from there.
type rowLink struct {
	name            string
	outside, inside *tensor.Tensor
	dims            []int64
}

// give copies row t to the tensor inside.
func (l *rowLink) give(t int64) error {
	d := l.outside.Dims()
	if err := tensor.Resize(l.inside, l.outside.DType(), d[1:]...); err != nil {
		return fault.E(fault.KindOf(err), fault.Var(l.name), fault.Cause(err))
	}
	n := int64(l.inside.Len())
	return copyElements(l.inside, 0, l.outside, t*n, n)
}

// take copies the tensor inside to row t. outside gets rows for all steps.
func (l *rowLink) take(t, steps int64) error {
	l.dims = append(append(l.dims[:0], steps), l.inside.Dims()...)
	if d := l.outside.Dims(); l.outside.DType() != l.inside.DType() || !slices.Equal(d, l.dims) {
		if err := tensor.Resize(l.outside, l.inside.DType(), l.dims...); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(l.name), fault.Cause(err))
		}
	}
	n := int64(l.inside.Len())
	return copyElements(l.outside, t*n, l.inside, 0, n)
}

// A carry is a state that a run leaves to the next one.
type carry struct {
	name     string
	from, to *tensor.Tensor
	between  *tensor.Tensor // a copy, if another state overwrites from before it is read; nil for none
	initial  *tensor.Tensor
	adding   bool // of gradients: to has a value already
}

// linkRows finds what a block calls some variables outside. Names that the block does not declare are missing: optional ones are left out.
func linkRows(b *ops.Binding, body ops.Body, outside []*tensor.Tensor, names, inside []string, optional bool) ([]*rowLink, error) {
	var links []*rowLink
	for i, t := range outside {
		if i >= len(names) || i >= len(inside) || names[i] == program.Empty || t == nil {
			continue
		}
		in := body.Inside(inside[i])
		if in == nil && optional {
			continue
		}
		if in == nil {
			return nil, undeclared(b, inside[i])
		}
		links = append(links, &rowLink{name: names[i], outside: t, inside: in})
	}
	return links, nil
}

func undeclared(b *ops.Binding, name string) error {
	return fault.E(fault.InvalidProgram, fault.On(b.Op()), fault.Var(name), fault.Got("a name that the block of the steps does not declare"), fault.Want("a tensor of the block"))
}

// stepsIn returns the number of steps.
func stepsIn(b *ops.Binding, inputs []*tensor.Tensor) (int64, error) {
	n := int64(-1)
	for i, x := range inputs {
		d := x.Dims()
		if len(d) < 2 || n >= 0 && d[0] != n || d[0] > MostIterations {
			return 0, fault.E(fault.ShapeMismatch, fault.Var(b.Op().Inputs["inputs"][i]), fault.Gotf("%v", d),
				fault.Wantf("rank 2 or more, and as many rows as other inputs: at most %d", MostIterations))
		}
		n = d[0]
	}
	return n, nil
}

// row returns which row run k works on.
func row(k, steps int64, reverse bool) int64 {
	if reverse {
		return steps - 1 - k
	}
	return k
}

func bindRecurrent(b *ops.Binding) (ops.Kernel, error) {
	body, err := b.Body("sub_block")
	if err != nil {
		return nil, err
	}
	steps, _ := ops.StepsOf(b.Op())
	inputs, reverse := b.Ins("inputs"), b.Bool("reverse")
	given, err := linkRows(b, body, inputs, steps.Inputs, steps.Inputs, false)
	if err != nil {
		return nil, err
	}
	taken, err := linkRows(b, body, b.Outs("outputs"), steps.Outputs, steps.Outputs, false)
	if err != nil {
		return nil, err
	}
	states := make([]carry, len(steps.Initial))
	for i := range states {
		s := &states[i]
		s.name, s.initial, s.from, s.to = steps.Before[i], b.Ins("initial_states")[i], body.Inside(steps.After[i]), body.Inside(steps.Before[i])
		if s.from == nil || s.to == nil {
			return nil, cmpErr(missing(b, s.from, steps.After[i]), missing(b, s.to, steps.Before[i]))
		}
		if slices.Contains(steps.Before, steps.After[i]) && s.from != s.to {
			if s.between, err = tensor.New(s.from.DType(), 0); err != nil {
				return nil, err
			}
		}
	}
	return func(ctx context.Context) error {
		n, err := stepsIn(b, inputs)
		if err != nil {
			return err
		}
		if n == 0 {
			body.Skip()
			return nil
		}
		for k := range n {
			if err := cmpErr(hold(states, k == 0), advance(states, k == 0)); err != nil {
				return err
			}
			for _, l := range given {
				if err := l.give(row(k, n, reverse)); err != nil {
					return err
				}
			}
			if err := body.Run(ctx, k); err != nil {
				return err
			}
			for _, l := range taken {
				if err := l.take(row(k, n, reverse), n); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil
}

func missing(b *ops.Binding, t *tensor.Tensor, name string) error {
	if t == nil {
		return undeclared(b, name)
	}
	return nil
}

// hold copies what the run before has left and this one would overwrite too early.
func hold(states []carry, first bool) error {
	for i := range states {
		if s := &states[i]; s.between != nil && !first {
			if err := tensor.Assign(s.between, s.from); err != nil {
				return err
			}
		}
	}
	return nil
}

// advance gives a run the states of the run before. A state keeps its dims.
func advance(states []carry, first bool) error {
	for i := range states {
		s := &states[i]
		from := s.from
		switch {
		case first:
			from = s.initial
		case s.between != nil:
			from = s.between
		}
		if !first && (from.DType() != s.to.DType() || !slices.Equal(from.Dims(), s.to.Dims())) {
			return fault.E(fault.ShapeMismatch, fault.Var(s.name), fault.Gotf("a state %v%v after a step", from.DType(), from.Dims()),
				fault.Wantf("%v%v, as before it", s.to.DType(), s.to.Dims()))
		}
		if err := tensor.Assign(s.to, from); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(s.name), fault.Cause(err))
		}
	}
	return nil
}

func bindRecurrentGrad(b *ops.Binding) (ops.Kernel, error) {
	op := b.Op()
	body, err := b.Reverse("sub_block", "step_scopes", nil)
	if err != nil {
		return nil, err
	}
	steps, _ := ops.StepsOf(op)
	outGrads := op.Inputs["outputs"+program.GradSuffix]
	given, err := linkRows(b, body, b.Ins("outputs"+program.GradSuffix), outGrads, outGrads, true)
	if err != nil {
		return nil, err
	}
	inputs, reverse := b.Ins("inputs"), b.Bool("reverse")
	grads := func(slot string) ([]*tensor.Tensor, []string) {
		return b.Outs(slot + program.GradSuffix), op.Outputs[slot+program.GradSuffix]
	}
	inGrads, inNames := grads("inputs")
	inside := make([]string, len(steps.Inputs))
	for i, name := range steps.Inputs {
		inside[i] = program.GradName(name)
	}
	taken, err := linkRows(b, body, inGrads, inNames, inside, true)
	if err != nil {
		return nil, err
	}
	states := carriesBack(b, body, steps, given)
	parts := partsOf(b, body, "parameters")
	return func(ctx context.Context) error {
		n, err := stepsIn(b, inputs)
		if err != nil {
			return err
		}
		runs, err := body.Begin()
		if err != nil {
			return err
		}
		if runs != n {
			return fault.E(fault.InvalidProgram, fault.Gotf("%d steps", n), fault.Wantf("%d, as the forward op took", runs))
		}
		for i, t := range inGrads { // those that the block does not compute are zeros
			if t != nil && inNames[i] != program.Empty {
				if err := zerosLike(t, inputs[i], inNames[i]); err != nil {
					return err
				}
			}
		}
		if err := clearParts(parts); err != nil {
			return err
		}
		for k := n - 1; k >= 0; k-- {
			if err := hold(states, k == n-1); err != nil {
				return err
			}
			for _, l := range given {
				if err := l.give(row(k, n, reverse)); err != nil {
					return err
				}
			}
			if err := advanceBack(states, k == n-1); err != nil {
				return err
			}
			if err := body.Run(ctx, k); err != nil {
				return err
			}
			for _, l := range taken {
				if err := l.take(row(k, n, reverse), n); err != nil {
					return err
				}
			}
			if err := addParts(parts, k == n-1); err != nil {
				return err
			}
		}
		return finishBack(b, states, n)
	}, nil
}

// carriesBack links the gradients of the states before a run to those of the states after the run before it.
func carriesBack(b *ops.Binding, body ops.Body, steps ops.Steps, given []*rowLink) []carry {
	states := make([]carry, len(steps.Initial))
	for i := range states {
		s := &states[i]
		s.name, s.initial = program.GradName(steps.Before[i]), b.Ins("initial_states")[i]
		s.from, s.to = body.Inside(program.GradName(steps.Before[i])), body.Inside(program.GradName(steps.After[i]))
		if s.from != nil && slices.Contains(slices.Concat(steps.After, steps.Outputs), steps.Before[i]) {
			s.between, _ = tensor.New(tensor.Float32, 0)
		}
		for _, l := range given {
			s.adding = s.adding || l.inside == s.to
		}
		for j := range i {
			s.adding = s.adding || states[j].to == s.to && s.to != nil
		}
	}
	return states
}

// advanceBack gives a run of the gradient the gradients of the states after it: zeros if no run follows it.
func advanceBack(states []carry, last bool) error {
	for i := range states {
		s := &states[i]
		from := s.from
		if s.between != nil {
			from = s.between
		}
		var err error
		switch {
		case s.to == nil:
		case last || from == nil:
			if !s.adding {
				err = zerosLike(s.to, s.initial, s.name)
			}
		case s.adding:
			err = addTo(s.to, from)
		default:
			err = tensor.Assign(s.to, from)
		}
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(s.name), fault.Cause(err))
		}
	}
	return nil
}

// finishBack gives initial_states their gradients: zeros if no step was taken, or if no step uses the state.
func finishBack(b *ops.Binding, states []carry, n int64) error {
	names := b.Op().Outputs["initial_states"+program.GradSuffix]
	for i, out := range b.Outs("initial_states" + program.GradSuffix) {
		if out == nil || names[i] == program.Empty {
			continue
		}
		s := &states[i]
		if n == 0 || s.from == nil {
			if err := zerosLike(out, s.initial, names[i]); err != nil {
				return err
			}
		} else if err := tensor.Assign(out, s.from); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(names[i]), fault.Cause(err))
		}
	}
	return nil
}

// zerosLike gives t the type and the dims of another tensor, and zeros.
func zerosLike(t, like *tensor.Tensor, name string) error {
	if err := tensor.Resize(t, like.DType(), like.Dims()...); err != nil {
		return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
	}
	tensor.CopyLoD(t, like.LoD())
	tensor.Zero(t)
	return nil
}
