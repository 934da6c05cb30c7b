package program

import "fmt"

// changesGradient maps ops of deep gradient compression to the slots that read a gradient and write it in place.
var changesGradient = map[string][2]string{"dgc": {"Grad", "Grad_out"}, "dgc_clip_by_norm": {"X", "Out"}}

// moveToUpdate makes the ops of deep gradient compression part of the update. Fluid appends them to the backward pass, because each trainer chooses from its own gradient,
// and they overwrite the gradient. Here the update chooses, from the gradient of the whole batch, so what they make of it is a variable of its own.
func moveToUpdate(p *Program) {
	for _, b := range p.Blocks {
		for i, op := range b.Ops {
			slots, changes := changesGradient[op.Type]
			if !changes {
				continue
			}
			op.SetRole(RoleOptimize)
			grad := op.In(slots[0])
			v, ok := b.Var(grad)
			if !ok || op.Out(slots[1]) != grad {
				continue
			}
			name := fmt.Sprintf("%s@CHOSEN_%d", grad, i)
			b.EnsureVar(v.Copy(name))
			op.Outputs[slots[1]] = []string{name}
			for _, later := range b.Ops[i+1:] {
				later.RenameInput(grad, name)
				later.RenameOutput(grad, name)
			}
		}
	}
}
