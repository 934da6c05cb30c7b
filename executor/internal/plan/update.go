package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

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
