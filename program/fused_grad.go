package program

import (
	"slices"
	"strings"
)

// The functions of this file write gradients of merged ops as the gradients of their parts.

// gradOf returns the name of the gradient of a slot.
func gradOf(slot string) string { return slot + GradSuffix }

// wanted returns the variable of an output slot, "" if nobody wants it.
func (s *splitter) wanted(slot string) string {
	if name := s.op.Out(slot); name != Empty {
		return name
	}
	return ""
}

// results lists the variables of output slots that somebody wants.
func (s *splitter) results(names ...string) slots {
	out := slots{}
	for _, slot := range names {
		if name := s.wanted(slot); name != "" {
			out[slot] = name
		}
	}
	return out
}

// splitElementwiseGrad computes what is between the two functions again, whether the forward op has saved it or not.
func splitElementwiseGrad(s *splitter) bool {
	functions, _ := s.op.Strs("functor_list")
	if len(functions) != 2 {
		return false
	}
	first, ok := strings.CutSuffix(functions[0], "_grad")
	second, alsoOK := strings.CutSuffix(functions[1], "_grad")
	isPair := strings.HasPrefix(first, "elementwise_")
	if !ok || !alsoOK || isPair == strings.HasPrefix(second, "elementwise_") {
		return false
	}
	grad := s.in(gradOf("Out"))
	if isPair { // first(X, second(Y))
		middle, inner, between := s.temporary(s.op.In("Y")), s.wanted(gradOf("Y")), ""
		if inner != "" {
			between = s.temporary(s.op.In("Y"))
		}
		s.unary(second, s.in("Y"), middle, s.functionAttrs(second))
		s.pairGrad(first, middle, grad, s.wanted(gradOf("X")), between)
		if inner != "" {
			s.unaryGrad(second, middle, between, inner)
		}
		return true
	}
	between := s.temporary(s.op.In("Out"))
	s.unaryGrad(first, s.in("Out"), grad, between)
	s.pairGrad(second, s.in("Y"), between, s.wanted(gradOf("X")), s.wanted(gradOf("Y")))
	return true
}

// functionAttrs returns the attributes of a part that computes one of the two functions.
func (s *splitter) functionAttrs(function string) map[string]Attr {
	all := map[string]Attr{}
	if axis, ok := s.op.Attrs["axis"]; ok && strings.HasPrefix(function, "elementwise_") {
		all["axis"] = axis
	}
	if scale, ok := s.op.Attrs["scale"]; ok && function == "scale" {
		all["scale"] = scale
	}
	return all
}

// pairGrad appends the gradient of a function of X and y. A result that is "" is not wanted.
func (s *splitter) pairGrad(function, y, grad, dx, dy string) {
	out := slots{}
	if dx != "" {
		out[gradOf("X")] = dx
	}
	if dy != "" {
		out[gradOf("Y")] = dy
	}
	in := map[string][]string{"Y": {y}, gradOf("Out"): {grad}}
	if function != "elementwise_add" || s.has("X") { // a sum needs no X, and Fluid may leave it out
		in["X"] = []string{s.in("X")}
	}
	s.add(function+"_grad", in, out, s.functionAttrs(function))
}

// unaryGrad appends the gradient of a function of one variable that follows from its result, or of scale.
func (s *splitter) unaryGrad(function, result, grad, to string) {
	if function == "scale" {
		s.unary("scale", grad, to, s.functionAttrs("scale"))
		return
	}
	s.add(function+"_grad", map[string][]string{"Out": {result}, gradOf("Out"): {grad}}, slots{gradOf("X"): to}, nil)
}

// splitNormGrad writes the gradient of a normalisation with a sum and relu behind it. Other activations need what is in front of them.
func splitNormGrad(s *splitter) bool {
	if function, _ := s.op.Str("act_type"); function != "relu" {
		return false
	}
	grad := s.wanted(gradOf("Z"))
	if grad == "" {
		grad = s.temporary(s.op.In("Y"))
	}
	s.unaryGrad("relu", s.in("Y"), s.in(gradOf("Y")), grad)
	in := map[string][]string{gradOf("Y"): {grad}}
	for _, slot := range []string{"X", "Scale", "SavedMean", "SavedVariance"} {
		in[slot] = []string{s.in(slot)}
	}
	s.add("batch_norm_grad", in, s.results(gradOf("X"), gradOf("Scale"), gradOf("Bias")), nil, "momentum", "epsilon", "data_layout", "use_global_stats")
	return true
}

// abnOp is a normalisation with an activation behind it, whose gradient in Paddle reads only the end of both.
const abnOp = "inplace_abn"

// before makes the variable of what is in front of the activation of an abnOp that ends in end, so that its gradient finds it by its name.
func (s *splitter) before(end string) string {
	name := end + "@BEFORE"
	if _, taken := s.block.Find(name); taken {
		s.failed = true
		return ""
	}
	v := Var{Kind: LoDTensor}
	if like, ok := s.block.Find(end); ok {
		v = like.Copy("")
	}
	v.Name, v.Persistable, v.IsParameter, v.NeedCheckFeed = name, false, false, false
	s.block.EnsureVar(v)
	return name
}

// splitABNGrad writes the gradient of an abnOp with what its parts have left, where Paddle computes it back from the end.
func splitABNGrad(s *splitter) bool {
	at := slices.IndexFunc(s.block.Ops, func(op *Op) bool {
		return op.Type == abnOp && op.Out("SavedMean") != "" && op.Out("SavedMean") == s.op.In("SavedMean")
	})
	if at < 0 {
		return false
	}
	forward := s.block.Ops[at]
	if sync, _ := s.op.Bool("use_sync_bn"); sync || forward.In("X") == forward.Out("Y") {
		return false
	}
	grad := s.in(gradOf("Y"))
	if function, _ := s.op.Str("activation"); function != "" && function != "identity" {
		name := forward.Out("Y") + "@BEFORE"
		if _, ok := s.block.Var(name); !ok {
			return false
		}
		attrs := map[string]Attr{}
		if alpha, ok := s.op.Attrs["alpha"]; ok && (function == "leaky_relu" || function == "elu") {
			attrs["alpha"] = alpha
		}
		between := s.temporary(s.op.In("Y"))
		s.add(function+"_grad", map[string][]string{"X": {name}, gradOf("Out"): {grad}}, slots{gradOf("X"): between}, attrs)
		grad = between
	}
	in := map[string][]string{"X": {forward.In("X")}, gradOf("Y"): {grad}}
	for _, slot := range []string{"Scale", "SavedMean", "SavedVariance"} {
		in[slot] = []string{s.in(slot)}
	}
	s.add("batch_norm_grad", in, s.results(gradOf("X"), gradOf("Scale"), gradOf("Bias")), nil, "momentum", "epsilon", "data_layout", "use_global_stats")
	return true
}
