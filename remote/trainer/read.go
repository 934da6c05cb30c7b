package trainer

import (
	"slices"

	"github.com/edl-go/edl/program"
)

// reading returns the part of a save program that brings one variable here: the recvs of its pieces, the barrier, and what joins
// them. It reports false when the program does not bring the variable.
func reading(save *program.Program, name string) (*program.Program, bool) {
	p := save.Clone()
	b := p.Global()
	needed := map[string]bool{name: true}
	var kept []*program.Op
	for i := len(b.Ops) - 1; i >= 0; i-- {
		op := b.Ops[i]
		switch {
		case op.Type == "save":
		case op.Type == "fetch_barrier":
			kept = append(kept, op)
		case op.Type == "recv":
			if keepOutputs(op, needed) {
				kept = append(kept, op)
			}
		case slices.ContainsFunc(op.OutputNames(), func(n string) bool { return needed[n] }):
			for _, n := range op.InputNames() {
				needed[n] = true
			}
			kept = append(kept, op)
		}
	}
	slices.Reverse(kept)
	written := map[string]bool{}
	for _, op := range kept {
		for slot, names := range op.Inputs {
			if op.Type == "fetch_barrier" {
				op.Inputs[slot] = slices.DeleteFunc(names, func(n string) bool { return !written[n] })
			}
		}
		for _, n := range op.OutputNames() {
			written[n] = true
		}
	}
	b.Ops = kept
	return p, written[name]
}

// keepOutputs cuts a recv down to the outputs that are needed, and reports whether any are.
func keepOutputs(op *program.Op, needed map[string]bool) bool {
	outs := op.Outputs["Out"]
	servers, _ := op.Strs("epmap")
	names, _ := op.Strs("recv_varnames")
	var keptOuts, keptServers, keptNames []string
	for i, out := range outs {
		if !needed[out] || i >= len(servers) {
			continue
		}
		keptOuts, keptServers = append(keptOuts, out), append(keptServers, servers[i])
		if i < len(names) {
			keptNames = append(keptNames, names[i])
		}
	}
	op.Outputs["Out"] = keptOuts
	op.SetAttr("epmap", keptServers)
	if names != nil {
		op.SetAttr("recv_varnames", keptNames)
	}
	return len(keptOuts) > 0
}
