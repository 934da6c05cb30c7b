package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// AddedState names the persistable variables to which the forward pass adds sums over the batch, as evaluators of Fluid count chunks or errors. Each trainer adds those of
// its rows, so the state of all trainers merges by MergeSum. A variable has one op that adds, sum or elementwise_add, and all that it adds are sums over the batch. Where nobody
// divides a batch, it may add anything.
func AddedState(p *program.Program, divided bool) map[string]bool {
	block := p.Global()
	var r *reductions
	added := map[string]bool{}
	for _, op := range block.Ops {
		name, terms := adds(block, op)
		if name == "" {
			continue
		}
		if !divided {
			added[name] = true
			continue
		}
		if r == nil {
			r = newReductions(block, slices.DeleteFunc(slices.Clone(block.Ops), func(op *program.Op) bool {
				return op.Role().Has(program.RoleBackward) || op.Role().Has(program.RoleOptimize) || op.Role().Has(program.RoleLRSched)
			}))
		}
		added[name] = r.writers[name] == op && !slices.ContainsFunc(terms, func(term string) bool {
			kind, err := r.of(term)
			return err != nil || kind != MergeSum
		})
	}
	return added
}

// adds returns the persistable variable that an op of the forward pass reads and writes to add to it, and what the op adds. It returns "" for any other op, and where
// another op writes the variable too.
func adds(block *program.Block, op *program.Op) (name string, terms []string) {
	name = op.Out("Out")
	v, ok := block.Find(name)
	if op.Type != "sum" && op.Type != "elementwise_add" || op.Role().Has(program.RoleBackward) || op.Role().Has(program.RoleOptimize) || !ok || !v.Persistable {
		return "", nil
	}
	terms = slices.DeleteFunc(op.InputNames(), func(in string) bool { return in == name })
	for _, other := range block.Ops {
		if _, writes := block.Touches(other); other != op && writes[name] {
			return "", nil
		}
	}
	if len(op.InputNames()) != len(terms)+1 || len(terms) == 0 {
		return "", nil
	}
	return name, terms
}
