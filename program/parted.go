package program

import "slices"

// The functions of this file write forms of ops that EDL computes in parts. Unlike merged ops, these have a form that stays as it is: then a function returns false.

// splitNorm writes a normalisation of a batch, a sum with Z where there is one, and an activation, which an attribute names.
func splitNorm(activation string) func(*splitter) bool {
	return func(s *splitter) bool {
		function, _ := s.op.Str(activation)
		if sync, _ := s.op.Bool("use_sync_bn"); sync {
			return false
		}
		end := s.out("Y")
		attrs := map[string]Attr{}
		switch function {
		case "", "identity":
			function = ""
		case "leaky_relu", "elu":
			if alpha, ok := s.op.Attrs["alpha"]; ok {
				attrs["alpha"] = alpha
			}
		}
		sum, normal := end, end
		if function != "" {
			if sum, normal = s.between("Y"), ""; s.op.Type == abnOp {
				sum = s.before(end)
			}
		}
		if normal = sum; s.has("Z") {
			normal = s.between("Y")
		}
		outs := slots{"Y": normal}
		for _, slot := range []string{"MeanOut", "VarianceOut", "SavedMean", "SavedVariance", "ReserveSpace"} {
			if name := s.op.Out(slot); name != "" {
				outs[slot] = name
			}
		}
		in := map[string][]string{}
		for _, slot := range []string{"X", "Scale", "Bias", "Mean", "Variance"} {
			if in[slot] = s.op.Inputs[slot]; len(in[slot]) == 0 && (slot == "Mean" || slot == "Variance") {
				in[slot] = s.op.Outputs[slot+"Out"] // Fluid 1.7 gives some of these ops only the outputs
			}
		}
		s.add("batch_norm", in, outs, nil, "momentum", "epsilon", "is_test", "data_layout", "use_global_stats")
		if s.has("Z") {
			s.pair("elementwise_add", normal, s.in("Z"), sum, nil)
		}
		if function != "" {
			s.unary(function, sum, end, attrs)
		}
		return true
	}
}

// splitCast writes a reduction that has another type than its input with a cast before it.
func splitCast(s *splitter) bool {
	to, ok := s.op.Int("out_dtype")
	if !ok || to < 0 {
		return false
	}
	from, _ := s.op.Int("in_dtype")
	x := s.in("X")
	if v, ok := s.block.Find(x); ok && from < 0 {
		from = int64(v.DType)
	}
	if from != to {
		x = s.between("Out")
		s.unary("cast", s.in("X"), x, map[string]Attr{"in_dtype": int32(from), "out_dtype": int32(to)})
	}
	reduction := s.op.Clone()
	reduction.Inputs["X"] = []string{x}
	delete(reduction.Attrs, "in_dtype")
	delete(reduction.Attrs, "out_dtype")
	s.made = append(s.made, reduction)
	return true
}

// leaveCast takes the types from the gradient of a reduction without a cast.
func leaveCast(s *splitter) bool {
	from, _ := s.op.Int("in_dtype")
	to, ok := s.op.Int("out_dtype")
	if !ok || to != from && to >= 0 && from >= 0 {
		return false
	}
	delete(s.op.Attrs, "in_dtype")
	delete(s.op.Attrs, "out_dtype")
	s.made = []*Op{s.op}
	return true
}

// splitDecay writes momentum with a penalty of its own (L2Decay, since Paddle 2.0) as Fluid writes penalties: Grad + regularization_coeff*Param is the gradient of the
// update.
func splitDecay(s *splitter) bool {
	method, _ := s.op.Str("regularization_method")
	if method != "l2_decay" {
		return false
	}
	if v, ok := s.block.Find(s.op.In("Grad")); !ok || v.Kind != LoDTensor {
		return false
	}
	coefficient, ok := s.op.Attrs["regularization_coeff"]
	if !ok {
		return false
	}
	param, grad := s.in("Param"), s.in("Grad")
	term, sum := s.between("ParamOut"), s.between("ParamOut")
	s.unary("scale", param, term, map[string]Attr{"scale": coefficient})
	s.add("sum", map[string][]string{"X": {grad, term}}, slots{"Out": sum}, nil)
	update := s.op.Clone()
	update.Inputs["Grad"] = []string{sum}
	delete(update.Attrs, "regularization_method")
	delete(update.Attrs, "regularization_coeff")
	s.made = append(s.made, update)
	return true
}

// splitLossAxis writes a cross entropy whose classes are on an axis that is not the last, as those of the pixels of images, between transpositions. It takes the
// attribute from one whose classes are on the last axis.
func splitLossAxis(s *splitter) bool {
	axis, ok := s.op.Int("axis")
	backward := s.op.Type == "softmax_with_cross_entropy_grad"
	whole := "Logits"
	if backward {
		whole = "Softmax"
	}
	rank := int64(len(s.dims(whole)))
	if axis < 0 {
		axis += rank
	}
	if !ok || s.failed || axis < 0 || axis >= rank {
		return false
	}
	if axis == rank-1 {
		delete(s.op.Attrs, "axis")
		s.made = []*Op{s.op}
		return true
	}
	var there, back []int32
	for i := range int32(rank) {
		if i != int32(axis) {
			there = append(there, i)
		}
	}
	there = append(there, int32(axis))
	for i := range int32(rank) {
		back = append(back, int32(slices.Index(there, i)))
	}
	op := s.op.Clone()
	delete(op.Attrs, "axis")
	move := func(from, to string, axes []int32) {
		s.add("transpose", map[string][]string{"X": {from}}, slots{"Out": to}, map[string]Attr{"axis": axes})
	}
	for _, slot := range sortedKeys(op.Inputs) {
		names := op.Inputs[slot]
		for i, name := range names {
			if name != "" && name != Empty {
				names[i] = turned(s, name, there)
				move(name, names[i], there)
			}
		}
	}
	s.made = append(s.made, op)
	for _, slot := range sortedKeys(op.Outputs) {
		names := op.Outputs[slot]
		for i, name := range names {
			if name != "" && name != Empty {
				names[i] = turned(s, name, there)
				move(names[i], name, back)
			}
		}
	}
	return true
}

// turned makes a variable for another one with its axes in another order: its declaration has the extents in that order, too, because an extent that inference leaves open is as declared.
func turned(s *splitter, name string, order []int32) string {
	made := s.temporary(name)
	if v, ok := s.block.Find(made); ok && len(v.Dims) == len(order) {
		dims := slices.Clone(v.Dims)
		for i, axis := range order {
			v.Dims[i] = dims[axis]
		}
	}
	return made
}
