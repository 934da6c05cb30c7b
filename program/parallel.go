package program

import (
	"maps"
	"slices"
)

// mostParallel bounds how many of these ops, and of names that two blocks declare, are gone through. What is left is refused as unsupported.
const mostParallel = 256

// parallelOps are the ops that run a block on each place, with the slot of what the block must write.
var parallelOps = map[string]string{"parallel_do": "outputs", "parallel_do_grad": "parameters" + GradSuffix}

// inlineParallel writes a parallel_do of Fluid 0.11 to 0.14, and its gradient, as the ops of their blocks, as if there were one place. Fluid divides the rows of the inputs over
// places, runs the block on each, puts the rows of the outputs together, and adds the gradients of parameters up. So the ops compute the same from all rows, except where an op looks at
// the rows of a place together, such as batch_norm or mean. An op whose form is not that of Fluid stays, and is refused as unsupported.
func inlineParallel(p *Program) {
	left := mostParallel
	names := map[string]bool{} // of places and scopes
	for _, b := range p.Blocks {
		for i := 0; i < len(b.Ops) && left > 0; i++ {
			op := b.Ops[i]
			slot, parallel := parallelOps[op.Type]
			if !parallel {
				continue
			}
			index, ok := op.SubBlock("sub_block")
			sub, err := p.Block(index)
			if !ok || err != nil || sub == b || sub.Parent != b.Index || !writesAll(sub, op.Outputs[slot]) {
				continue
			}
			for _, name := range slices.Concat(op.Inputs["places"], op.Inputs["parallel_scopes"], op.Outputs["parallel_scopes"]) {
				names[name] = true
			}
			left -= 1 + takeOver(b, i, sub)
			i--
		}
	}
	if len(names) > 0 {
		removeMakers(p, names)
		removeUnused(p, slices.Collect(maps.Keys(names)))
		dropUnreachableBlocks(p)
	}
}

// writesAll reports whether ops of b write all names.
func writesAll(b *Block, names []string) bool {
	uses := b.Uses()
	return !slices.ContainsFunc(names, func(name string) bool { return name != Empty && len(uses[name].Writers) == 0 })
}

// takeOver puts the ops and variables of sub, which op i of b runs, in the place of that op. A variable that the op names is the one of b. Any other that both blocks declare gets a new name.
// takeOver returns how many did.
func takeOver(b *Block, i int, sub *Block) (renamed int) {
	op := b.Ops[i]
	given := map[string]bool{}
	for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
		given[name] = true
	}
	for _, v := range sub.Vars() {
		if _, taken := b.Find(v.Name); taken && !given[v.Name] && renamed < mostParallel {
			if sub.Rename(v.Name, b.program.UniqueName(v.Name)) == nil {
				renamed++
			}
		}
		b.EnsureVar(v.Copy(""))
		sub.RemoveVar(v.Name)
	}
	for _, inner := range b.program.Blocks {
		if inner.Parent == sub.Index {
			inner.Parent = b.Index
		}
	}
	writers := map[string]*Op{} // the last ones
	for _, inner := range sub.Ops {
		for _, name := range inner.OutputNames() {
			writers[name] = inner
		}
	}
	served := map[*Op][]string{}
	for _, pair := range op.RoleVars() {
		if writer := writers[pair[1]]; writer != nil {
			served[writer] = append(served[writer], pair[0], pair[1])
		}
	}
	for writer, pairs := range served {
		vars, _ := writer.Strs(AttrRoleVar)
		writer.SetAttr(AttrRoleVar, slices.Concat(vars, pairs))
	}
	b.Ops = slices.Replace(b.Ops, i, i+1, sub.Ops...)
	sub.Ops = nil
	return renamed
}

// removeMakers removes the ops that make lists of places which no op reads any more.
func removeMakers(p *Program, places map[string]bool) {
	read := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range op.InputNames() {
				read[name] = true
			}
		}
	}
	for _, b := range p.Blocks {
		b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool {
			out := op.Out("Out")
			return op.Type == "get_places" && places[out] && !read[out]
		})
	}
}
