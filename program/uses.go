package program

import "maps"

// A Use lists the positions in Block.Ops of the ops that read and write a variable, ascending.
type Use struct {
	Readers, Writers []int
}

// Uses returns the uses of every name in the ops of the block. An op with sub-blocks also reads and writes, at its own position, what their ops read
// and write outside of them.
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

// Touches returns the names that an op of this block reads and writes, including those that the ops of its sub-blocks use but do not declare.
func (b *Block) Touches(op *Op) (reads, writes map[string]bool) {
	reads, writes = map[string]bool{}, map[string]bool{}
	b.program.touch(op, reads, writes, map[BlockIndex]bool{BlockIndex(b.Index): true})
	return reads, writes
}

// touch adds to reads and writes. Blocks that were entered are not entered again, so a cycle of blocks ends.
func (p *Program) touch(op *Op, reads, writes map[string]bool, entered map[BlockIndex]bool) {
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
			p.touch(inner, innerReads, innerWrites, entered)
		}
		declared := func(name string, _ bool) bool { _, ok := sub.vars[name]; return ok }
		maps.DeleteFunc(innerReads, declared)
		maps.DeleteFunc(innerWrites, declared)
		maps.Copy(reads, innerReads)
		maps.Copy(writes, innerWrites)
	}
}
