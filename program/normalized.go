package program

import "github.com/edl-go/edl/tensor"

// splitNormalizedCost writes a sigmoid_cross_entropy_with_logits that divides by the number of labels that count, at least 1e-5, as costs and their quotient.
func splitNormalizedCost(s *splitter) bool {
	if on, _ := s.op.Bool("normalize"); !on {
		return false
	}
	cost := s.between("Out")
	s.add(s.op.Type, map[string][]string{"X": {s.in("X")}, "Label": {s.in("Label")}}, slots{"Out": cost}, nil, "ignore_index")
	s.pair("elementwise_div", cost, counted(s), s.out("Out"), nil)
	return true
}

// splitNormalizedCostGrad does so for its gradient: what arrives is divided.
func splitNormalizedCostGrad(s *splitter) bool {
	if on, _ := s.op.Bool("normalize"); !on {
		return false
	}
	divided := s.temporary(s.op.In("X"))
	s.pair("elementwise_div", s.in(gradOf("Out")), counted(s), divided, nil)
	s.add(s.op.Type, map[string][]string{"X": {s.in("X")}, "Label": {s.in("Label")}, gradOf("Out"): {divided}}, slots{gradOf("X"): s.out(gradOf("X"))}, nil, "ignore_index")
	return true
}

// A labelCount says what a variable with a number of labels counts, and of which type it is.
type labelCount struct {
	label   string
	ignored float32
	dtype   int32
}

// counted returns the number of labels that are not ignore_index, at least 1e-5. The gradient of a cost reads that of the cost: on a cluster trainers may share it in between.
func counted(s *splitter) string {
	ignored, dtype := float32(-100), int32(tensor.Float32)
	if n, ok := s.op.Int("ignore_index"); ok {
		ignored = float32(n)
	}
	if v, ok := s.block.Find(s.op.In("X")); ok {
		dtype = int32(v.DType)
	}
	key := labelCount{s.in("Label"), ignored, dtype}
	if total, ok := s.counts[key]; ok && len(s.block.Uses()[key.label].Writers) <= 1 {
		return total
	}
	marks, counts, ones, sum, least, total := s.temporary(s.op.In("Label")), s.temporary(s.op.In("Label")), s.temporary(s.op.In("X")), s.temporary(s.op.In("X")), s.temporary(s.op.In("X")), s.temporary(s.op.In("X"))
	s.unary("fill_any_like", s.in("Label"), marks, map[string]Attr{"value": ignored, "dtype": int32(-1)})
	s.pair("not_equal", s.in("Label"), marks, counts, map[string]Attr{"axis": int32(-1)})
	s.unary("cast", counts, ones, map[string]Attr{"in_dtype": int32(tensor.Bool), "out_dtype": dtype})
	s.unary("reduce_sum", ones, sum, map[string]Attr{"dim": []int32{0}, "keep_dim": false, "reduce_all": true})
	s.add("fill_constant", nil, slots{"Out": least}, map[string]Attr{"shape": []int64{1}, "value": float32(1e-5), "dtype": dtype})
	s.pair("elementwise_max", sum, least, total, map[string]Attr{"axis": int32(-1)})
	s.counts[key] = total
	return total
}
