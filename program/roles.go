package program

import (
	"slices"
	"strings"
)

// findRoles gives ops the roles that the first releases of Fluid did not write: what of a program is the backward pass, what a schedule, and what the update. Ops of
// later programs keep their roles, but for those that work on the gradient of a whole parameter before the update, such as a clip that a user has written between
// append_backward and apply_gradients. They belong to the update: on a cluster a trainer has the gradient of its rows alone.
func findRoles(p *Program) {
	b := p.Global()
	lossesOfGradients(b)
	var updates []*Op
	marked := false
	for _, op := range b.Ops {
		_, has := op.Attrs[AttrRole]
		marked = marked || has
		if isUpdate(op) {
			updates = append(updates, op)
		}
	}
	if len(updates) > 0 {
		if !marked {
			deriveRoles(b, updates)
		}
		markLoss(b)
		moveChanges(b, updates)
	}
	moveConditional(b)
}

// lossesOfGradients gives the role of the forward pass to gradient ops that stand before the backward pass and on whose results the loss depends, as those of a penalty on gradients:
// fluid.gradients marks them as ops of a backward pass. Without a backward pass there is no loss, and nothing is changed.
func lossesOfGradients(b *Block) {
	begin := slices.IndexFunc(b.Ops, func(op *Op) bool { return op.Role().Has(RoleLoss | RoleBackward) })
	if begin < 0 {
		return
	}
	needed := map[string]bool{}
	for _, op := range slices.Backward(b.Ops[:begin]) {
		role := op.Role()
		if role == RoleBackward && slices.ContainsFunc(op.OutputNames(), func(name string) bool { return needed[name] }) {
			role = RoleForward
			op.SetRole(role)
		}
		if role&^RoleLoss == RoleForward {
			for _, name := range op.InputNames() {
				needed[name] = true
			}
		}
	}
}

// isUpdate reports whether an op changes a parameter by its gradient.
func isUpdate(op *Op) bool {
	return op.In("Param") != "" && op.In("Grad") != "" && op.In("Param") == op.Out("ParamOut")
}

// isBackward reports whether an op is one that append_backward writes: a gradient op, or the sum of the gradients of a variable that several ops read.
func isBackward(op *Op) bool {
	return strings.HasSuffix(op.Type, "_grad") || slices.ContainsFunc(op.InputNames(), func(name string) bool { return strings.Contains(name, "@GRAD@RENAME") })
}

// deriveRoles gives roles to ops that stand in the order in which Fluid has always appended them: forward, backward, what changes gradients, updates.
func deriveRoles(b *Block, updates []*Op) {
	first, last := len(b.Ops), -1
	for i, op := range b.Ops {
		if isBackward(op) {
			first, last = min(first, i), i
		}
	}
	if last < 0 {
		return
	}
	rates := map[string]bool{}
	for _, op := range updates {
		rates[op.In("LearningRate")] = true
	}
	delete(rates, "")
	for i, op := range b.Ops {
		switch {
		case i > last:
			op.SetRole(RoleOptimize)
		case i >= first || startsBackward(op):
			op.SetRole(RoleBackward)
		}
	}
	for _, op := range slices.Backward(b.Ops[:first]) {
		if op.Role() == RoleForward && slices.ContainsFunc(op.OutputNames(), func(name string) bool { return rates[name] }) {
			op.SetRole(RoleLRSched)
			for _, name := range op.InputNames() {
				rates[name] = true
			}
		}
	}
}

// startsBackward reports whether an op gives the gradient of a loss its first value, a constant.
func startsBackward(op *Op) bool {
	return strings.HasSuffix(op.Out("Out"), GradSuffix) && len(op.InputNames()) == 0
}

// markLoss marks the op that computes the loss, and the one that starts the backward pass, if no op has such a mark. The first releases of Fluid with roles had none.
func markLoss(b *Block) {
	if slices.ContainsFunc(b.Ops, func(op *Op) bool { return op.Role().Has(RoleLoss) }) {
		return
	}
	writer := map[string]*Op{}
	for _, op := range b.Ops {
		if op.Role() == RoleBackward && startsBackward(op) {
			op.SetRole(RoleBackward | RoleLoss)
			if loss := writer[strings.TrimSuffix(op.Out("Out"), GradSuffix)]; loss != nil {
				loss.SetRole(RoleForward | RoleLoss)
			}
		}
		for _, name := range op.OutputNames() {
			writer[name] = op
		}
	}
}

// moveChanges gives the role of updates to ops outside of it on which updates depend, that work on gradients of whole parameters, and that read nothing else that
// depends on the batch. So it does with conditional blocks that keep state, as the scale of a loss follows from its gradients. If others read what one of them makes, as a loss of gradients does, all stay.
func moveChanges(b *Block, updates []*Op) {
	changed := map[string]bool{} // gradients of parameters, and what follows from them
	for _, op := range updates {
		changed[op.In("Param")+"@GRAD"] = true
	}
	needed := neededBy(b, func(op *Op) bool { return op.Role().Has(RoleOptimize) || keepsState(b, op) })
	fixed := map[string]bool{}   // written by ops outside of the update, from parameters and constants alone
	written := map[string]bool{} // by ops outside of the update
	var moves []*Op
	for _, op := range b.Ops {
		if op.Role().Has(RoleOptimize) {
			for _, name := range op.OutputNames() {
				if v, ok := b.Find(name); ok && !v.Persistable {
					changed[name] = true // such as a gradient without the scale of its loss
				}
			}
			continue
		}
		changes, depends := false, isBackward(op) || len(op.SubBlocks()) > 0 && !isConditional(op) || op.Role().Has(RoleLRSched)
		reads, _ := b.Touches(op)
		for name := range reads {
			v, ok := b.Find(name)
			changes = changes || changed[name]
			depends = depends || !ok || !changed[name] && !fixed[name] && (written[name] || !v.Persistable)
		}
		if changes && !depends && (keepsState(b, op) || slices.ContainsFunc(op.OutputNames(), func(name string) bool { return needed[name] })) {
			moves = append(moves, op)
			for _, name := range op.OutputNames() {
				changed[name] = true
			}
			continue
		}
		for _, name := range op.OutputNames() {
			v, ok := b.Find(name)
			written[name], fixed[name] = true, !depends && !changes && len(op.SubBlocks()) == 0 && ok && !v.Persistable
		}
	}
	if len(moves) == 0 || staysNeeded(b, moves) {
		return
	}
	moved := map[string]bool{} // fixed, and read by the ops that move
	for _, op := range moves {
		giveRole(b.program, op, RoleOptimize)
		reads, _ := b.Touches(op)
		for name := range reads {
			moved[name] = fixed[name]
		}
	}
	moveFixed(b, fixed, moved)
}

// keepsState reports whether an op is a conditional block that writes what outlives a step, such as the scale of a loss, or nothing at all.
func keepsState(b *Block, op *Op) bool {
	if !isConditional(op) {
		return false
	}
	_, writes := b.Touches(op)
	kept, others := false, false
	for name := range writes {
		v, ok := b.Find(name)
		kept = kept || ok && v.Persistable
		others = others || !ok || v.Kind != StepScopes
	}
	return kept || !others
}

// staysNeeded reports whether an op outside of the update, and none of those that move, reads what one of those makes.
func staysNeeded(b *Block, moves []*Op) bool {
	moving := map[*Op]bool{}
	for _, op := range moves {
		moving[op] = true
	}
	read := map[string]bool{}
	for _, op := range slices.Backward(b.Ops) {
		switch {
		case moving[op]:
			if slices.ContainsFunc(op.OutputNames(), func(name string) bool { return read[name] }) {
				return true
			}
		case !op.Role().Has(RoleOptimize):
			reads, _ := b.Touches(op)
			for name := range reads {
				read[name] = true
			}
		}
	}
	return false
}

// neededBy returns the names on which some ops depend.
func neededBy(b *Block, of func(*Op) bool) map[string]bool {
	needed := map[string]bool{}
	for _, op := range slices.Backward(b.Ops) {
		if of(op) || slices.ContainsFunc(op.OutputNames(), func(name string) bool { return needed[name] }) {
			for _, name := range op.InputNames() {
				needed[name] = true
			}
		}
	}
	return needed
}

// moveFixed makes ops whose results the update reads part of it, or copies of those whose results others read, too. fixed has all results that may move, moved those that
// the update reads.
func moveFixed(b *Block, fixed, moved map[string]bool) {
	shared := map[string]bool{} // read by others
	for _, op := range slices.Backward(b.Ops) {
		if op.Role().Has(RoleOptimize) {
			continue
		}
		moves, stays := false, false
		for _, name := range op.OutputNames() {
			moves, stays = moves || moved[name], stays || shared[name]
		}
		if moves {
			for _, name := range op.InputNames() {
				moved[name] = fixed[name]
			}
		}
		if moves && !stays {
			op.SetRole(RoleOptimize)
			continue
		}
		for _, name := range op.InputNames() {
			shared[name] = true
		}
	}
	var all []*Op
	copied := map[string]string{}
	for _, op := range b.Ops {
		all = append(all, op)
		if op.Role().Has(RoleOptimize) {
			for _, name := range op.InputNames() {
				if own := copied[name]; own != "" {
					op.RenameInput(name, own)
				}
			}
			continue
		}
		if !slices.ContainsFunc(op.OutputNames(), func(name string) bool { return moved[name] }) {
			continue
		}
		c := op.Clone()
		c.SetRole(RoleOptimize)
		for _, name := range c.InputNames() {
			if own := copied[name]; own != "" {
				c.RenameInput(name, own)
			}
		}
		for _, name := range op.OutputNames() {
			if v, ok := b.Find(name); ok {
				copied[name] = name + "@UPDATE"
				b.EnsureVar(v.Copy(copied[name]))
				c.RenameOutput(name, copied[name])
			}
		}
		all = append(all, c)
	}
	b.Ops = all
}
