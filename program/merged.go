package program

// What the ops that merge updates of Adam have for each parameter.
var (
	adamInputs  = []string{"Param", "Grad", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow", "LearningRate"}
	adamOutputs = []string{"ParamOut", "Moment1Out", "Moment2Out", "Beta1PowOut", "Beta2PowOut"}
)

// splitMerged writes an op that updates several parameters at once, such as merged_momentum, as one op of opType for each. inputs and outputs list the slots with a
// variable for each parameter, or one for all.
func splitMerged(opType string, inputs, outputs []string, keep ...string) func(*splitter) bool {
	return func(s *splitter) bool {
		params := s.op.Inputs["Param"]
		if len(params) == 0 {
			return false
		}
		at := func(names []string, i int) []string {
			switch {
			case len(names) == len(params):
				return names[i : i+1]
			case len(names) == 1:
				return names
			}
			s.failed = s.failed || len(names) > 0
			return nil
		}
		for i := range params {
			in, out := map[string][]string{}, slots{}
			for _, slot := range inputs {
				in[slot] = at(s.op.Inputs[slot], i)
			}
			for _, slot := range outputs {
				if names := at(s.op.Outputs[slot], i); len(names) == 1 && len(s.op.Outputs[slot]) == len(params) {
					out[slot] = names[0]
				}
			}
			s.add(opType, in, out, nil, keep...)
			op := s.made[len(s.made)-1]
			if method, ok := s.op.Strs("regularization_method"); ok && i < len(method) && method[i] != "" {
				return false
			}
			if vars, ok := op.Strs(AttrRoleVar); ok && len(vars) == 2*len(params) {
				op.SetAttr(AttrRoleVar, vars[2*i:2*i+2])
			}
		}
		return true
	}
}

// splitMaskedSoftmax writes softmax(X + Mask), the mask being the same for all heads.
func splitMaskedSoftmax(s *splitter) bool {
	sum := s.between("Out")
	s.pair("elementwise_add", s.in("X"), s.in("Mask"), sum, map[string]Attr{"axis": int32(-1)})
	s.unary("softmax", sum, s.out("Out"), map[string]Attr{"axis": int32(-1)})
	return true
}

// splitCausalSoftmax writes a softmax over the places up to that of each row: those behind it get -1e9, whose exponential is 0.
func splitCausalSoftmax(s *splitter) bool {
	low, mask, sum := s.between("Out"), s.between("Out"), s.between("Out")
	s.unary("fill_any_like", s.in("X"), low, map[string]Attr{"value": float32(-1e9), "dtype": int32(-1)})
	s.unary("tril_triu", low, mask, map[string]Attr{"diagonal": int32(1), "lower": false})
	s.pair("elementwise_add", s.in("X"), mask, sum, map[string]Attr{"axis": int32(-1)})
	s.unary("softmax", sum, s.out("Out"), map[string]Attr{"axis": int32(-1)})
	return true
}

// splitFCLayerNorm writes a product with a bias and an activation, a sum with Y, and its normalisation.
func splitFCLayerNorm(s *splitter) bool {
	axes, begin := int32(1), Attr(int32(1))
	if n, ok := s.op.Int("x_num_col_dims"); ok {
		axes = int32(n)
	}
	if given, ok := s.op.Attrs["begin_norm_axis"]; ok {
		begin = given
	}
	x := s.between("Out")
	s.pair("mul", s.in("X"), s.in("W"), x, map[string]Attr{"x_num_col_dims": axes, "y_num_col_dims": int32(1)})
	if s.has("Bias0") {
		sum := s.between("Out")
		s.pair("elementwise_add", x, s.in("Bias0"), sum, map[string]Attr{"axis": int32(-1)})
		x = sum
	}
	if activation, _ := s.op.Str("activation_type"); activation != "" {
		active := s.between("Out")
		s.unary(activation, x, active, nil)
		x = active
	}
	sum := s.between("Out")
	s.pair("elementwise_add", x, s.in("Y"), sum, nil)
	in := map[string][]string{"X": {sum}, "Scale": {s.op.In("Scale")}, "Bias": {s.op.In("Bias1")}}
	out := slots{"Y": s.out("Out")}
	for from, to := range map[string]string{"Mean": "Mean", "Variance": "Variance"} {
		if name := s.op.Out(from); name != "" && name != Empty {
			out[to] = name
		}
	}
	s.add("layer_norm", in, out, map[string]Attr{"begin_norm_axis": begin}, "epsilon")
	return true
}

// splitTransposeFlattenConcat writes several transposes, each flattened to a matrix, and their concatenation.
func splitTransposeFlattenConcat(s *splitter) bool {
	order, ok := s.op.Attrs["trans_axis"]
	axis, flatten := int32(1), int32(1)
	if n, is := s.op.Int("flatten_axis"); is {
		flatten = int32(n)
	}
	if n, is := s.op.Int("concat_axis"); is {
		axis = int32(n)
	}
	if !ok || len(s.op.Inputs["X"]) == 0 {
		return false
	}
	var all []string
	for _, x := range s.op.Inputs["X"] {
		turned, flat := s.between("Out"), s.between("Out")
		s.unary("transpose", x, turned, map[string]Attr{"axis": order})
		s.unary("flatten", turned, flat, map[string]Attr{"axis": flatten})
		all = append(all, flat)
	}
	s.add("concat", map[string][]string{"X": all}, slots{"Out": s.out("Out")}, map[string]Attr{"axis": axis})
	return true
}

// splitPoolConcat writes the pooling of several sequences, and its concatenation.
func splitPoolConcat(s *splitter) bool {
	if len(s.op.Inputs["X"]) == 0 {
		return false
	}
	var all []string
	for _, x := range s.op.Inputs["X"] {
		pooled := s.between("Out")
		s.add("sequence_pool", map[string][]string{"X": {x}}, slots{"Out": pooled}, nil, "pooltype")
		all = append(all, pooled)
	}
	s.add("concat", map[string][]string{"X": all}, slots{"Out": s.out("Out")}, map[string]Attr{"axis": int32(1)})
	return true
}

// splitExpandConcatFC writes fusion_seqexpand_concat_fc: rows for each sequence are repeated for its rows, stand beside them, and go through a product.
func splitExpandConcatFC(s *splitter) bool {
	x := s.op.Inputs["X"]
	if len(x) < 2 {
		return false
	}
	all := []string{x[0]}
	for _, name := range x[1:] {
		wide := s.between("Out")
		s.add("sequence_expand", map[string][]string{"X": {name}, "Y": {x[0]}}, slots{"Out": wide}, map[string]Attr{"ref_level": int32(0)})
		all = append(all, wide)
	}
	beside := s.between("Out")
	s.add("concat", map[string][]string{"X": all}, slots{"Out": beside}, map[string]Attr{"axis": int32(1)})
	activation, ok := s.op.Str("fc_activation")
	if !ok {
		activation = "identity"
	}
	before, finish := s.activate(activation, "Out")
	product := before
	if s.has("FCBias") {
		product = s.between("Out")
	}
	s.pair("mul", beside, s.in("FCWeight"), product, nil)
	if s.has("FCBias") {
		s.pair("elementwise_add", product, s.in("FCBias"), before, nil)
	}
	finish()
	return true
}
