package transpiler

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// A service collects what the listen_and_serv op of one server says.
type service struct {
	server    int
	prepare   []program.BlockIndex
	global    program.BlockIndex
	rates     program.BlockIndex
	updates   []program.BlockIndex
	gradients []gradient
	states    []*forwardState
}

// A gradient is a contribution with the optimize block that waits for it.
type gradient struct {
	name  string
	block program.BlockIndex
	merge ops.Merge
}

// op returns the listen_and_serv op; held are the variables that outlive a round. They are its inputs too, so that they must have values
// before it runs, also those that no block reads.
func (s *service) op(mode Mode, held []heldVar) *program.Op {
	op := newOp("listen_and_serv", program.RoleRPC, "", nil, nil)
	if len(held) > 0 {
		op.Inputs = slots{"X": nil}
		for _, h := range held {
			op.Inputs["X"] = append(op.Inputs["X"], h.at.Name)
		}
	}
	op.SetAttr("endpoint", comm.Address(s.server))
	op.SetAttr("pserver_id", int32(s.server))
	op.SetAttr("sync_mode", mode == Sync)
	if len(s.prepare) > 0 {
		op.SetAttr("prepare_blocks", s.prepare)
	}
	op.SetAttr("global_block", int32(s.global))
	op.SetAttr("lr_decay_block_id", int32(s.rates))
	op.SetAttr("optimize_blocks", s.updates)
	s.setContributions(op)
	setSlices(op, held)
	return op
}

func (s *service) setContributions(op *program.Op) {
	if len(s.gradients) > 0 {
		names, blocks, merges := make([]string, len(s.gradients)), make([]int32, len(s.gradients)), make([]int32, len(s.gradients))
		for i, g := range s.gradients {
			names[i], blocks[i], merges[i] = g.name, int32(g.block), int32(g.merge)
		}
		op.SetAttr("grad_names", names)
		op.SetAttr("grad_block_ids", blocks)
		op.SetAttr("grad_merge", merges)
	}
	if len(s.states) > 0 {
		names, merges := make([]string, len(s.states)), make([]int32, len(s.states))
		for i, f := range s.states {
			names[i], merges[i] = f.name, int32(f.merge)
		}
		op.SetAttr("state_names", names)
		op.SetAttr("state_merge", merges)
	}
}

// setSlices describes every persistable variable that outlives a round: which variable of the user's program it is, and which rows of it, so that
// a server can load its part from a file of the whole.
func setSlices(op *program.Op, held []heldVar) {
	if len(held) == 0 {
		return
	}
	n := len(held)
	names, origins := make([]string, n), make([]string, n)
	first, rows, total := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, h := range held {
		names[i], origins[i] = h.at.Name, h.variable
		first[i], rows[i], total[i] = h.first, rowsOf(h.at.Dims), h.total
	}
	op.SetAttr("slice_names", names)
	op.SetAttr("slice_origins", origins)
	op.SetAttr("slice_first_rows", first)
	op.SetAttr("slice_rows", rows)
	op.SetAttr("slice_total_rows", total)
}
