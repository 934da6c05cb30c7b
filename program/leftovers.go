package program

import (
	"strings"

	"github.com/edl-go/edl/tensor"
)

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

// countAllSteps says of ops auc that the counts they keep are those of all steps where they do not say how many. Fluid 1.0 had no slide_steps.
func countAllSteps(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if _, says := op.Attrs["slide_steps"]; op.Type == "auc" && !says && op.In("StatPos") != "" {
				op.SetAttr("slide_steps", int32(0))
			}
		}
	}
}

// metricSlots are the outputs that kernels of Fluid write as float64, whatever is declared.
var metricSlots = map[string][]string{"auc": {"AUC"}, "precision_recall": {"BatchMetrics", "AccumMetrics"}}

// declareMetrics gives metrics the type that they have: Python declares those of precision_recall as it likes, as float32 in PaddleRec, and fetches them.
func declareMetrics(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for _, slot := range metricSlots[op.Type] {
				if v, ok := b.Find(op.Out(slot)); ok && !v.Persistable && v.DType == tensor.Float32 {
					v.DType = tensor.Float64
				}
			}
		}
	}
}
