package program

import (
	"maps"
	"slices"
	"strings"
)

// moveConditional makes conditional blocks that change parameters part of the update, as the optimizers of Fluid write them that act every k steps: Lookahead, and the merge
// of gradients. Fluid gives these blocks the role of the forward pass. So it does with what they depend on: counters of steps and conditions become part of the schedule, and
// what adds gradients to a variable of the update becomes part of the update. Assignments to parameters behind their update move, too.
//
// An op stays that depends on the batch or whose results others read.
func moveConditional(b *Block) {
	params := parametersOf(b.program)
	if len(params) == 0 {
		return
	}
	updated := false
	for _, op := range b.Ops {
		updated = updated || isUpdate(op)
		_, writes := b.Touches(op)
		switch {
		case isTrained(op) || op.Role().Has(RoleBackward) || strings.HasSuffix(op.Type, "_grad"):
		case isConditional(op) && meets(writes, params):
			giveRole(b.program, op, RoleOptimize)
		case updated && len(op.SubBlocks()) == 0 && meets(writes, params):
			op.SetRole(RoleOptimize)
		}
	}
	moveSums(b)
	moveSteps(b, params)
	for _, op := range b.Ops {
		if isConditional(op) && op.Role().Has(RoleOptimize) {
			forgetCondition(b, op.In("Cond"))
		}
	}
}

// forgetCondition makes the condition of an update a temporary variable, as later versions of Paddle do, if each step computes it before it reads it. So it is no state, which
// would have to travel between machines.
func forgetCondition(b *Block, name string) {
	v, ok := b.Var(name)
	use := b.Uses()[name]
	if !ok || !v.Persistable || len(use.Writers) != 1 || use.Readers[0] <= use.Writers[0] || len(b.Ops[use.Writers[0]].SubBlocks()) > 0 {
		return
	}
	v.Persistable = false
}

// isTrained reports whether an op belongs to the update or to its schedule.
func isTrained(op *Op) bool { return op.Role().Has(RoleOptimize) || op.Role().Has(RoleLRSched) }

func meets(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return true
		}
	}
	return false
}

// parametersOf names what update ops change, in any block.
func parametersOf(p *Program) map[string]bool {
	params := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if isUpdate(op) {
				params[op.In("Param")] = true
			}
		}
	}
	return params
}

// giveRole gives an op and all ops of its blocks a role.
func giveRole(p *Program, op *Op, role Role) {
	op.SetRole(role)
	for _, index := range op.SubBlocks() {
		b, err := p.Block(index)
		if err != nil {
			continue
		}
		for _, inner := range b.Ops {
			if inner.Role() != role {
				giveRole(p, inner, role)
			}
		}
	}
}

// moveSums moves ops to the update that add to a persistable variable which the update writes, such as the sum of the gradients of k steps, and conditional blocks that write one.
func moveSums(b *Block) {
	kept := map[string]bool{}
	for _, op := range b.Ops {
		if !op.Role().Has(RoleOptimize) {
			continue
		}
		_, writes := b.Touches(op)
		for name := range writes {
			if v, ok := b.Find(name); ok && v.Persistable {
				kept[name] = true
			}
		}
	}
	for _, op := range b.Ops {
		_, writes := b.Touches(op)
		switch {
		case isTrained(op):
			continue
		case isConditional(op) && meets(writes, kept):
			giveRole(b.program, op, RoleOptimize)
			continue
		case len(op.SubBlocks()) > 0:
			continue
		}
		ins := op.InputNames()
		if slices.ContainsFunc(op.OutputNames(), func(name string) bool { return kept[name] && slices.Contains(ins, name) }) {
			op.SetRole(RoleOptimize)
		}
	}
}

// A stepOp is an op outside of the update that may move there, because it does not depend on the batch.
type stepOp struct {
	op            *Op
	reads, writes map[string]bool
}

// moveSteps moves ops of the forward pass to the schedule on which updates depend and which compute the same on every machine: counters of steps, and conditions of
// these. Those that read parameters become part of the update.
func moveSteps(b *Block, params map[string]bool) {
	free, all := stepOps(b)
	needed := map[string]bool{}
	for _, op := range b.Ops {
		if isTrained(op) {
			reads, _ := b.Touches(op)
			maps.Copy(needed, reads)
		}
	}
	moves := map[*Op]bool{}
	for grew := true; grew; {
		grew = false
		for _, s := range slices.Backward(free) {
			if !moves[s.op] && (meets(s.writes, needed) || len(s.writes) == 0 && isConditional(s.op)) {
				moves[s.op], grew = true, true
				maps.Copy(needed, s.reads)
			}
		}
	}
	stay(all, moves)
	updated := maps.Clone(params)
	for _, op := range b.Ops {
		if role := op.Role(); moves[op] || role.Has(RoleOptimize) {
			reads, writes := b.Touches(op)
			if !moves[op] {
				maps.Copy(updated, writes)
			} else if giveRole(b.program, op, RoleLRSched); meets(reads, updated) {
				giveRole(b.program, op, RoleOptimize)
				maps.Copy(updated, writes)
			}
		}
	}
}

// stepOps returns the ops of the forward pass that do not depend on the batch, in order, and all ops outside of the update. A variable without a writer is fed if it is
// not persistable. An op without inputs is a constant, or it draws by chance or reads data. A conditional block is free if it writes nothing, such as an empty default of a
// Switch.
func stepOps(b *Block) (free, all []stepOp) {
	made := map[string]bool{}
	for _, op := range b.Ops {
		reads, writes := b.Touches(op)
		delete(writes, Empty)
		maps.DeleteFunc(writes, func(name string, _ bool) bool {
			v, ok := b.Find(name)
			return ok && v.Kind == StepScopes
		})
		maps.Copy(made, writes)
		if !isTrained(op) {
			all = append(all, stepOp{op, reads, writes})
		}
	}
	depends := func(s stepOp) bool {
		role := s.op.Role()
		switch {
		case role.Has(RoleBackward) || role.Has(RoleLoss) || strings.HasSuffix(s.op.Type, "_grad"):
			return true
		case len(s.op.SubBlocks()) > 0 && !(isConditional(s.op) && len(s.writes) == 0):
			return true
		}
		return len(s.reads) == 0 && s.op.Type != "fill_constant" && s.op.Type != "assign_value"
	}
	varies := map[string]bool{}
	for known := -1; known < len(varies); {
		known, free = len(varies), nil
		for _, s := range all {
			varying := depends(s)
			for name := range s.reads {
				v, ok := b.Find(name)
				varying = varying || varies[name] || !ok || !v.Persistable && !made[name]
			}
			if varying {
				maps.Copy(varies, s.writes)
			} else {
				free = append(free, s)
			}
		}
	}
	return free, all
}

func isConditional(op *Op) bool { return op.Type == "conditional_block" }

// stay takes ops out of moves that make what others outside of the update read, or that write what those write.
func stay(all []stepOp, moves map[*Op]bool) {
	for shrank := true; shrank; {
		shrank = false
		others := map[string]bool{}
		for _, s := range all {
			if !moves[s.op] {
				maps.Copy(others, s.reads)
				maps.Copy(others, s.writes)
			}
		}
		for _, s := range all {
			if moves[s.op] && meets(s.writes, others) {
				delete(moves, s.op)
				shrank = true
			}
		}
	}
}
