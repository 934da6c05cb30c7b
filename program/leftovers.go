package program

import "strings"

// emptyUndeclared takes out what an op that computes gradients is to read but no block declares. Fluid names the gradient of each output there, also of one that the loss does
// not depend on, such as the last State of rnn. It declares no such variable, and its kernels take the gradient for zeros.
func emptyUndeclared(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if !strings.HasSuffix(op.Type, "_grad") {
				continue
			}
			for slot, names := range op.Inputs {
				if !strings.HasSuffix(slot, GradSuffix) {
					continue
				}
				for i, name := range names {
					if _, declared := b.Find(name); !declared {
						names[i] = Empty
					}
				}
			}
		}
	}
}

// countOneStep takes the counts from ops auc that keep those of one step (slide_steps is 1), as the batch AUC of Fluid does: a step replaces what it reads of them. Their layout
// depends on the version of Fluid.
func countOneStep(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if steps, _ := op.Int("slide_steps"); op.Type == "auc" && steps == 1 {
				for _, slot := range []string{"StatPos", "StatNeg"} {
					delete(op.Inputs, slot)
					delete(op.Outputs, slot+"Out")
				}
			}
		}
	}
}
