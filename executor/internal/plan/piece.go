package plan

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// A piece is what the passes work on: an op that was bound to a kernel, or one loop of an op that was bound to loops.
type piece struct {
	op      *program.Op
	def     *ops.Def
	kernel  ops.Kernel // nil for a loop
	loop    ops.Loop
	reads   []*variable
	writes  []*variable
	whole   []*variable // of reads, those of which an iteration of the loop may read everything
	scratch []*variable
	term    *variable // of reads, what the loop adds its result to; nil for none
	cost    ops.Cost
	pace    pace
	also    []string // types of the ops that it has taken over
}

func (p *piece) isLoop() bool { return p.kernel == nil }

func (p *piece) isUpdate() bool { return isUpdate(p.op, p.def) }

// run runs all of a piece on one goroutine.
func (p *piece) run(ctx context.Context) error {
	if !p.isLoop() {
		return p.kernel(ctx)
	}
	if p.loop.N == 0 {
		return nil
	}
	return p.loop.Run(0, 0, p.loop.N)
}

// touches calls f with every variable that the piece reads or writes, and with its scratch memory.
func (p *piece) touches(f func(v *variable, write bool)) {
	for _, v := range p.reads {
		f(v, false)
	}
	for _, v := range p.writes {
		f(v, true)
	}
	for _, v := range p.scratch {
		f(v, true)
	}
}

// goesOutside reports whether the op reaches out of the process, so that it keeps its order to others that do.
func (p *piece) goesOutside() bool {
	return p.def.Class == ops.Dist || p.def.Class == ops.Serve || p.def.Class == ops.FileIO
}

// optimizes reports whether a piece belongs to the update of a parameter or to the schedule of the learning rate.
func (p *piece) optimizes() bool {
	role := p.op.Role()
	return role.Has(program.RoleOptimize) || role.Has(program.RoleLRSched)
}

// nanoseconds estimates how long a piece takes one core.
func (p *piece) nanoseconds() float64 { return p.pace.nanoseconds(p.cost) }

func uses(list []*variable, v *variable) bool { return slices.Contains(list, v) }
