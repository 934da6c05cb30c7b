package program

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

// Prune returns a copy with only the ops of the global block that the targets depend on, whole sub-blocks with the ops that own them, the
// variables that are left in use, and the part of the startup program that initializes those. Blocks that nothing refers to any more
// are removed, so block indices may change.
func (p *Program) Prune(targets ...string) (*Program, error) {
	c := p.Clone()
	if err := c.prune(targets, nil); err != nil {
		return nil, err
	}
	return c, nil
}

// prune reduces the program in place. What produces a given variable is not needed.
func (p *Program) prune(targets, given []string) error {
	b := p.Global()
	needed, cut := map[string]bool{}, map[string]bool{}
	for _, name := range given {
		cut[name] = true
	}
	for _, name := range targets {
		if _, ok := b.Var(name); !ok {
			return fault.E(fault.NotFound, fault.Var(name), fault.Got("no such variable in the global block"), fault.Want("a variable to prune to"))
		}
		needed[name] = !cut[name]
	}
	kept := make([]*Op, 0, len(b.Ops))
	for _, op := range slices.Backward(b.Ops) {
		reads, writes := b.Touches(op)
		if !anyOf(writes, needed) {
			continue
		}
		kept = append(kept, op)
		for name := range reads {
			needed[name] = needed[name] || !cut[name]
		}
	}
	slices.Reverse(kept)
	b.Ops = kept
	p.dropUnreachableBlocks()
	p.dropUnusedVars(func(v *Var) bool { return slices.Contains(targets, v.Name) || cut[v.Name] })
	return p.pruneStartup()
}

func anyOf(names, among map[string]bool) bool {
	for name := range names {
		if among[name] {
			return true
		}
	}
	return false
}

// dropUnusedVars removes the variables that no op refers to, unless keep says otherwise, and the op_role_var attributes that name a removed one.
func (p *Program) dropUnusedVars(keep func(*Var) bool) {
	used := p.usedVars()
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			if !used[v] && !keep(v) {
				delete(b.vars, v.Name)
			}
		}
		b.order = slices.DeleteFunc(b.order, func(name string) bool { return b.vars[name] == nil })
	}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, pair := range op.RoleVars() {
				_, param := b.Find(pair[0])
				if _, grad := b.Find(pair[1]); !param || !grad {
					delete(op.Attrs, AttrRoleVar)
					break
				}
			}
		}
	}
}

// usedVars returns the variables that any op reads or writes.
func (p *Program) usedVars() map[*Var]bool {
	used := map[*Var]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if v, ok := b.Find(name); ok {
					used[v] = true
				}
			}
		}
	}
	return used
}

// pruneStartup reduces the startup program to what initializes the persistable variables of the global block.
func (p *Program) pruneStartup() error {
	if p.Startup == nil {
		return nil
	}
	var targets []string
	for _, v := range p.Startup.Global().Vars() {
		if own, ok := p.Global().Var(v.Name); ok && own.Persistable {
			targets = append(targets, v.Name)
		}
	}
	return p.Startup.prune(targets, nil)
}
