package program

// Reachable returns for every block whether it can be entered: the global block, the sub-blocks of ops of blocks that can be entered, and the blocks
// that enclose them.
func (p *Program) Reachable() []bool {
	seen := make([]bool, len(p.Blocks))
	pending := []int{0}
	for len(pending) > 0 {
		index := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if index < 0 || index >= len(seen) || seen[index] {
			continue
		}
		seen[index] = true
		pending = append(pending, p.Blocks[index].Parent)
		for _, op := range p.Blocks[index].Ops {
			for _, sub := range op.SubBlocks() {
				pending = append(pending, int(sub))
			}
		}
	}
	return seen
}

// dropUnreachableBlocks removes blocks that cannot be entered and renumbers the others.
func (p *Program) dropUnreachableBlocks() {
	reachable := p.Reachable()
	index := make([]int, len(p.Blocks)) // new index of each block
	kept := p.Blocks[:0]
	for i, b := range p.Blocks {
		index[i] = NoBlock
		if reachable[i] {
			index[i] = len(kept)
			kept = append(kept, b)
		}
	}
	if len(kept) == len(reachable) {
		return
	}
	p.Blocks = kept
	renumber := func(old int) int {
		if old < 0 || old >= len(index) {
			return old
		}
		return index[old]
	}
	for i, b := range p.Blocks {
		b.Index, b.Parent, b.Forward = i, renumber(b.Parent), renumber(b.Forward)
		for _, op := range b.Ops {
			op.renumberBlocks(renumber)
		}
	}
}

// renumberBlocks replaces the index of each block that the op's attributes name.
func (op *Op) renumberBlocks(renumber func(old int) int) {
	for name, a := range op.Attrs {
		switch v := a.(type) {
		case BlockIndex:
			op.Attrs[name] = BlockIndex(renumber(int(v)))
		case []BlockIndex:
			for k := range v {
				v[k] = BlockIndex(renumber(int(v[k])))
			}
		}
	}
}
