package program

import (
	"maps"
	"slices"
	"strings"
)

// Fluid computes gradients of loops, branches and arrays by the ops that compute them forwards. EDL has ops of their own for some, because they add to what an
// array has and need the dims of forward values:
//
//	write_to_array(X, I) -> A         Fluid: read_from_array(A@GRAD, I) -> X@GRAD      EDL: write_to_array_grad(X, I, A@GRAD) -> X@GRAD, A@GRAD
//	read_from_array(A, I) -> Y        Fluid: write_to_array(Y@GRAD, I) -> A@GRAD       EDL: read_from_array_grad(Y@GRAD, I) -> A@GRAD
//
// A gradient of an array is one variable here, in the block that declares the array. In Fluid each block that computes a part of it has a variable of its own, and sum joins them.
// If a program computes gradients of two losses, an array may have two. Fluid calls the second A@GRAD_0 in the global block, and both A@GRAD in blocks.

// blockGradOps are the ops that run the gradient of a block, with the slot of what the forward block reads. The gradient of each variable there has a place in SLOT@GRAD.
var blockGradOps = map[string][]string{"while_grad": {"X"}, "conditional_block_grad": {"Input"}, "recurrent_grad": {"inputs", "initial_states", "parameters"}}

// attrInnerGrads names what the block of a gradient calls the variables of Out@GRAD.
const attrInnerGrads = "original_output_grad"

// readBlockGradients gives gradients of loops, branches and arrays the form of EDL, if they have that of Fluid.
func readBlockGradients(p *Program) {
	joinArrayGrads(p)
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			rewriteArrayGrad(b, op)
		}
	}
	declareArrayGrads(p)
	for _, b := range p.Blocks {
		linkBlockGrads(b)
	}
}

// forwardOf returns the variable whose gradient, or part of a gradient, has a name. It reports false for any other name.
func forwardOf(name string) (string, bool) {
	if whole, _, part := strings.Cut(name, GradSuffix+"@RENAME@"); part {
		return whole, true
	}
	return strings.CutSuffix(withoutCount(name), GradSuffix)
}

// arrayGrad returns the array whose gradient, or part of a gradient, has a name.
func arrayGrad(b *Block, name string) (*Var, bool) {
	forward, ok := forwardOf(name)
	if !ok {
		return nil, false
	}
	v, found := b.Find(forward)
	return v, found && v.Kind == LoDTensorArray
}

// joinArrayGrads makes one variable of the parts of the gradient of an array, and of what the blocks of one gradient call it.
func joinArrayGrads(p *Program) {
	given := map[*Block]map[string]string{} // of blocks of gradients: the names of gradients of arrays, by those of the arrays
	for _, b := range p.Blocks {
		wholes := map[string]string{} // by parts
		for _, op := range b.Ops {
			out := op.Out("Out")
			if _, ok := arrayGrad(b, out); op.Type != "sum" || !ok {
				continue
			}
			for _, part := range op.Inputs["X"] {
				if part != out {
					wholes[part] = out
				}
			}
		}
		joined := map[string]bool{}
		for _, op := range b.Ops {
			for _, slots := range []map[string][]string{op.Inputs, op.Outputs} {
				for _, names := range slots {
					for i, name := range names {
						v, ok := arrayGrad(b, name)
						if !ok {
							continue
						}
						if whole := wholeGrad(v, name, wholes, given[b]); whole != name {
							names[i] = whole
							joined[whole] = true
						}
					}
				}
			}
		}
		if len(joined) > 0 {
			b.Ops = slices.DeleteFunc(b.Ops, func(op *Op) bool { return op.Type == "sum" && joined[op.Out("Out")] })
		}
		for _, op := range b.Ops {
			giveArrayGrads(b, op, given)
		}
	}
}

// wholeGrad returns the variable in which a gradient of an array is, or a part of it.
func wholeGrad(array *Var, name string, wholes, given map[string]string) string {
	if whole := given[array.Name]; whole != "" {
		return whole
	}
	for range wholes { // sums of sums
		if whole := wholes[name]; whole != "" {
			name = whole
		}
	}
	if _, _, part := strings.Cut(name, RenameMark); part {
		return GradName(array.Name)
	}
	return name
}

// giveArrayGrads notes which gradients of arrays the block of a gradient works on.
func giveArrayGrads(b *Block, op *Op, given map[*Block]map[string]string) {
	slots, is := blockGradOps[op.Type]
	index, _ := op.SubBlock("sub_block")
	block, err := b.program.Block(index)
	if !is || err != nil {
		return
	}
	names := maps.Clone(given[b])
	if names == nil {
		names = map[string]string{}
	}
	give := func(inside, outside []string) {
		for i, name := range inside {
			if i >= len(outside) {
				return
			}
			array, ok := forwardOf(name)
			if _, isArray := arrayGrad(b, outside[i]); ok && isArray && outside[i] != GradName(array) {
				names[array] = outside[i]
			}
		}
	}
	give(innerGrads(op), op.Inputs[GradName("Out")])
	for _, slot := range slots {
		give(gradNames(op.Inputs[slot]), op.Outputs[GradName(slot)])
	}
	given[block] = names
}

// innerGrads returns what the block of a gradient calls the variables of Out@GRAD.
func innerGrads(op *Op) []string {
	if inside, listed := op.Strs(attrInnerGrads); listed {
		return inside
	}
	return gradNames(op.Inputs["Out"]) // conditional_block_grad of Fluid
}

// gradNames returns the names of the gradients of variables.
func gradNames(names []string) []string {
	grads := make([]string, len(names))
	for i, name := range names {
		grads[i] = GradName(name)
	}
	return grads
}

// rewriteArrayGrad writes the gradient of an op of arrays.
func rewriteArrayGrad(b *Block, op *Op) {
	in, out := op.In("X"), op.Out("Out")
	grad := GradName("Out")
	switch op.Type {
	case "read_from_array", "array_to_lod_tensor": // of write_to_array and lod_tensor_to_array
		if _, ok := arrayGrad(b, in); !ok {
			return
		}
		forward, ok := forwardOf(out)
		if w := op.In("X_W"); w != "" {
			forward = w
		}
		if _, found := b.Find(forward); !ok || !found {
			return
		}
		op.Outputs = map[string][]string{GradName("X"): {out}}
		if op.Type == "array_to_lod_tensor" {
			op.Type, op.Inputs = "lod_tensor_to_array_grad", map[string][]string{"X": {forward}, "RankTable": op.Inputs["RankTable"], grad: {in}}
			return
		}
		op.Type, op.Inputs = "write_to_array_grad", map[string][]string{"X": {forward}, "I": op.Inputs["I"], grad: {in}}
		op.Outputs[grad] = []string{in}
	case "write_to_array", "lod_tensor_to_array": // of read_from_array and array_to_lod_tensor
		if _, ok := arrayGrad(b, out); !ok {
			return
		}
		op.Outputs = map[string][]string{GradName("X"): {out}}
		if op.Type == "write_to_array" {
			op.Type, op.Inputs = "read_from_array_grad", map[string][]string{"I": op.Inputs["I"], grad: {in}}
			return
		}
		op.Type, op.Inputs = "array_to_lod_tensor_grad", map[string][]string{"RankTable": op.Inputs["RankTable"], grad: {in}}
	case "reorder_lod_tensor_by_rank_grad":
		forward, ok := forwardOf(out)
		if _, found := b.Find(forward); ok && found {
			op.Inputs = map[string][]string{"X": {forward}, "RankTable": op.Inputs["RankTable"], grad: {in}}
			op.Outputs = map[string][]string{GradName("X"): {out}}
		}
	}
}

// declareArrayGrads declares the gradient of an array beside the array, and nowhere else. That of an array which the forward block of a gradient declares is in the
// block of the gradient.
func declareArrayGrads(p *Program) {
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			array, ok := arrayGrad(b, v.Name)
			if _, _, part := strings.Cut(v.Name, RenameMark); ok && (part || !besideArray(b, array)) {
				b.RemoveVar(v.Name)
			}
		}
	}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, name := range append(op.InputNames(), op.OutputNames()...) {
				if array, ok := arrayGrad(b, name); ok {
					declareArrayGrad(b, array, name)
				}
			}
		}
	}
}

// besideArray reports whether the gradient of an array belongs into b.
func besideArray(b *Block, array *Var) bool {
	if own, ok := b.vars[array.Name]; ok {
		return own == array
	}
	f := b.ForwardBlock()
	return f != nil && f.vars[array.Name] == array
}

func declareArrayGrad(b *Block, array *Var, name string) {
	for hops := 0; b != nil && hops <= len(b.program.Blocks); hops++ {
		if besideArray(b, array) {
			grad := b.EnsureVar(Var{Name: name, DType: array.DType, Dims: array.Dims, LoDLevel: array.LoDLevel})
			grad.Kind = LoDTensorArray
			return
		}
		b = b.ParentBlock()
	}
}

// linkBlockGrads completes what ops that run gradients of blocks of b say of them.
func linkBlockGrads(b *Block) {
	written := map[string]bool{}
	var all []*Op
	for _, op := range b.Ops {
		index, _ := op.SubBlock("sub_block")
		slots, is := blockGradOps[op.Type]
		block, err := b.program.Block(index)
		if !is || err != nil || block.ForwardBlock() == nil {
			all = append(all, op)
			for _, name := range op.OutputNames() {
				written[name] = true
			}
			continue
		}
		l := &gradLink{outer: b, op: op, block: block, writes: map[string]bool{}, through: map[string]bool{}}
		for _, inner := range block.Ops {
			_, writes := block.Touches(inner)
			for name := range writes {
				l.writes[name] = true
			}
		}
		if op.Type == "recurrent_grad" {
			l.declareSteps()
		} else {
			l.passThrough()
		}
		for _, slot := range slots {
			l.takeParts(slot)
		}
		for _, name := range l.begin {
			if !written[name.to] {
				all = append(all, l.zeros(name))
			}
		}
		all = append(all, op)
		for _, name := range l.missing {
			all = append(all, l.zeros(name))
		}
		for _, name := range append(op.OutputNames(), op.InputNames()...) {
			written[name] = true
		}
	}
	b.Ops = all
}

// A gradLink works on one op that runs the gradient of a block.
type gradLink struct {
	outer   *Block // where the op stands
	op      *Op
	block   *Block // the gradient
	writes  map[string]bool
	through map[string]bool // gradients that the block changes where they are, by their names in the block
	begin   []zeroGrad      // what has to have a value before the op, if no op has given it one
	missing []zeroGrad      // what the op does not compute, though others may read it
}

// A zeroGrad is a gradient that is 0, with the dims of the variable of.
type zeroGrad struct{ of, to string }

func (l *gradLink) zeros(z zeroGrad) *Op {
	op := &Op{Type: "fill_zeros_like", Inputs: map[string][]string{"X": {z.of}}, Outputs: map[string][]string{"Out": {z.to}}, Attrs: map[string]Attr{}}
	op.SetRole(RoleBackward)
	if stack, ok := l.op.Attrs["op_callstack"]; ok {
		op.Attrs["op_callstack"] = stack
	}
	return op
}

// passThrough lists what of the gradients of the outputs the block changes where they are, all arrays among them.
func (l *gradLink) passThrough() {
	slot := GradName("Out")
	outside := l.op.Inputs[slot]
	_, listed := l.op.Strs(attrInnerGrads)
	var outer, inner []string
	for i, name := range innerGrads(l.op) {
		if i >= len(outside) || outside[i] == Empty {
			continue
		}
		forward, ok := forwardOf(name)
		v, found := l.outer.Find(forward)
		if !ok || !found || v.Kind != LoDTensor && v.Kind != LoDTensorArray {
			continue
		}
		if v.Kind == LoDTensorArray {
			name = outside[i] // joinArrayGrads has renamed it
		}
		outer, inner = append(outer, outside[i]), append(inner, name)
		l.through[name] = true
		if v.Kind == LoDTensor {
			l.block.RemoveVar(name)
			l.beginWith(v, outside[i])
		}
	}
	reads, writes := l.outer.Touches(&Op{Attrs: l.op.Attrs})
	var arrays []string
	for _, names := range []map[string]bool{reads, writes} {
		for name := range names {
			if _, ok := arrayGrad(l.outer, name); ok && !l.through[name] {
				l.through[name] = true
				arrays = append(arrays, name)
			}
		}
	}
	slices.Sort(arrays)
	outer, inner = append(outer, arrays...), append(inner, arrays...)
	delete(l.op.Inputs, slot)
	if len(outer) > 0 {
		l.op.Inputs[slot] = outer
	}
	if len(inner) > 0 || listed {
		l.op.SetAttr(attrInnerGrads, inner)
	}
}

// beginWith lets the gradient of v be 0 before the op, unless an op has given it a value.
func (l *gradLink) beginWith(v *Var, grad string) {
	if _, declared := l.outer.Find(grad); !declared {
		l.outer.EnsureVar(gradVar(v, grad))
	}
	if _, own := l.outer.Var(grad); own {
		l.begin = append(l.begin, zeroGrad{v.Name, grad})
	}
}

// gradVar is a variable for the gradient of v.
func gradVar(v *Var, name string) Var {
	return Var{Name: name, Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel}
}

// declareSteps declares in the block what recurrent_grad gives it: gradients of a step. The gradient of an output that nobody uses is 0 in each step.
func (l *gradLink) declareSteps() {
	forward := l.block.ForwardBlock()
	outside := l.op.Inputs[GradName("outputs")]
	var unused []*Op
	for i, name := range l.op.Inputs["outputs"] {
		v, ok := forward.Var(name)
		if !ok {
			continue
		}
		if i < len(outside) {
			if _, declared := l.outer.Find(outside[i]); !declared {
				outside[i] = Empty
			}
		}
		if i >= len(outside) || outside[i] == Empty {
			if _, declared := l.block.Var(GradName(name)); !declared && !l.writes[GradName(name)] {
				unused = append(unused, l.zeros(zeroGrad{name, GradName(name)}))
			}
		}
		l.block.EnsureVar(gradVar(v, GradName(name)))
	}
	l.block.Insert(0, unused...)
	states, _ := l.op.Strs("states")
	for _, name := range states {
		if v, ok := forward.Var(name); ok {
			l.block.EnsureVar(gradVar(v, GradName(name)))
		}
	}
}

// takeParts declares in the block the gradients of what the forward block reads, as far as the block computes them. Others are 0.
func (l *gradLink) takeParts(slot string) {
	grads := l.op.Outputs[GradName(slot)]
	inside := l.op.Inputs[slot]
	if slot == "initial_states" {
		inside, _ = l.op.Strs("ex_states")
	}
	for i, name := range inside {
		if i >= len(grads) || grads[i] == Empty || l.through[GradName(name)] {
			continue
		}
		v, found := l.block.Find(name)
		switch {
		case !found || v.Kind != LoDTensor:
		case l.writes[GradName(name)]:
			l.block.EnsureVar(gradVar(v, GradName(name)))
		default:
			l.missing = append(l.missing, zeroGrad{l.op.Inputs[slot][i], grads[i]})
			grads[i] = Empty
		}
	}
}
