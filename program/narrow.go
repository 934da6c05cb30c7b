package program

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// moving are ops that give elements other places and do nothing else.
var moving = []string{"reshape", "reshape2", "transpose", "transpose2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2", "flatten", "flatten2", "flatten_contiguous_range", "assign"}

// widenFeeds gives fed variables of int8, uint8 and int16, of which kernels know nothing, the type int32, which holds all their values, where nothing but casts computes with them. So do
// programs that are fed with the bytes of images.
func widenFeeds(p *Program) {
	narrow := func(v *Var) bool {
		return v.Kind == LoDTensor && !v.Persistable && (v.DType == tensor.UInt8 || v.DType == tensor.Int8 || v.DType == tensor.Int16)
	}
	if !slices.ContainsFunc(p.Global().Vars(), narrow) {
		return
	}
	readers, written := map[string][]*Op{}, map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if op.Type == "feed" {
				continue
			}
			for _, name := range op.InputNames() {
				readers[name] = append(readers[name], op)
			}
			for _, name := range op.OutputNames() {
				written[name] = true
			}
		}
	}
	for _, v := range p.Global().Vars() {
		if !narrow(v) || written[v.Name] {
			continue
		}
		casts, seen, onlyCast := []*Op{}, map[string]bool{v.Name: true}, true
		for next := []string{v.Name}; len(next) > 0 && onlyCast; next = next[1:] {
			for _, op := range readers[next[0]] {
				switch {
				case op.Type == "cast":
					casts = append(casts, op)
				case slices.Contains(moving, op.Type) && op.In("X") == next[0]:
					if out := op.Out("Out"); !seen[out] {
						seen[out], next = true, append(next, out)
					}
				default:
					onlyCast = false
				}
			}
		}
		if !onlyCast || len(casts) == 0 {
			continue
		}
		for _, op := range casts {
			op.SetAttr("in_dtype", int32(tensor.Int32))
		}
		for name := range seen {
			if of, ok := p.Global().Var(name); ok {
				of.DType = tensor.Int32
			}
		}
	}
}
