package program

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// noValue marks a variable that has no value in Python before a loop gives it one: Paddle writes an assign_value of this number for it.
const noValue = 1.77113e27

// carry makes the variables of loops of Paddle 2 such as EDL runs them. A loop writes into the variables that the Python function had before it. Some of these are fed, so the loop gets a
// copy. Others had no value, so they get the type that the loop gives them.
func carry(p *Program) {
	global := p.Blocks[0]
	for i := 0; i < len(global.Ops); i++ {
		if len(global.Ops[i].SubBlocks()) == 0 {
			continue
		}
		_, writes := global.Touches(global.Ops[i])
		for _, name := range sortedKeys(writes) {
			if v, own := global.Var(name); own && v.Kind == LoDTensor && !v.Persistable && !hasGradient(p, name) && isFed(global, v) {
				i += takeFeed(global, v)
			}
		}
	}
	for i, op := range global.Ops {
		if values, _ := op.Floats("fp32_values"); op.Type == "assign_value" && len(values) == 1 && float32(values[0]) == noValue {
			declareUndefined(p, i)
		}
	}
}

// isFed reports whether a caller gives a variable its value.
func isFed(b *Block, v *Var) bool {
	return v.NeedCheckFeed || slices.ContainsFunc(b.Ops, func(op *Op) bool { return op.Type == "feed" && op.Out("Out") == v.Name })
}

// takeFeed lets all ops use a copy of a variable that is fed and that an op writes, too. It returns how many ops it has added.
func takeFeed(b *Block, v *Var) int {
	name, fed := v.Name, v.Copy("")
	at := slices.IndexFunc(b.Ops, func(op *Op) bool {
		reads, writes := b.Touches(op)
		return op.Type != "feed" && (reads[name] || writes[name])
	})
	if at < 0 || b.Rename(name, b.program.UniqueName(name+"@VALUE")) != nil {
		return 0
	}
	b.EnsureVar(fed)
	for _, op := range b.Ops {
		if op.Type == "feed" {
			op.RenameOutput(v.Name, name)
		}
	}
	v.NeedCheckFeed = false
	first := &Op{Type: "assign", Inputs: map[string][]string{"X": {name}}, Outputs: map[string][]string{"Out": {v.Name}}, Attrs: map[string]Attr{}}
	first.SetRole(RoleForward)
	first.SetLine(b.Ops[at].Line())
	b.Insert(at, first)
	return 1
}

// declareUndefined gives a variable without a value, which op i of the global block marks, the element type of what a loop assigns to it.
func declareUndefined(p *Program, i int) {
	op := p.Blocks[0].Ops[i]
	name := op.Out("Out")
	v, own := p.Blocks[0].Var(name)
	if !own || v.Persistable {
		return
	}
	for _, b := range p.Blocks[1:] {
		for _, inner := range b.Ops {
			from, found := b.Find(inner.In("X"))
			if inner.Type != "assign" || inner.Out("Out") != name || b.Declares(name) || !found || from.Kind != LoDTensor {
				continue
			}
			v.DType, v.Dims = from.DType, slices.Clone(from.Dims)
			value := float32(noValue)
			if from.DType != tensor.Float32 && from.DType != tensor.Float64 {
				value = 0
			}
			shape, _ := op.Ints("shape")
			first := &Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {name}},
				Attrs: map[string]Attr{"shape": shape, "dtype": int32(from.DType), "value": value}}
			first.SetRole(op.Role())
			first.SetLine(op.Line())
			p.Blocks[0].Ops[i] = first
			return
		}
	}
}
