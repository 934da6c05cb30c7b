package program

// The functions of this file write small merged ops of language models and of clicks as the ops that they are made of, and their gradients.

// splitSoftmaxGrad writes the gradient of a softmax with a mask, which reads the result.
func splitSoftmaxGrad(s *splitter) bool {
	s.add("softmax_grad", map[string][]string{"Out": {s.in("Softmax")}, gradOf("Out"): {s.in(gradOf("Out"))}}, s.results(gradOf("X")), map[string]Attr{"axis": int32(-1)})
	return true
}

// splitGate writes silu(x)*y. Without y, x has both beside each other on its last axis.
func splitGate(s *splitter) bool {
	gate := s.temporary(s.out("out"))
	if s.has("y") {
		s.unary("silu", s.in("x"), gate, nil)
		s.pair("elementwise_mul", gate, s.in("y"), s.out("out"), map[string]Attr{"axis": int32(-1)})
		return true
	}
	left, right := s.temporary(s.out("out")), s.temporary(s.out("out"))
	halves(s, s.in("x"), left, right)
	s.unary("silu", left, gate, nil)
	s.pair("elementwise_mul", gate, right, s.out("out"), map[string]Attr{"axis": int32(-1)})
	return true
}

// halves appends the parts of x on its last axis.
func halves(s *splitter, x, left, right string) {
	s.add("split", map[string][]string{"X": {x}}, nil, map[string]Attr{"num": int32(2), "axis": int32(-1)})
	s.made[len(s.made)-1].Outputs["Out"] = []string{left, right}
}

// splitGateGrad computes silu(x) again.
func splitGateGrad(s *splitter) bool {
	x, y, dx, dy := s.in("x"), s.op.In("y"), s.wanted(gradOf("x")), s.wanted(gradOf("y"))
	together := !s.has("y")
	if together {
		left, right := s.temporary(x), s.temporary(x)
		halves(s, x, left, right)
		x, y, dx, dy = left, right, s.temporary(x), s.temporary(x)
	}
	gate, dgate := s.temporary(x), s.temporary(x)
	s.unary("silu", x, gate, nil)
	out := slots{gradOf("X"): dgate}
	if dy != "" {
		out[gradOf("Y")] = dy
	}
	s.add("elementwise_mul_grad", map[string][]string{"X": {gate}, "Y": {y}, gradOf("Out"): {s.in(gradOf("out"))}}, out, map[string]Attr{"axis": int32(-1)})
	if dx != "" {
		s.add("silu_grad", map[string][]string{"X": {x}, gradOf("Out"): {dgate}}, slots{gradOf("X"): dx}, nil)
	}
	if together {
		s.add("concat", map[string][]string{"X": {dx, dy}}, slots{"Out": s.out(gradOf("x"))}, map[string]Attr{"axis": int32(-1)})
	}
	return true
}

// splitRootMean writes a normalisation by the root of the mean of squares, in inference: of x + residual + bias, which residual_out takes.
func splitRootMean(op *splitter) bool {
	s := transformer{op}
	x, out, begin := s.in("x"), s.out("out"), int64(1)
	if n, ok := s.op.Int("begin_norm_axis"); ok {
		begin = n
	}
	rank := int64(len(s.dims("x")))
	if begin < 0 {
		begin += rank
	}
	if begin < 1 || begin >= rank || s.number("quant_scale", -1) > 0 {
		return false
	}
	var axes []int32
	for axis := begin; axis < rank; axis++ {
		axes = append(axes, int32(axis))
	}
	x = s.sum(s.sum(x, s.op.In("residual"), x), s.op.In("bias"), x)
	if kept := s.wanted("residual_out"); kept != "" && kept != s.op.In("x") {
		s.unary("assign", x, kept, nil)
	}
	square, mean, shifted, root, normal := s.temporary(x), s.temporary(x), s.temporary(x), s.temporary(x), s.temporary(x)
	s.unary("square", x, square, nil)
	s.unary("reduce_mean", square, mean, map[string]Attr{"dim": axes, "keep_dim": true})
	s.unary("scale", mean, shifted, map[string]Attr{"scale": float32(1), "bias": s.number("epsilon", 1e-5), "bias_after_scale": true})
	s.unary("rsqrt", shifted, root, nil)
	s.pair("elementwise_mul", x, root, normal, map[string]Attr{"axis": int32(-1)})
	scaled := s.end(!s.has("norm_bias"), out)
	s.pair("elementwise_mul", normal, s.in("norm_weight"), scaled, map[string]Attr{"axis": int32(-1)})
	if s.has("norm_bias") {
		s.pair("elementwise_add", scaled, s.in("norm_bias"), out, map[string]Attr{"axis": int32(-1)})
	}
	return true
}

// splitPools writes sums of sequences whose first two columns are clicks, one for each variable.
func splitPools(s *splitter) bool {
	outs := s.op.Outputs["Out"]
	if !poolsClicks(s) || len(outs) == 0 || len(outs) != len(s.op.Inputs["X"]) {
		return false
	}
	for i, x := range s.op.Inputs["X"] {
		pooled := s.temporary(outs[i])
		s.add("sequence_pool", map[string][]string{"X": {x}}, slots{"Out": pooled}, map[string]Attr{"pooltype": "SUM"})
		s.add("cvm", map[string][]string{"X": {pooled}, "CVM": {s.in("CVM")}}, slots{"Y": outs[i]}, nil, "use_cvm")
	}
	return true
}

// poolsClicks reports whether an op sums sequences as sequence_pool and cvm do.
func poolsClicks(s *splitter) bool {
	kind, given := s.op.Str("pooltype")
	pad, _ := s.op.Float("pad_value")
	columns, ofColumns := s.op.Int("cvm_offset")
	filter, _ := s.op.Bool("need_filter")
	return (!given || kind == "SUM") && pad == 0 && (!ofColumns || columns == 2) && !filter
}

// splitPoolsGrad writes the gradients of the sums.
func splitPoolsGrad(s *splitter) bool {
	xs, grads, to := s.op.Inputs["X"], s.op.Inputs[gradOf("Out")], s.op.Outputs[gradOf("X")]
	if !poolsClicks(s) || len(xs) == 0 || len(grads) != len(xs) || len(to) != len(xs) {
		return false
	}
	for i, x := range xs {
		if to[i] == Empty {
			continue
		}
		pooled, between := s.temporary(x), s.temporary(x)
		s.add("sequence_pool", map[string][]string{"X": {x}}, slots{"Out": pooled}, map[string]Attr{"pooltype": "SUM"})
		s.add("cvm_grad", map[string][]string{"X": {pooled}, "CVM": {s.in("CVM")}, gradOf("Y"): {grads[i]}}, slots{gradOf("X"): between}, nil, "use_cvm")
		s.add("sequence_pool_grad", map[string][]string{"X": {x}, gradOf("Out"): {between}}, slots{gradOf("X"): to[i]}, map[string]Attr{"pooltype": "SUM"})
	}
	return true
}

// splitGemmGrad writes the gradient of a product of matrices with a bias and without an activation.
func splitGemmGrad(s *splitter) bool {
	x, activation := s.dims("X"), ""
	if name, ok := s.op.Str("activation_grad"); ok && name != "none" {
		activation = name
	}
	turned, _ := s.op.Bool("trans_x")
	if activation != "" || s.has("ReserveSpace") || len(x) < 2 || turned && len(x) > 2 {
		return false
	}
	out, grad := slots{}, s.in("DOut")
	for from, to := range (slots{"DX": "X", "DY": "Y"}) {
		if name := s.wanted(from); name != "" {
			out[gradOf(to)] = name
		}
	}
	if len(out) > 0 {
		s.add("matmul_v2_grad", map[string][]string{"X": {s.in("X")}, "Y": {s.in("Y")}, gradOf("Out"): {grad}}, out, nil, "trans_x", "trans_y")
	}
	if bias := s.wanted("DBias"); bias != "" {
		axes := make([]int32, len(x)-1)
		for i := range axes {
			axes[i] = int32(i)
		}
		s.unary("reduce_sum", grad, bias, map[string]Attr{"dim": axes})
	}
	return len(s.made) > 0
}
