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
		name, terms := adds(block, op) // no terms: counts
		if name == "" {
			continue
		}
		if !divided {
			added[name] = true
			continue
		}
		if r == nil {
			r = newReductions(block, forwardOps(block))
		}
		added[name] = r.writers[name] == op && !slices.ContainsFunc(terms, func(term string) bool {
			kind, err := r.of(term)
			return err != nil || kind != MergeSum
		})
	}
	return added
}

// adds returns the persistable variable that an op of the forward pass reads and writes to add to it, and what the op adds. It may be an assign of what another op has made of the
// variable and of what it adds, or counts. It returns "" for any other op, and where another op writes the variable too.
func adds(block *program.Block, op *program.Op) (name string, terms []string) {
	name = op.Out("Out")
	v, ok := block.Find(name)
	by := op
	if op.Type == "assign" {
		by = writerBefore(block, op, op.In("X"))
	}
	if by == nil || op.Role().Has(program.RoleBackward) || op.Role().Has(program.RoleOptimize) || !ok || !v.Persistable {
		return "", nil
	}
	counts := by != op && countsIn(by, op.In("X"), name)
	if !counts && by.Type != "sum" && by.Type != "elementwise_add" {
		return "", nil
	}
	for _, other := range block.Ops {
		if _, writes := block.Touches(other); other != op && writes[name] {
			return "", nil
		}
	}
	if counts {
		return name, nil
	}
	terms = slices.DeleteFunc(by.InputNames(), func(in string) bool { return in == name })
	if len(by.InputNames()) != len(terms)+1 || len(terms) == 0 {
		return "", nil
	}
	return name, terms
}

// writerBefore returns the last op before another that writes a variable, nil if there is none.
func writerBefore(block *program.Block, op *program.Op, name string) (last *program.Op) {
	for _, other := range block.Ops {
		if other == op {
			return last
		}
		if slices.Contains(other.OutputNames(), name) {
			last = other
		}
	}
	return nil
}

// countsIn reports whether an op writes to out what it has counted beside the counts that state had before.
func countsIn(op *program.Op, out, state string) bool {
	def, _ := Lookup(op.Type)
	for slot, merge := range def.State {
		if merge == MergeSum && op.Out(slot) == out && op.In(def.InPlace[slot]) == state {
			return true
		}
	}
	return false
}
