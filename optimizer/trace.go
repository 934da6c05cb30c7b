package optimizer

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// trace finds the forward ops that loss depends on, and the variables between wrt and loss that gradients pass through. It
// reports false after a mistake.
func (b *backward) trace(wrt []layers.Variable) bool {
	b.wanted = map[string]bool{}
	for _, v := range wrt {
		if v.Model() != b.model || !v.OK() {
			b.model.Report(fault.E(fault.InvalidArgument, fault.Var(v.Name()), fault.Got("a variable of another model"),
				fault.Want("variables of the model of the loss")))
			return false
		}
		b.wanted[v.Name()] = true
	}
	b.findPath()
	for _, op := range b.path {
		def, ok := ops.Lookup(op.Type)
		if !ok || def.Gradient == nil || !b.any(op.InputNames(), b.wanted) {
			continue
		}
		for _, name := range op.OutputNames() {
			v, ok := b.block.Var(name)
			if !ok || v.StopGradient || !v.DType.IsFloat() {
				continue
			}
			if b.wanted[name] {
				b.model.Report(fault.E(fault.InvalidProgram, fault.On(op), fault.Var(name),
					fault.Got("a second value for the variable"), fault.Want("one value, so that its gradient has one meaning"),
					fault.Hint("write the result to a new variable")))
				return false
			}
			b.wanted[name] = true
		}
	}
	if !b.wanted[b.loss] {
		b.model.Report(fault.E(fault.InvalidArgument, fault.Var(b.loss), fault.Got("a loss that depends on no trainable parameter"),
			fault.Want("at least one between the data and the loss")))
		return false
	}
	return true
}

// findPath collects the forward ops that contribute to loss, in program order.
func (b *backward) findPath() {
	needed := map[string]bool{b.loss: true}
	for _, op := range slices.Backward(b.block.Ops) {
		if !op.Role().Has(program.RoleForward) || !b.any(op.OutputNames(), needed) {
			continue
		}
		for _, name := range op.InputNames() {
			needed[name] = true
		}
		b.path = append(b.path, op)
	}
	slices.Reverse(b.path)
}
