package program

import (
	"strconv"
	"strings"
)

// leanGradients says of ops which of their inputs and outputs Fluid leaves out of the op that computes their gradient, because its kernel does not read them. Here a gradient
// takes the dims of what it writes from them. out is the output of the op whose gradient that op reads.
var leanGradients = map[string]struct {
	out   string
	slots []string
}{
	"affine_grid":          {"Output", []string{"Theta"}},
	"center_loss":          {"Loss", []string{"Label", "Centers", "CenterUpdateRate"}},
	"eigh":                 {"Eigenvalues", []string{"Eigenvalues"}}, // eigvalsh
	"fill_diagonal_tensor": {"Out", []string{"Y"}},
	"graph_send_recv":      {"Out", []string{"Out_size"}},
	"graph_send_ue_recv":   {"Out", []string{"Out_size"}},
	"group_norm":           {"Y", []string{"X"}}, // Fluid before 1.8 computes from Y
	"lod_reset":            {"Out", []string{"Y"}},
	"multiplex":            {"Out", []string{"X"}},
	"pad":                  {"Out", []string{"X"}},
	"pad_constant_like":    {"Out", []string{"X"}},
	"pixel_shuffle":        {"Out", []string{"X"}},
	"pixel_unshuffle":      {"Out", []string{"X"}},
	"sample_logits":        {"SampledLogits", []string{"Logits", "Labels", "CustomizedSamples", "CustomizedProbabilities"}},
	"sequence_pad":         {"Out", []string{"PadValue"}},
	"sequence_unpad":       {"Out", []string{"Length"}},
	"shuffle_batch":        {"Out", []string{"X", "Seed"}},
	"shuffle_channel":      {"Out", []string{"X"}},
	"temporal_shift":       {"Out", []string{"X"}},
	"warpctc":              {"Loss", []string{"Label", "LabelLength"}},
}

// completeGradients gives the gradients of such ops these variables. It leaves out what was written again since the op read it: then Verify says what is missing.
func completeGradients(p *Program) {
	type forward struct {
		op *Op
		at int // place among the ops of all blocks
	}
	of, written, at := map[[2]string]forward{}, map[string]int{}, 0
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			at++
			if lean, ok := leanGradients[op.Type]; ok {
				of[[2]string{op.Type, op.Out(lean.out)}] = forward{op, at}
			}
			for _, names := range op.Outputs {
				for _, name := range names {
					written[name] = at
				}
			}
			opType, isGrad := strings.CutSuffix(op.Type, "_grad")
			lean, ok := leanGradients[opType]
			if !isGrad || !ok {
				continue
			}
			out, _ := forwardOf(op.In(GradName(lean.out)))
			f, found := of[[2]string{opType, out}]
			if !found {
				continue
			}
			for _, slot := range lean.slots {
				names := f.op.Inputs[slot]
				if len(names) == 0 {
					names = f.op.Outputs[slot]
				}
				if len(op.Inputs[slot]) > 0 || len(names) == 0 {
					continue
				}
				fresh := true
				for _, name := range names {
					fresh = fresh && written[name] <= f.at
				}
				if fresh {
					op.Inputs[slot] = names
				}
			}
		}
	}
}

// withoutCount returns the name of a gradient without the number that Fluid adds if a program computes a gradient of that name already, as it does for the second of two losses: y@GRAD_0
// is a gradient of y, too.
func withoutCount(name string) string {
	at := strings.LastIndex(name, GradSuffix+"_")
	if at < 0 {
		return name
	}
	if _, err := strconv.ParseUint(name[at+len(GradSuffix)+1:], 10, 32); err != nil {
		return name
	}
	return name[:at+len(GradSuffix)]
}
