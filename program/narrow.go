package program

import (
	"slices"

	"github.com/edl-go/edl/tensor"
)

// typeAttrs are attributes that name element types.
var typeAttrs = []string{"dtype", "in_dtype", "out_dtype"}

// widen gives variables of types of which kernels know nothing a type that holds all their values, and with them the attributes that name types. It leaves alone masks of
// dropout: nothing but its gradient reads them, and the declaration of a temporary variable is a hint.
// It is not for programs of roles: there 16 bits are what travels, and what a user's program had of them is wide already.
func widen(p *Program) {
	masks := map[string]bool{}
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			if op.Type == "dropout" {
				masks[op.Out("Mask")] = true
			}
			for _, attr := range typeAttrs {
				n, ok := op.Int(attr)
				if from := tensor.DType(n); ok && int64(from) == n && tensor.Wider(from) != from {
					op.SetAttr(attr, int32(tensor.Wider(from)))
				}
			}
		}
	}
	for _, b := range p.Blocks {
		for _, v := range b.Vars() {
			if slices.Contains([]VarKind{LoDTensor, SelectedRows, LoDTensorArray}, v.Kind) && !masks[v.Name] {
				v.DType = tensor.Wider(v.DType)
			}
		}
	}
}

// roleOps are ops that only programs of trainers and pservers have.
var roleOps = []string{"send", "recv", "listen_and_serv", "compress", "decompress"}

// ofRole reports whether a program, or the startup program that belongs to it, is that of a role of a job.
func ofRole(p *Program) bool {
	for _, b := range p.Blocks {
		if slices.ContainsFunc(b.Ops, func(op *Op) bool { return slices.Contains(roleOps, op.Type) }) {
			return true
		}
	}
	return p.Startup != nil && ofRole(p.Startup)
}
