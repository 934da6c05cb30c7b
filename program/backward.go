package program

import "slices"

// Fluid has an op for the gradients of these ops where other ops compute them here.

func splitStackGrad(s *splitter) bool {
	parts := slices.Clone(s.op.Outputs[gradOf("X")])
	for i, name := range parts {
		if name == Empty {
			parts[i] = s.temporary(s.op.In(gradOf("Y")))
		}
	}
	s.add("unstack", map[string][]string{"X": {s.in(gradOf("Y"))}}, nil, map[string]Attr{"num": int32(len(parts))}, "axis")
	s.made[0].Outputs["Y"] = parts
	return len(parts) > 0
}

func splitUnstackGrad(s *splitter) bool {
	parts := s.op.Inputs[gradOf("Y")]
	s.add("stack", map[string][]string{"X": parts}, slots{"Y": s.out(gradOf("X"))}, nil, "axis")
	return len(parts) > 0
}

func splitTriangleGrad(s *splitter) bool {
	s.add("tril_triu", map[string][]string{"X": {s.in(gradOf("Out"))}}, slots{"Out": s.out(gradOf("X"))}, nil, "diagonal", "lower")
	return true
}

// splitTopGrad writes the gradient of top_k, which keeps no k, as that of top_k_v2.
func splitTopGrad(s *splitter) bool {
	dims := s.dims("Indices")
	if len(dims) == 0 || dims[len(dims)-1] < 1 {
		return false
	}
	s.add("top_k_v2_grad", map[string][]string{"X": {s.in("X")}, "Indices": {s.in("Indices")}, gradOf("Out"): {s.in(gradOf("Out"))}}, slots{gradOf("X"): s.out(gradOf("X"))},
		map[string]Attr{"k": dims[len(dims)-1]})
	return true
}

// splitAddmmGrad writes the gradient of Beta*Input + Alpha*X*Y.
func splitAddmmGrad(s *splitter) bool {
	alpha, beta := Attr(float32(1)), Attr(float32(1))
	if given, ok := s.op.Attrs["Alpha"]; ok {
		alpha = given
	}
	if given, ok := s.op.Attrs["Beta"]; ok {
		beta = given
	}
	wants := func(slot string) bool { return s.op.Out(gradOf(slot)) != "" && s.op.Out(gradOf(slot)) != Empty }
	end := s.in(gradOf("Out"))
	if wants("Input") {
		s.unary("scale", end, s.out(gradOf("Input")), map[string]Attr{"scale": beta})
	}
	if wants("X") {
		s.pair("matmul", end, s.in("Y"), s.out(gradOf("X")), map[string]Attr{"transpose_Y": true, "alpha": alpha})
	}
	if wants("Y") {
		s.pair("matmul", s.in("X"), end, s.out(gradOf("Y")), map[string]Attr{"transpose_X": true, "alpha": alpha})
	}
	return true
}

// splitStraightGrad writes the gradient of an op that rounds: what arrives passes.
func splitStraightGrad(s *splitter) bool {
	s.unary("assign", s.in(gradOf("Out")), s.out(gradOf("X")), nil)
	return true
}
