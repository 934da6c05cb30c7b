package plan

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A reversed is the block of a gradient. It runs on the variables of the forward block, which the tape brings back run by run, the last one first.
//
// A record of the tape has what the block of the gradient reads: variables of the forward block as its run has left them, and variables from outside that the
// forward block changes, as they were when the run began (ops.KeptAtEntry). What else lies outside it reads as it is.
type reversed struct {
	*body
	records *ops.Playback
}

// A reversal says what a body is the gradient of.
type reversal struct {
	forward *body
	links   map[string]string // names of the block that mean other variables, outside of it
}

// An entry copies a variable when a run of a block begins.
type entry struct{ copy, of *tensor.Tensor }

// Reverse implements ops.Surroundings.
func (a *around) Reverse(index program.BlockIndex, tape *ops.Tape, links map[string]string) (ops.Reverse, error) {
	forward, ok := tape.Forward.(*body)
	block, err := a.block.Program().Block(index)
	switch {
	case err != nil:
		return nil, err
	case !ok || block.Forward != forward.frame.block.Index:
		return nil, fault.E(fault.InvalidProgram, fault.On(a.op), fault.Gotf("block %d, which is not the gradient of the block that ran", index),
			fault.Want("the op of the forward block before this op, and a block whose forward block is that of the op"))
	case forward.records && a.op.Type != "conditional_block_grad":
		return nil, fault.E(fault.Unsupported, fault.On(a.op), fault.Got("a second gradient of a loop, whose counters the first one has taken back"), fault.Want("one gradient"),
			fault.Hint("minimize the sum of the losses, or let the program run the loop once for each loss"))
	}
	if err := forward.leave(block); err != nil {
		return nil, err
	}
	b, err := newBody(index, a, &reversal{forward, links})
	if err != nil {
		return nil, err
	}
	return &reversed{b, tape.Playback()}, nil
}

// leave makes every run of the block record what its gradient reads.
func (b *body) leave(gradient *program.Block) error {
	b.records = true
	block := b.frame.block
	writes := map[string]bool{}
	for _, op := range block.Ops {
		_, w := block.Touches(op)
		for name := range w {
			writes[name] = true
		}
	}
	for _, name := range readBy(gradient) {
		if _, own := gradient.Var(name); own {
			continue
		}
		v, own := block.Var(name)
		switch {
		case own && v.Persistable || !own && !(writes[name] && ops.KeptAtEntry(block, name)):
			continue
		case !own:
			outside := b.frame.outer.holder(name)
			if b.frame.entry[name] != nil {
				continue // another gradient reads it, too
			}
			if outside == nil || outside.tensor == nil {
				continue // arrays are what they are
			}
			kept, err := tensor.New(outside.tensor.DType(), 0)
			if err != nil {
				return err
			}
			if b.frame.entry == nil {
				b.frame.entry = map[string]*holder{}
			}
			b.frame.budget.Hold(kept, name)
			b.frame.entry[name] = &holder{tensor: kept}
			b.entries = append(b.entries, entry{kept, outside.tensor})
			b.tape.Watch(kept)
		case isTensor(v):
			b.frame.keep(name)
			b.tape.Watch(b.frame.holder(name).tensor)
		case v.Kind == program.StepScopes: // has a stack of its own
		default:
			return fault.E(fault.Unsupported, fault.Var(name), fault.Gotf("a gradient that needs a %v which the block of a loop or branch declares", v.Kind),
				fault.Want("one that is declared outside of the block"))
		}
	}
	return nil
}

// readBy lists what the ops of the gradient of a block read from outside of it, sorted. The gradients of loops and branches in it do not read what these have
// computed: they list it as Fluid does.
func readBy(gradient *program.Block) []string {
	reads := map[string]bool{}
	for _, op := range gradient.Ops {
		if len(op.SubBlocks()) > 0 {
			op = op.Clone()
			delete(op.Inputs, "Out")
		}
		r, _ := gradient.Touches(op)
		for name := range r {
			reads[name] = true
		}
	}
	names := make([]string, 0, len(reads))
	for name := range reads {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Begin implements ops.Reverse.
func (r *reversed) Begin() (int64, error) { return r.records.Take() }

// Run implements ops.Body.
func (r *reversed) Run(ctx context.Context, n int64) error {
	if err := r.records.Restore(); err != nil {
		return err
	}
	return r.body.Run(ctx, n)
}
