package program

import "slices"

// roleTraining marks ops that only training needs.
const roleTraining = RoleBackward | RoleOptimize | RoleLRSched | RoleRPC | RoleDist

// CloneForTest returns a copy for evaluation: without the ops of training (roles Backward, Optimize, LRSched, RPC and Dist), without the
// variables that only those used, and with is_test set on dropout, batch_norm and every op that has the attribute. Block indices may change as
// in Prune.
func (p *Program) CloneForTest() *Program {
	c := p.Clone()
	before := c.usedVars()
	for _, b := range c.Blocks {
		b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Role()&roleTraining != 0 })
		for _, op := range b.Ops {
			op.setTest()
		}
	}
	c.dropUnreachableBlocks()
	c.dropUnusedVars(func(v *Var) bool { return !before[v] })
	// The targets are variables of the startup program itself, so they are found.
	_ = c.pruneStartup()
	return c
}

// setTest sets is_test in the type that the op has it in.
func (op *Op) setTest() {
	switch op.Attrs["is_test"].(type) {
	case int32:
		op.Attrs["is_test"] = int32(1)
	case int64:
		op.Attrs["is_test"] = int64(1)
	case bool:
		op.Attrs["is_test"] = true
	case nil:
		if op.Type == "dropout" || op.Type == "batch_norm" {
			op.SetAttr("is_test", true)
		}
	}
}
