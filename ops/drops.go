package ops

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// finiteTests are ops that tell numbers from NaN and infinity.
var finiteTests = []string{"isfinite", "isinf", "isnan", "isfinite_v2", "isinf_v2", "isnan_v2"}

// DropsGradients reports whether the update of a program passes over steps whose gradients are not finite, so that neither the loss nor what is fetched needs to be finite there.
// Either it has an op for that, update_loss_scaling, or conditional blocks whose condition says whether numbers are finite replace the gradients or hold the updates, as mixed precision
// of Fluid 1.5 to 1.7 writes them. That counts only if it protects each parameter that is updated by a gradient. block is the global one.
//
// The program of a trainer has no update. If the update of a job drops gradients, the transpiler takes the mark off the loss of its trainers; see LossMayOverflow.
func DropsGradients(block *program.Block) bool {
	tested := map[string]bool{}  // depend on whether numbers are finite
	dropped := map[string]bool{} // are replaced where a number is not finite, or follow from what is
	updates, guarded := 0, 0
	for _, op := range block.Ops {
		if op.Type == "update_loss_scaling" {
			return true
		}
		reads, writes := block.Touches(op)
		switch {
		case op.Type == "conditional_block" && touchesAny(op.Inputs["Cond"], tested):
			for name := range writes {
				v, ok := block.Find(name)
				dropped[name] = ok && !v.Persistable // not the scale, which such a block adapts
			}
			inside := gradientUpdates(block, op, nil)
			updates, guarded = updates+inside, guarded+inside
			continue
		case len(op.SubBlocks()) > 0:
			updates += gradientUpdates(block, op, nil)
			continue
		case isGradientUpdate(op):
			updates++
			if touchesAny(op.Inputs["Grad"], dropped) {
				guarded++
			}
			continue
		}
		tests, drops := slices.Contains(finiteTests, op.Type), false
		for name := range reads {
			tests, drops = tests || tested[name], drops || dropped[name]
		}
		for name := range writes {
			tested[name], dropped[name] = tests, drops
		}
	}
	return updates > 0 && updates == guarded
}

// LossMayOverflow reports whether the program of a trainer says that its loss need not be finite: the backward pass begins with a loss, and no op of the forward pass is marked to compute it.
func LossMayOverflow(block *program.Block) bool {
	begins := false
	for _, op := range block.Ops {
		switch role := op.Role(); {
		case !role.Has(program.RoleLoss):
		case role.Has(program.RoleBackward):
			begins = true
		default:
			return false
		}
	}
	return begins
}

// isGradientUpdate reports whether an op changes a parameter by its gradient.
func isGradientUpdate(op *program.Op) bool {
	return op.In("Param") != "" && op.In("Grad") != "" && op.In("Param") == op.Out("ParamOut")
}

// gradientUpdates counts the updates in the blocks that an op runs. around are the blocks that are entered already.
func gradientUpdates(block *program.Block, op *program.Op, around []program.BlockIndex) (n int) {
	for _, index := range op.SubBlocks() {
		inner, err := block.Program().Block(index)
		if err != nil || slices.Contains(around, index) {
			continue
		}
		for _, of := range inner.Ops {
			if isGradientUpdate(of) {
				n++
			}
			n += gradientUpdates(inner, of, append(slices.Clone(around), index))
		}
	}
	return n
}

func touchesAny(names []string, set map[string]bool) bool {
	return slices.ContainsFunc(names, func(name string) bool { return set[name] })
}
