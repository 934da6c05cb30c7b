package program

import (
	"slices"

	"github.com/edl-go/edl/fault"
)

// Rename gives a variable of this block another name, in this block and in every block that finds the variable through it: in the slots of ops and in
// op_role_var. Other attributes that hold names, and the startup program, are the caller's. It fails when the new name is taken in a block where
// the variable is visible.
func (b *Block) Rename(from, to string) error {
	v, ok := b.Var(from)
	if !ok {
		return fault.E(fault.NotFound, fault.Var(from), fault.Got("no such variable in the block"), fault.Want("a variable to rename"))
	}
	if to == "" || to == Empty {
		return fault.E(fault.InvalidArgument, fault.Var(from), fault.Got("the new name "+fault.Quote(to)), fault.Want("a name"))
	}
	var visible []*Block
	for _, other := range b.program.Blocks {
		found, ok := other.Find(from)
		if !ok || found != v {
			continue
		}
		visible = append(visible, other)
		if _, taken := other.Find(to); taken {
			return fault.E(fault.InvalidArgument, fault.Var(from), fault.Got("the new name "+fault.Quote(to)+", which is taken"),
				fault.Want("a free name"))
		}
	}
	for _, other := range visible {
		for _, op := range other.Ops {
			op.RenameInput(from, to)
			op.RenameOutput(from, to)
			if pairs, ok := op.Strs(AttrRoleVar); ok && slices.Contains(pairs, from) {
				op.SetAttr(AttrRoleVar, replaced(pairs, from, to))
			}
		}
	}
	delete(b.vars, from)
	v.Name = to
	b.vars[to] = v
	b.order = replaced(b.order, from, to)
	return nil
}

func replaced(names []string, from, to string) []string {
	names = slices.Clone(names)
	for i := range names {
		if names[i] == from {
			names[i] = to
		}
	}
	return names
}
