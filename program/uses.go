package program

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
)

// A Use lists the positions in Block.Ops of the ops that read and write a variable, ascending.
type Use struct {
	Readers, Writers []int
}

// Uses returns the uses of every name in the ops of the block. An op with sub-blocks counts as reading and writing, at its own position, what their
// ops read and write outside of them.
func (b *Block) Uses() map[string]Use {
	uses := map[string]Use{}
	for i, op := range b.Ops {
		reads, writes := b.Touches(op)
		for name := range reads {
			use := uses[name]
			use.Readers = append(use.Readers, i)
			uses[name] = use
		}
		for name := range writes {
			use := uses[name]
			use.Writers = append(use.Writers, i)
			uses[name] = use
		}
	}
	return uses
}

// Touches returns the names that an op of this block reads and writes, including names that ops of its sub-blocks use and do not declare.
func (b *Block) Touches(op *Op) (reads, writes map[string]bool) {
	reads, writes = map[string]bool{}, map[string]bool{}
	touch(b.program, op, reads, writes, map[BlockIndex]bool{BlockIndex(b.Index): true})
	return reads, writes
}

// touch adds to reads and writes. It enters no block twice, so it ends even for a cycle of blocks.
func touch(p *Program, op *Op, reads, writes map[string]bool, entered map[BlockIndex]bool) {
	for _, name := range op.InputNames() {
		reads[name] = true
	}
	for _, name := range op.OutputNames() {
		writes[name] = true
	}
	for _, index := range op.SubBlocks() {
		sub, err := p.Block(index)
		if err != nil || entered[index] {
			continue
		}
		entered[index] = true
		innerReads, innerWrites := map[string]bool{}, map[string]bool{}
		for _, inner := range sub.Ops {
			touch(p, inner, innerReads, innerWrites, entered)
		}
		declared := func(name string, _ bool) bool { return sub.Declares(name) }
		maps.DeleteFunc(innerReads, declared)
		maps.DeleteFunc(innerWrites, declared)
		maps.Copy(reads, innerReads)
		maps.Copy(writes, innerWrites)
	}
}

// Rename gives a variable of this block another name. It changes the slots of ops and op_role_var, in this block and in every block that sees the
// variable. The caller changes other attributes that hold names, and the startup program. Rename fails if the new name is taken in a block that
// sees the variable.
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
