package program

import (
	"slices"
	"strings"
)

// overwriting are ops that later versions of Paddle also write in place (set_value, x.scatter_(), out=x), with other dims or so that their kernels here would read what they
// have just written.
var overwriting = []string{"cast", "concat", "cumprod", "cumsum", "expand_as_v2", "expand_v2", "fill_diagonal", "fill_diagonal_tensor", "flatten", "flatten2", "flatten_contiguous_range", "flip",
	"gather", "gather_nd", "index_add", "index_select", "layer_norm", "masked_select", "matmul", "matmul_v2", "mul", "pad", "pad2d", "pad3d", "renorm", "reshape", "reshape2", "reverse", "roll", "scatter",
	"scatter_nd_add", "set_value", "set_value_grad", "slice", "squeeze", "squeeze2", "stack", "strided_slice", "tile", "transpose", "transpose2", "tril_triu", "unsqueeze", "unsqueeze2", "where"}

// mostOverwritten bounds how many times a program is gone through. Verify refuses what is left.
const mostOverwritten = 256

// overwrites reports whether op, which reads and writes a variable, is to write another one.
func overwrites(op *Op, name string) bool {
	pair := strings.HasPrefix(op.Type, "elementwise_") || strings.HasPrefix(op.Type, "logical_") || strings.HasPrefix(op.Type, "bitwise_")
	return slices.Contains(overwriting, op.Type) || pair && op.In("Y") == name
}

// separate gives the values that a variable has before and after such an op two names. The last value keeps the name, unless the first one is fed. A variable
// that outlives a run, or that ops of several blocks touch (x[i] = y in a loop), keeps its one name: the op writes a copy, and an assign takes the copy back. A variable with a gradient stays as it is.
func separate(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			addInPlace(b, op)
		}
	}
	if !slices.ContainsFunc(p.Blocks, func(b *Block) bool {
		return slices.ContainsFunc(b.Ops, func(op *Op) bool { return len(overwritten(op)) > 0 })
	}) {
		return
	}
	blocks := map[string]int{} // how many blocks touch a name
	for _, b := range p.Blocks {
		seen := map[string]bool{}
		for _, op := range b.Ops {
			for _, name := range slices.Concat(op.InputNames(), op.OutputNames()) {
				if !seen[name] {
					seen[name] = true
					blocks[name]++
				}
			}
		}
	}
	left := mostOverwritten
	for _, b := range p.Blocks {
		for i := 0; i < len(b.Ops); i++ {
			for _, name := range overwritten(b.Ops[i]) {
				if left--; left < 0 {
					return
				}
				v, found := b.Find(name)
				if _, own := b.Var(name); own && !v.Persistable && v.Kind == LoDTensor && blocks[name] == 1 {
					b.separate(i, v)
				} else if found && v.Kind == LoDTensor && b.Ops[i].Role() == RoleForward && b.Ops[i].Type != "cast" && !hasGradient(p, name) {
					takeBack(b, i, v)
				}
			}
		}
	}
}

// hasGradient reports whether an op of the program names the gradient of a variable.
func hasGradient(p *Program, name string) bool {
	grad := GradName(name)
	return slices.ContainsFunc(p.Blocks, func(b *Block) bool {
		return slices.ContainsFunc(b.Ops, func(op *Op) bool {
			return slices.Contains(op.InputNames(), grad) || slices.Contains(op.OutputNames(), grad)
		})
	})
}

// takeBack lets op i write a copy of v, and assigns the copy to v.
func takeBack(b *Block, i int, v *Var) {
	c := v.Copy(b.program.UniqueName(v.Name + "@VALUE"))
	c.NeedCheckFeed, c.Persistable = false, false
	b.EnsureVar(c)
	op := b.Ops[i]
	op.RenameOutput(v.Name, c.Name)
	back := &Op{Type: "assign", Inputs: map[string][]string{"X": {c.Name}}, Outputs: map[string][]string{"Out": {v.Name}}, Attrs: map[string]Attr{}}
	back.SetRole(op.Role())
	back.SetLine(op.Line())
	b.Insert(i+1, back)
}

// addInPlace lets an op that adds or multiplies into Y do so into X, as the merging of gradients of several steps needs: it adds to a variable that outlives them. X may be
// declared without dims, as Fluid often declares gradients.
func addInPlace(b *Block, op *Op) {
	if op.Type != "elementwise_add" && op.Type != "elementwise_mul" || op.In("Y") != op.Out("Out") || op.In("X") == op.In("Y") {
		return
	}
	x, found := b.Find(op.In("X"))
	y, also := b.Find(op.In("Y"))
	if found && also && x.Kind == LoDTensor && y.Kind == LoDTensor && x.DType == y.DType && (len(x.Dims) == 0 || slices.Equal(x.Dims, y.Dims)) {
		op.Inputs["X"], op.Inputs["Y"] = op.Inputs["Y"], op.Inputs["X"]
	}
}

// overwritten lists the variables that an op overwrites.
func overwritten(op *Op) (names []string) {
	inputs := op.InputNames()
	for _, name := range op.OutputNames() {
		if slices.Contains(inputs, name) && overwrites(op, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// separate gives v, which op i overwrites, another name before or after it.
func (b *Block) separate(i int, v *Var) {
	c := v.Copy(b.program.UniqueName(v.Name + "@VALUE"))
	c.NeedCheckFeed = false
	b.EnsureVar(c)
	op := b.Ops[i]
	made := slices.ContainsFunc(b.Ops[:i], func(before *Op) bool { return before.Type != "feed" && slices.Contains(before.OutputNames(), v.Name) })
	if made {
		for _, before := range b.Ops[:i] {
			before.RenameInput(v.Name, c.Name)
			before.RenameOutput(v.Name, c.Name)
		}
		op.RenameInput(v.Name, c.Name)
		return
	}
	op.RenameOutput(v.Name, c.Name)
	for _, later := range b.Ops[i+1:] {
		later.RenameInput(v.Name, c.Name)
		later.RenameOutput(v.Name, c.Name)
	}
}
