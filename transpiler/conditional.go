package transpiler

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/program"
)

// conditionalBlock is the op of a conditional update: its block changes parameters if a condition holds, as Lookahead and the merge of gradients do every k steps.
const conditionalBlock = "conditional_block"

// divideConditional replaces a conditional update by one for each set of ops of its block that share what an update writes, usually one for each parameter. So parameters
// may be on different servers. The new ops stand in the place of the old one. It changes no bit: ops of two sets have nothing to do with each other.
func divideConditional(s *state) error {
	if !slices.ContainsFunc(s.global().Ops, isConditionalUpdate) {
		return nil
	}
	s.source = s.source.Clone()
	b := s.global()
	changed := map[string]bool{} // by updates
	for _, op := range b.Ops {
		if role := op.Role(); role.Has(program.RoleOptimize) {
			_, writes := b.Touches(op)
			maps.Copy(changed, writes)
		}
	}
	var all []*program.Op
	for _, op := range b.Ops {
		if !isConditionalUpdate(op) {
			all = append(all, op)
			continue
		}
		parts, err := divided(b, op, changed)
		if err != nil {
			return err
		}
		all = append(all, parts...)
	}
	b.Ops = all
	s.source.DropUnreachable()
	return nil
}

func isConditionalUpdate(op *program.Op) bool {
	return op.Type == conditionalBlock && op.Role().Has(program.RoleOptimize)
}

// divided returns the ops that replace a conditional update.
func divided(b *program.Block, op *program.Op, changed map[string]bool) ([]*program.Op, error) {
	index, _ := op.SubBlock("sub_block")
	body, err := b.Program().Block(index)
	if err != nil {
		return nil, err
	}
	sets := connected(body, changed)
	if len(sets) < 2 || slices.ContainsFunc(body.Ops, func(inner *program.Op) bool { return len(inner.SubBlocks()) > 0 }) {
		return []*program.Op{op}, nil
	}
	var parts []*program.Op
	for _, set := range sets {
		own := b.Program().NewBlock(b)
		reads, writes := map[string]bool{}, map[string]bool{}
		for _, inner := range set {
			r, w := body.Touches(inner)
			maps.Copy(reads, r)
			maps.Copy(writes, w)
			own.Append(inner.Clone())
		}
		for _, v := range body.Vars() {
			if reads[v.Name] || writes[v.Name] {
				own.EnsureVar(v.Copy(""))
			}
		}
		part := op.Clone()
		part.SetAttr("sub_block", program.BlockIndex(own.Index))
		keep := func(slot string, touched map[string]bool) []string {
			return slices.DeleteFunc(slices.Clone(op.Inputs[slot]), func(name string) bool { return !touched[name] })
		}
		part.Inputs["Input"] = keep("Input", reads)
		part.Outputs = map[string][]string{"Out": slices.DeleteFunc(slices.Clone(op.Outputs["Out"]), func(name string) bool { return !writes[name] })}
		parts = append(parts, part)
	}
	return parts, nil
}

// connected divides the ops of a block into sets, in the order of the first op of each. Two ops are in one set if both name a variable of the block, or one that updates
// change.
func connected(body *program.Block, changed map[string]bool) [][]*program.Op {
	type set struct {
		ops   []int
		names map[string]bool
	}
	var sets []*set
	for i, op := range body.Ops {
		reads, writes := body.Touches(op)
		own := &set{names: map[string]bool{}}
		for _, names := range []map[string]bool{reads, writes} {
			for name := range names {
				if _, declared := body.Var(name); declared || changed[name] {
					own.names[name] = true
				}
			}
		}
		own.ops = []int{i}
		sets = slices.DeleteFunc(sets, func(other *set) bool {
			for name := range other.names {
				if own.names[name] {
					own.ops = append(own.ops, other.ops...)
					maps.Copy(own.names, other.names)
					return true
				}
			}
			return false
		})
		sets = append(sets, own)
	}
	for _, s := range sets {
		slices.Sort(s.ops)
	}
	slices.SortFunc(sets, func(a, b *set) int { return a.ops[0] - b.ops[0] })
	divided := make([][]*program.Op, len(sets))
	for i, s := range sets {
		for _, at := range s.ops {
			divided[i] = append(divided[i], body.Ops[at])
		}
	}
	return divided
}
