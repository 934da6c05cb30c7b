package pserver

import (
	"fmt"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// layout is what a listen_and_serv op says about the program that it stands in.
type layout struct {
	sync     bool
	prepare  []program.BlockIndex // per slice, before the exchange
	global   program.BlockIndex   // once, between prepare and optimize; -1 for none
	lrDecay  program.BlockIndex   // learning-rate schedule; -1 for none
	optimize []program.BlockIndex // one per slice
	grads    []contribution       // gradients, in the order of the op
	states   []contribution       // forward state held here
}

// contribution is one variable that every trainer sends in every round.
type contribution struct {
	name  string
	block program.BlockIndex // optimize block that consumes it; -1 for state
	merge ops.Merge
}

const noBlock program.BlockIndex = -1

func layoutOf(op *program.Op) (*layout, error) {
	l := &layout{global: noBlock, lrDecay: noBlock}
	l.sync, _ = op.Bool("sync_mode")
	l.prepare, _ = op.Attrs["prepare_blocks"].([]program.BlockIndex)
	l.optimize, _ = op.Attrs["optimize_blocks"].([]program.BlockIndex)
	if i, ok := op.Int("global_block"); ok {
		l.global = program.BlockIndex(i)
	}
	if i, ok := op.Int("lr_decay_block_id"); ok {
		l.lrDecay = program.BlockIndex(i)
	}
	names, _ := op.Strs("grad_names")
	blocks, _ := op.Ints("grad_block_ids")
	merges, _ := op.Ints("grad_merge")
	if len(blocks) != len(names) || len(merges) != len(names) {
		return nil, mismatch(op, "grad_names, grad_block_ids and grad_merge", len(names), len(blocks), len(merges))
	}
	for i, n := range names {
		l.grads = append(l.grads, contribution{n, program.BlockIndex(blocks[i]), ops.Merge(merges[i])})
	}
	names, _ = op.Strs("state_names")
	merges, _ = op.Ints("state_merge")
	if len(merges) != len(names) {
		return nil, mismatch(op, "state_names and state_merge", len(names), len(merges))
	}
	for i, n := range names {
		l.states = append(l.states, contribution{n, noBlock, ops.Merge(merges[i])})
	}
	return l, nil
}

func mismatch(op *program.Op, what string, lengths ...int) error {
	return &fault.Fault{Kind: fault.InvalidProgram, Op: op.Type, Got: fmt.Sprintf("%s of lengths %v", what, lengths), Want: "equal lengths"}
}

// names returns every variable that a contribution may hold.
func (l *layout) names() []string {
	var names []string
	for _, c := range l.grads {
		names = append(names, c.name)
	}
	for _, c := range l.states {
		names = append(names, c.name)
	}
	return names
}
