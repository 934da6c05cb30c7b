package control

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The gradient of an op that runs a block runs the gradient of the block: another block, once for each run of the forward one and in reverse order. Two kinds of
// gradients leave it:
//
//   - of what the forward block only reads, such as weights. Each run leaves a part x@GRAD in the block, and the op adds up the parts, those of the last run
//     first.
//   - of what the forward block changes. The block reads and writes v@GRAD outside. It is the gradient of the value after a run when the run of the gradient
//     begins, and that of the value before it when the run ends.
//
// Fluid's names are kept: Out@GRAD lists the second kind, and original_output_grad what the block calls it. X@GRAD lists gradients of inputs in their order.

const (
	outGrad = "Out" + program.GradSuffix
	reads   = "original_output_grad"
)

// gradientOf makes the Def.Gradient of an op whose gradient runs the gradient of its block. in is the slot of what the block reads, scopes that of the tape, and
// also lists more slots that both ops read.
func gradientOf(in, scopes string, also ...string) func(*ops.Grad) ([]*program.Op, error) {
	return func(g *ops.Grad) ([]*program.Op, error) {
		block := g.Block()
		if block == nil {
			return nil, fault.E(fault.InvalidArgument, fault.On(g.Op()), fault.Got("no gradient of the block"), fault.Want("one"))
		}
		if g.Op().Out(scopes) == "" {
			return nil, fault.E(fault.InvalidProgram, fault.On(g.Op()), fault.Got("no variable in "+scopes), fault.Want("one, for what runs leave to their gradients"))
		}
		op := g.GradOp(g.Op().Type + "_grad")
		for _, slot := range append([]string{in}, also...) {
			if names := g.In(slot); len(names) > 0 {
				op.Inputs[slot] = names
			}
		}
		op.Inputs["Out"], op.Inputs[scopes] = g.Out("Out"), g.Out(scopes)
		through := make([]string, len(block.Through))
		for i, name := range block.Through {
			through[i] = program.GradName(name)
		}
		if len(through) > 0 {
			op.Inputs[outGrad] = through
		}
		op.Attrs["sub_block"], op.Attrs[reads] = block.Block, slices.Clone(through)
		grads := make([]string, len(g.In(in)))
		for i, name := range g.In(in) {
			grads[i] = program.Empty
			if slices.Contains(block.Parts, name) || slices.Contains(block.Through, name) {
				grads[i] = program.GradName(name)
			}
		}
		op.Outputs[in+program.GradSuffix] = grads
		return []*program.Op{op}, nil
	}
}

func init() {
	register("while", "X", "StepScopes", ops.Attr{Name: "is_test", Doc: "of the forward op; true keeps nothing for gradients", Default: false})
	register("conditional_block", "Input", "Scope", ops.Attr{Name: "is_scalar_condition", Doc: "of the forward op", Default: false})
}

// register defines the gradient of an op that runs a block.
func register(forward, in, scopes string, attr ops.Attr) {
	inputs := []ops.Slot{
		{Name: in, Doc: "what the forward block reads", Duplicable: true, Dispensable: true},
		{Name: "Out", Doc: "what the forward block writes", Duplicable: true, Dispensable: true},
		{Name: outGrad, Doc: "gradients of what the forward block changes", Duplicable: true, Dispensable: true},
		{Name: scopes, Doc: "what the runs of the forward block have left"},
	}
	if forward == "conditional_block" {
		inputs = append(inputs, ops.Slot{Name: "Cond", Doc: "the condition of the forward op; no effect here", Duplicable: true, Dispensable: true})
	}
	outputs := []ops.Slot{{Name: in + program.GradSuffix, Doc: "gradients of " + in + ": sums over the runs, zeros if there was none", Duplicable: true, Dispensable: true}}
	if forward == "conditional_block" {
		outputs = append(outputs, ops.Slot{Name: "Cond" + program.GradSuffix, Doc: "nothing", Duplicable: true, Dispensable: true})
	}
	ops.Register(ops.Def{
		Type:    forward + "_grad",
		Class:   ops.Control,
		Doc:     "Runs the gradient of the block of " + forward + ", once for each run of the block and in reverse order.",
		Inputs:  inputs,
		Outputs: outputs,
		Attrs: []ops.Attr{blockAttr("the gradient of the block"), attr,
			{Name: reads, Doc: "what the block calls the variables of " + outGrad, Default: []string{}}},
		Infer: func(s *ops.Shapes) error {
			for i, m := range s.Ins(in) {
				s.SetAt(in+program.GradSuffix, i, m)
			}
			if inside := s.Strs(reads); len(inside) != len(s.Ins(outGrad)) {
				return opkit.BadAttr(s, reads, "as many names as %s has", outGrad)
			}
			if names := s.Op().Outputs[in+program.GradSuffix]; len(names) > 0 && len(names) != len(s.Ins(in)) {
				return s.Errorf(in, "as many variables as there are gradients")
			}
			return checkBlock(s)
		},
		Bind:      func(b *ops.Binding) (ops.Kernel, error) { return bindReverse(b, in, scopes) },
		MixesRows: opkit.Mixes,
	})
}

// A part is a gradient of which each run of a block leaves a part.
type part struct {
	name        string
	sum, inside *tensor.Tensor
	of          *tensor.Tensor // the variable that it is the gradient of
}

func bindReverse(b *ops.Binding, in, scopes string) (ops.Kernel, error) {
	op := b.Op()
	links := map[string]string{}
	for i, inside := range b.Strs(reads) {
		if outside := op.Inputs[outGrad]; i < len(outside) && outside[i] != inside {
			links[inside] = outside[i]
		}
	}
	body, err := b.Reverse("sub_block", scopes, links)
	if err != nil {
		return nil, err
	}
	parts := partsOf(b, body, in)
	return func(ctx context.Context) error {
		n, err := body.Begin()
		if err != nil {
			return err
		}
		if err := clearParts(parts); err != nil {
			return err
		}
		for i := n - 1; i >= 0; i-- {
			if err := body.Run(ctx, i); err != nil {
				return err
			}
			if err := addParts(parts, i == n-1); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// partsOf returns the gradients of slot in that runs of the block leave in variables of their own.
func partsOf(b *ops.Binding, body ops.Body, in string) []part {
	op, out := b.Op(), in+program.GradSuffix
	var parts []part
	for i, name := range op.Outputs[out] {
		if name == program.Empty || slices.Contains(op.Inputs[outGrad], name) {
			continue
		}
		of, inside := b.Ins(in)[i], body.Inside(program.GradName(op.Inputs[in][i]))
		if sum := b.Outs(out)[i]; sum != nil && inside != nil && of != nil {
			parts = append(parts, part{name, sum, inside, of})
		}
	}
	return parts
}

// clearParts begins the sums.
func clearParts(parts []part) error {
	for _, p := range parts {
		if err := zerosLike(p.sum, p.of, p.name); err != nil {
			return err
		}
	}
	return nil
}

// addParts adds what a run has left. The sums of the first run are what it has left.
func addParts(parts []part, first bool) error {
	for _, p := range parts {
		add := addTo
		if first {
			add = tensor.Assign
		}
		if err := add(p.sum, p.inside); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(p.name), fault.Cause(err))
		}
		tensor.CopyLoD(p.sum, p.of.LoD())
	}
	return nil
}

// addTo adds floating-point numbers to others of the same type and dims.
func addTo(to, value *tensor.Tensor) error {
	if to.DType() != value.DType() || !slices.Equal(to.Dims(), value.Dims()) || !to.DType().IsFloat() {
		return fault.E(fault.ShapeMismatch, fault.Gotf("a part %v%v of a gradient", value.DType(), value.Dims()), fault.Wantf("%v%v", to.DType(), to.Dims()))
	}
	if to.DType() == tensor.Float64 {
		kernel.Accumulate(to.Float64s(), value.Float64s())
	} else {
		kernel.Accumulate(to.Float32s(), value.Float32s())
	}
	return nil
}
