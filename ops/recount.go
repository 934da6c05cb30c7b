package ops

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/program"
)

// A metric such as the area under a curve is a function of counts that outlive a step. A trainer has counted the rows of its own part when it computes one. Servers add up what all
// have counted, and give back the sums. So trainers compute such metrics again when a round is over, and what the program computes from them and from such counts alone:
//
//	auc -> positives, negatives, area       becomes    auc -> positives, negatives, area    ...    recv positives, negatives    auc_of_counts -> area

// A Recount says how an output is computed again.
type Recount struct {
	Type   string            // of the op that reads counts alone. It has the attributes of the op that counts
	Out    string            // the slot of the output, in both ops
	Counts map[string]string // by slot of the op that reads counts: the slot in which the op that counts writes them
}

// Recounted returns the ops that compute again what the forward pass of p computes from counts that servers add up, and the variables that they need beside those of p. They come after
// all other ops. What the loss is computed from is left out.
func Recounted(p *program.Program) (list []*program.Op, vars []program.Var) {
	block := p.Global()
	forward := forwardOps(block)
	if !slices.ContainsFunc(forward, func(op *program.Op) bool { return keepsCounts(block, op) }) {
		return nil, nil
	}
	added := AddedState(p, true)
	r := &recounting{program: p, block: block, counts: map[string]bool{}, names: map[string]string{}, needed: map[string]bool{}, writers: map[string]int{}}
	for _, op := range block.Ops {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(op.OutputNames()))) {
			r.writers[name]++
		}
		if op.Role().Has(program.RoleBackward) {
			for _, name := range op.InputNames() {
				r.needed[name] = true
			}
		}
	}
	for _, op := range forward {
		def, ok := Lookup(op.Type)
		if !ok {
			continue
		}
		if again := r.again(op, def); again != nil {
			r.list = append(r.list, again)
		}
		for _, name := range op.OutputNames() {
			r.counts[name] = r.once(name) && (added[name] || slices.ContainsFunc(slices.Collect(maps.Keys(def.State)), func(slot string) bool {
				v, ok := block.Find(name)
				return ok && v.Persistable && def.State[slot] == MergeSum && op.Out(slot) == name
			}))
		}
	}
	return r.used()
}

// used returns what is computed again, without constants that nothing reads.
func (r *recounting) used() (list []*program.Op, vars []program.Var) {
	read := map[string]bool{}
	for _, op := range slices.Backward(r.list) {
		if !slices.ContainsFunc(op.OutputNames(), func(name string) bool { return read[name] || r.names[name] == name }) {
			continue
		}
		list = append(list, op)
		for _, name := range op.InputNames() {
			read[name] = true
		}
	}
	slices.Reverse(list)
	return list, slices.DeleteFunc(r.vars, func(v program.Var) bool { return !read[v.Name] })
}

// once reports whether one op of the block writes a variable.
func (r *recounting) once(name string) bool { return r.writers[name] == 1 }

// keepsCounts reports whether an op writes counts to a persistable variable, or adds to one.
func keepsCounts(block *program.Block, op *program.Op) bool {
	def, ok := Lookup(op.Type)
	if !ok {
		return false
	}
	name, _ := adds(block, op)
	return name != "" || slices.ContainsFunc(slices.Collect(maps.Keys(def.State)), func(slot string) bool {
		v, declared := block.Find(op.Out(slot))
		return def.State[slot] == MergeSum && declared && v.Persistable
	})
}

// A recounting follows what a forward pass computes from counts.
type recounting struct {
	program *program.Program
	block   *program.Block
	counts  map[string]bool   // persistable variables whose values servers have added up
	names   map[string]string // of what is computed again, or is constant: its name after the round
	needed  map[string]bool   // what the backward pass reads
	writers map[string]int    // how many ops write a variable
	list    []*program.Op
	vars    []program.Var
}

// again returns the op that computes again what op does, nil if nothing does.
func (r *recounting) again(op *program.Op, def *Def) *program.Op {
	if def.Recounts != nil {
		return r.recount(op, def.Recounts)
	}
	if def.Class != Compute || len(op.SubBlocks()) > 0 || def.Effect || def.FromDims || len(def.State) > 0 {
		return nil
	}
	fromCounts := false
	for _, name := range op.InputNames() {
		if _, again := r.names[name]; !again && !r.counts[name] {
			return nil
		}
		fromCounts = fromCounts || r.counts[name] || r.names[name] == name
	}
	for _, name := range op.OutputNames() {
		v, ok := r.block.Find(name)
		if !ok || v.Persistable || v.Kind != program.LoDTensor || r.needed[name] || !r.once(name) {
			return nil
		}
	}
	again := op.Clone()
	again.SetRole(program.RoleForward)
	for _, name := range op.InputNames() {
		if to, ok := r.names[name]; ok {
			again.RenameInput(name, to)
		}
	}
	for _, name := range op.OutputNames() {
		to := name
		if !fromCounts { // a constant: what reads it later needs one of its own, whatever becomes of the first
			v, _ := r.block.Find(name)
			to = r.program.UniqueName(name + ".again")
			r.vars = append(r.vars, v.Copy(to))
			again.RenameOutput(name, to)
		}
		r.names[name] = to
	}
	return again
}

// recount returns the op that computes a metric of counts, nil if servers do not have them.
func (r *recounting) recount(op *program.Op, how *Recount) *program.Op {
	out := op.Out(how.Out)
	v, ok := r.block.Find(out)
	if !ok || v.Persistable || r.needed[out] || !r.once(out) {
		return nil
	}
	again := &program.Op{Type: how.Type, Inputs: map[string][]string{}, Outputs: map[string][]string{how.Out: {out}}}
	for slot, from := range how.Counts {
		name := op.Out(from)
		if v, ok := r.block.Find(name); ok && !v.Persistable {
			name = r.assigned(op, name)
		}
		if v, ok := r.block.Find(name); !ok || !v.Persistable {
			return nil
		}
		again.Inputs[slot] = []string{name}
	}
	def, _ := Lookup(how.Type)
	for _, a := range def.Attrs {
		if value, ok := op.Attrs[a.Name]; ok {
			again.SetAttr(a.Name, value)
		}
	}
	again.SetLine(op.Line())
	r.names[out] = out
	return again
}

// assigned returns the persistable variable to which what an op has counted is assigned, "" if there is none.
func (r *recounting) assigned(op *program.Op, name string) string {
	for _, other := range r.block.Ops {
		if to := other.Out("Out"); other.Type == "assign" && other.In("X") == name && countsIn(op, name, to) {
			return to
		}
	}
	return ""
}

// recounts reports whether trainers compute a number again from counts that servers add up. In the program of trainers the op that does stands behind what they receive.
func recounts(p *program.Program, name string) bool {
	list, _ := Recounted(p)
	if at := slices.IndexFunc(p.Global().Ops, func(op *program.Op) bool { return op.Type == "recv" }); at >= 0 {
		list = p.Global().Ops[at:]
	}
	return slices.ContainsFunc(list, func(op *program.Op) bool { return slices.Contains(op.OutputNames(), name) })
}
