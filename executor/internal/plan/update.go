package plan

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// isUpdate reports whether an op changes parameters, speaks to other machines or saves: everything before the first such op can be
// computed again.
func isUpdate(op *program.Op, def *ops.Def) bool {
	saves := def.Class == ops.FileIO && len(op.OutputNames()) == 0
	return op.Role().Has(program.RoleOptimize) || def.Class == ops.Dist || def.Class == ops.Serve || saves
}

// findUpdate splits the steps and chooses what must be finite before the update: the loss and everything fetched.
func (c *compiler) findUpdate() {
	p := c.plan
	p.update = len(p.steps)
	for i := range p.steps {
		if isUpdate(p.steps[i].op, p.steps[i].def) {
			p.update = i
			break
		}
	}
	if !c.CheckFinite || !p.Trains() {
		return
	}
	check := func(v *variable) {
		if v.meta.DType.IsFloat() && v.place != fed && !slices.Contains(p.checks, v) {
			p.checks = append(p.checks, v)
		}
	}
	for i := range p.steps[:p.update] {
		if role := p.steps[i].op.Role(); role.Has(program.RoleLoss) && !role.Has(program.RoleBackward) {
			for _, v := range p.steps[i].writes {
				if v.place == temporary && ops.Product(v.meta.Dims) == 1 {
					v.place = own
					check(v)
				}
			}
		}
	}
	for _, name := range c.Fetch {
		check(c.variables[name])
	}
}
