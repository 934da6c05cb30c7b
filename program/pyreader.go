package program

import (
	"slices"
	"strings"
)

// feedReaders takes out readers whose data a caller pushes into a queue, as create_py_reader of Fluid does: what they read is fed from then on. Fluid makes such a reader in the
// startup program, and the buffer around it in the program that reads. So a reader that no op of a program makes is one, too.
func feedReaders(p *Program) {
	b := p.Global()
	pushed := map[string]bool{} // readers of queues
	makes := map[string]bool{}
	for _, op := range b.Ops {
		under := op.In("UnderlyingReader")
		switch {
		case op.Type == "create_py_reader" || strings.HasPrefix(op.Type, "create_") && strings.HasSuffix(op.Type, "_reader") && under != "" && !makes[under]:
			pushed[op.Out("Out")] = true
		default:
			for _, name := range op.OutputNames() {
				makes[name] = true
			}
		}
	}
	left, gone := slices.Clone(b.Ops)[:0], map[string]bool{}
	for _, op := range b.Ops {
		reader := op.In("Reader")
		switch {
		case pushed[op.Out("Out")] && strings.HasPrefix(op.Type, "create_"):
		case op.Type == "read" && (pushed[reader] || reader != "" && !makes[reader]):
			for _, name := range op.Outputs["Out"] {
				if v, ok := b.Var(name); ok {
					v.NeedCheckFeed, v.StopGradient = true, true
				}
			}
		default:
			left = append(left, op)
			continue
		}
		for _, name := range op.InputNames() {
			gone[name] = true
		}
		for _, name := range op.OutputNames() {
			gone[name] = gone[name] || pushed[name]
		}
	}
	if len(left) == len(b.Ops) {
		return
	}
	b.Ops = left
	uses := b.Uses()
	for name := range gone {
		if _, used := uses[name]; !used {
			b.RemoveVar(name)
		}
	}
}
