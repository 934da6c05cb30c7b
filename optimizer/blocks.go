package optimizer

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// throughBlock builds the gradient of the block of op: a block that runs once for each run of the forward one, in reverse order (ops/control/gradient.go). It
// returns nil if nobody wants what the block could compute.
//
//	while: h = tanh(h·w)          while_grad: a@GRAD = tanh_grad(h@GRAD)    h is changed by the loop: its gradient changes where it is
//	                                          h@GRAD, w@GRAD = mul_grad     w is only read: while_grad adds up the parts
func (b *backward) throughBlock(op *program.Op) (*ops.BlockGrad, error) {
	index, _ := op.SubBlock("sub_block")
	p := b.block.Program()
	block, err := p.Block(index)
	if err != nil {
		return nil, err
	}
	reads, writes := b.block.Touches(op)
	sub := &backward{model: b.model, outer: b, wanted: b.wanted, path: block.Ops, through: map[string]bool{}, gradients: newGradients(block)}
	inner := &ops.BlockGrad{}
	touched := maps.Clone(reads)
	maps.Copy(touched, writes)
	for _, name := range slices.Sorted(maps.Keys(touched)) {
		v, ok := b.block.Find(name)
		if _, own := block.Var(name); !ok || own || !b.wanted[name] || !writes[name] && v.Kind != program.LoDTensorArray {
			continue
		}
		b.passThrough(name, v, op)
		sub.through[name], sub.live[name] = true, true
		inner.Through = append(inner.Through, name)
	}
	sub.into = p.NewBlock(b.into)
	sub.into.Forward = block.Index
	inner.Block = program.BlockIndex(sub.into.Index)
	steps, _ := ops.StepsOf(op)
	sub.beginSteps(steps)
	if err := sub.reverse(); err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(steps.Inputs, steps.Before) {
		if sub.arrived[name] {
			inner.Left = append(inner.Left, name)
		}
	}
	for _, name := range inner.Through {
		if v, _ := b.block.Find(name); v.Kind != program.LoDTensorArray && !sub.has(name) { // the block overwrites it unread
			sub.add(zeroGradient(name, op.Line()))
			sub.complete(name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		_, own := block.Var(name)
		if v, ok := b.block.Find(name); ok && !own && v.Kind == program.LoDTensor && b.wanted[name] && !sub.through[name] && sub.arrived[name] {
			inner.Parts = append(inner.Parts, name)
		}
	}
	sub.keepValues()
	if !sub.appendSteps() {
		return nil, fault.E(fault.InvalidProgram, fault.On(op), fault.Got("a block whose gradient is refused"), fault.Want("ops that have gradients there"))
	}
	for _, name := range inner.Parts {
		if v, ok := sub.into.Var(program.GradName(name)); ok && v.Kind != program.LoDTensor {
			return nil, fault.E(fault.Unsupported, fault.Var(name), fault.Got("the gradient of a table that grows, in a loop or a branch"), fault.Want("a table of fixed rows"),
				fault.Hint("look the rows up before the loop"))
		}
	}
	return inner, nil
}

// beginSteps declares the gradients with which each run of the gradient of steps begins: those of outputs and of states. The op sets them before the run.
func (b *backward) beginSteps(steps ops.Steps) {
	for _, name := range steps.Outputs {
		if b.outer.has(name) && b.wanted[name] {
			b.declare(program.GradName(name), name)
			b.arrived[name], b.live[name] = true, true
		}
	}
	for _, name := range steps.After {
		if b.wanted[name] {
			b.declare(program.GradName(name), name)
			b.arrived[name], b.live[name] = true, true
		}
	}
}

// passThrough prepares the gradient of a variable that the block of op changes: the gradient of the values after op is complete then.
func (b *backward) passThrough(name string, v *program.Var, op *program.Op) {
	b.declare(program.GradName(name), name)
	if v.Kind == program.LoDTensorArray {
		b.arrived[name], b.written[name] = true, true
		return
	}
	if !b.has(name) {
		b.add(zeroGradient(name, op.Line()))
	}
	b.complete(name)
	b.arrived[name], b.live[name] = true, true
}

// keepValues lets gradient ops read values that later ops overwrite. A forward op beside the op that used the value copies it, and the gradient reads the copy.
// No copy is needed of what an executor keeps (ops.KeptAtEntry).
func (b *backward) keepValues() {
	for _, step := range b.steps {
		op := b.origin[step]
		if op == nil {
			continue
		}
		for _, name := range readBy(b, step, op) {
			if !isOverwritten(b, name, op) {
				continue
			}
			kept := keep(b, name, op)
			if len(step.SubBlocks()) == 0 {
				step.RenameInput(name, kept)
			}
			for _, index := range step.SubBlocks() {
				if block, err := b.block.Program().Block(index); err == nil {
					renameReads(block, name, kept)
				}
			}
		}
	}
}

// readBy lists the forward tensors that a step reads. Of the gradient of a block that changes a variable, that block has kept what is needed.
func readBy(b *backward, step, op *program.Op) (names []string) {
	reads, writes := map[string]bool{}, map[string]bool{}
	if len(step.SubBlocks()) > 0 {
		reads, _ = b.into.Touches(&program.Op{Attrs: step.Attrs})
		_, writes = b.block.Touches(op)
	} else {
		for _, name := range step.InputNames() {
			reads[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reads)) {
		_, gradient := forwardName(name)
		if v, ok := b.block.Find(name); ok && !gradient && v.Kind == program.LoDTensor && !writes[name] {
			names = append(names, name)
		}
	}
	return names
}

// isOverwritten reports whether a variable may have another value when the gradient of op runs.
func isOverwritten(b *backward, name string, op *program.Op) bool {
	_, own := b.block.Var(name)
	passed, before, after := false, false, false
	for _, other := range b.block.Ops {
		passed = passed || other == op
		if _, writes := b.block.Touches(other); writes[name] {
			if passed && other != op {
				after = true
			} else {
				before = true
			}
		}
	}
	if own || b.outer == nil {
		return after
	}
	return (before || after) && (before || !ops.KeptAtEntry(b.block, name))
}

// keep copies a variable as op sees it, and returns the name of the copy.
func keep(b *backward, name string, op *program.Op) string {
	v, _ := b.block.Find(name)
	kept := ""
	b.model.Within(b.block, func() { kept = b.model.UniqueName(name + ".kept") })
	b.block.EnsureVar(program.Var{Name: kept, Kind: v.Kind, DType: v.DType, Dims: v.Dims, LoDLevel: v.LoDLevel, StopGradient: true})
	assign := &program.Op{Type: "assign", Inputs: map[string][]string{"X": {name}}, Outputs: map[string][]string{"Out": {kept}}}
	assign.SetRole(program.RoleForward)
	assign.SetLine(op.Line())
	at := slices.Index(b.block.Ops, op)
	if slices.Contains(op.OutputNames(), name) {
		at++
	}
	b.block.Insert(at, assign)
	return kept
}

// renameReads lets the ops of a block, and of blocks within it, read another variable.
func renameReads(block *program.Block, from, to string) {
	if _, own := block.Var(from); own {
		return
	}
	for _, op := range block.Ops {
		if len(op.SubBlocks()) == 0 {
			op.RenameInput(from, to)
		}
		for _, index := range op.SubBlocks() {
			if inner, err := block.Program().Block(index); err == nil {
				renameReads(inner, from, to)
			}
		}
	}
}
