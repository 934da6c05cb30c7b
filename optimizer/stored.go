package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// isStored reports whether a parameter is a table that is stored as bfloat16 (layers.StoreBFloat16). Its gradient and what an optimizer keeps for it are float32.
func isStored(param layers.Variable) bool { return param.DType() == tensor.BFloat16 }

// computedAs is the type in which the update of a parameter computes.
func computedAs(param layers.Variable) tensor.DType {
	if isStored(param) {
		return tensor.Float32
	}
	return param.DType()
}

// refuseStored reports a table that is stored as bfloat16, where something computes with parameters themselves.
func refuseStored(p Pair, what string) bool {
	if p.Param.Model() == nil || !isStored(p.Param) {
		return false
	}
	p.Param.Model().Report(fault.E(fault.Unsupported, fault.At(what), fault.Var(p.Param.Name()), fault.Got("a table that is stored as bfloat16"),
		fault.Want("parameters of float32 or float64"), fault.Hint("drop layers.StoreBFloat16, or give "+what+" the other parameters"),
		fault.Line(program.CallerLine("github.com/edl-go/edl/optimizer"))))
	return true
}
