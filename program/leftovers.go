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

// nameRates gives ops auc of Fluid before 1.0, which counted at thresholds, a type of their own. They read the largest score of each row until 0.14, then that of label 1; and none until 0.12
// kept counts.
func nameRates(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if op.Type != "auc" {
				continue
			}
			rekey(op.Inputs, "Inference", "Out")
			switch {
			case op.In("Out") != "" && op.In("Predict") == "":
				rekey(op.Inputs, "Out", "Predict")
				delete(op.Inputs, "Indices")
				op.SetAttr("column", int32(0))
			case op.In("TP") == "":
				continue
			}
			op.Type = "auc_at_thresholds"
		}
	}
}

// metricTypes are the types that kernels of Fluid give to metrics, whatever is declared, by op and slot. All but those of precision_recall are one number.
var metricTypes = map[string]map[string]tensor.DType{
	"auc":               {"AUC": tensor.Float64},
	"auc_at_thresholds": {"AUC": tensor.Float64},
	"precision_recall":  {"BatchMetrics": tensor.Float64, "AccumMetrics": tensor.Float64},
	"accuracy":          {"Correct": tensor.Int32, "Total": tensor.Int32},
}

// declareMetrics gives metrics the type that they have. Python declares those of precision_recall as float32 in PaddleRec, and the number of rows of accuracy as it was given one
// (create_tensor), and fetches them.
func declareMetrics(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			for slot, dtype := range metricTypes[op.Type] {
				v, ok := b.Find(op.Out(slot))
				if !ok || v.Persistable || v.NeedCheckFeed {
					continue
				}
				if v.DType = dtype; len(v.Dims) == 0 && op.Type != "precision_recall" && p.Version < withSingleNumbers {
					v.Dims = []int64{1}
				}
			}
		}
	}
}
