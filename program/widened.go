package program

import (
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/tensor"
)

// splitConvOf writes a convolution to which passes for oneDNN have added a bias, a sum with ResidualData, and an activation. It takes the attributes of such passes from one
// to which they have added nothing else.
func splitConvOf(opType string) func(*splitter) bool {
	return func(s *splitter) bool {
		activation, _ := s.op.Str("fuse_activation")
		if relu, _ := s.op.Bool("fuse_relu"); relu && activation == "" {
			activation = "relu"
		}
		if brelu, _ := s.op.Bool("fuse_brelu"); brelu && activation == "" {
			activation = "relu6"
		}
		residual := s.has("ResidualData")
		if activation == "" && !residual && s.op.Type == opType {
			return false
		}
		end := s.out("Output")
		image, sum := end, end
		if activation != "" {
			sum = s.between("Output")
		}
		if image = sum; residual {
			image = s.between("Output")
		}
		conv := s.op.Clone()
		conv.Type = opType
		delete(conv.Inputs, "ResidualData")
		conv.Outputs = map[string][]string{"Output": {image}}
		attrs := fusedAttrs(conv, activation)
		for _, name := range []string{"fuse_activation", "fuse_relu", "fuse_brelu", "fuse_brelu_threshold", "fuse_alpha", "fuse_beta", "fuse_residual_connection"} {
			delete(conv.Attrs, name)
		}
		s.made = append(s.made, conv)
		if residual {
			s.pair("elementwise_add", image, s.in("ResidualData"), sum, nil)
		}
		if activation != "" {
			s.unary(strings.TrimSuffix(strings.TrimSuffix(activation, "_erf"), "_tanh"), sum, end, attrs)
		}
		return attrs != nil
	}
}

// fusedAttrs returns the attributes of an activation whose numbers are fuse_alpha and fuse_beta of the op that it was merged into, nil for one that is not known.
func fusedAttrs(op *Op, activation string) map[string]Attr {
	alpha, hasAlpha := op.Float("fuse_alpha")
	beta, _ := op.Float("fuse_beta")
	attrs := map[string]Attr{}
	switch activation {
	case "", "relu", "sigmoid", "tanh", "abs", "sqrt", "mish", "hard_swish":
	case "relu6":
		if limit, ok := op.Float("fuse_brelu_threshold"); ok {
			alpha, hasAlpha = limit, true
		}
		if hasAlpha && alpha != 0 {
			attrs["threshold"] = float32(alpha)
		}
	case "leaky_relu", "elu":
		if hasAlpha {
			attrs["alpha"] = float32(alpha)
		}
	case "swish":
		if hasAlpha {
			attrs["beta"] = float32(alpha)
		}
	case "hard_sigmoid":
		if hasAlpha {
			attrs["slope"], attrs["offset"] = float32(alpha), float32(beta)
		}
	case "gelu", "gelu_erf", "gelu_tanh":
		attrs["approximate"] = activation == "gelu_tanh"
	default:
		return nil
	}
	return attrs
}

// splitGemm writes a product of matrices with a bias and an activation.
func splitGemm(s *splitter) bool {
	activation, _ := s.op.Str("activation")
	if activation == "none" {
		activation = ""
	}
	if reserve := s.op.Out("ReserveSpace"); activation != "" && activation != "relu" && activation != "gelu" || reserve != "" && reserve != Empty {
		return false
	}
	before, finish := s.activate(activation, "Out")
	if activation == "gelu" {
		finish = func() { s.unary(activation, before, s.out("Out"), map[string]Attr{"approximate": true}) } // as the library for GPUs computes it
	}
	product := s.between("Out")
	s.add("matmul_v2", map[string][]string{"X": {s.in("X")}, "Y": {s.in("Y")}}, slots{"Out": product}, nil, "trans_x", "trans_y")
	s.pair("elementwise_add", product, s.in("Bias"), before, map[string]Attr{"axis": int32(-1)})
	finish()
	return true
}

// splitNormRelu writes a normalisation into which a pass for oneDNN has merged a relu.
func splitNormRelu(s *splitter) bool {
	if relu, _ := s.op.Bool("fuse_with_relu"); !relu {
		return false
	}
	norm, end := s.op.Clone(), s.out("Y")
	between := s.between("Y")
	norm.Outputs["Y"] = []string{between}
	delete(norm.Attrs, "fuse_with_relu")
	s.made = append(s.made, norm)
	s.unary("relu", between, end, nil)
	return true
}

// splitIDs writes a lookup of ids that are int32, as Paddle 2 allows, with a cast before it.
func splitIDs(s *splitter) bool {
	v, ok := s.block.Find(s.op.In("Ids"))
	if !ok || v.DType != tensor.Int32 {
		return false
	}
	lookup := s.op.Clone()
	lookup.Inputs["Ids"] = []string{s.cast(v, tensor.Int64)}
	s.made = append(s.made, lookup)
	return true
}

// splitTruth writes an op of truth values on numbers, each of which is true unless it is 0, with casts before it.
func splitTruth(s *splitter) bool {
	logical := s.op.Clone()
	for _, slot := range []string{"X", "Y"} {
		v, ok := s.block.Find(s.op.In(slot))
		if ok && v.Kind == LoDTensor && v.DType != tensor.Bool && slices.Contains([]tensor.DType{tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64}, v.DType) && len(v.Dims) > 0 {
			logical.Inputs[slot] = []string{s.cast(v, tensor.Bool)}
		}
	}
	if len(s.made) == 0 {
		return false
	}
	s.made = append(s.made, logical)
	return true
}

// cast appends a cast of a variable, and returns the variable that it writes.
func (s *splitter) cast(v *Var, to tensor.DType) string {
	name := s.temporary(v.Name)
	if made, own := s.block.Var(name); own {
		made.DType, made.Kind = to, LoDTensor
	}
	s.unary("cast", v.Name, name, map[string]Attr{"in_dtype": int32(v.DType), "out_dtype": int32(to)})
	return name
}

// splitDropout writes the dropout of elements that Paddle 2.4 has added for axes, which drops parts of X, if there are none.
func splitDropout(s *splitter) bool {
	if axes, _ := s.op.Ints("axis"); len(axes) > 0 {
		if test, _ := s.op.Bool("is_test"); !test {
			return false
		}
	}
	dropout := s.op.Clone()
	dropout.Type, dropout.Attrs = "dropout", maps.Clone(s.op.Attrs)
	delete(dropout.Attrs, "axis")
	s.made = append(s.made, dropout)
	return true
}

// splitPoolClicks writes a concatenation of pooled sequences that begin with shows and clicks.
func splitPoolClicks(s *splitter) bool {
	kind, ok := s.op.Str("pooltype")
	if !ok {
		kind = "SUM"
	}
	var parts []string
	for _, x := range s.op.Inputs["X"] {
		pooled, part := s.between("Out"), s.between("Out")
		s.add("sequence_pool", map[string][]string{"X": {x}}, slots{"Out": pooled}, map[string]Attr{"pooltype": kind})
		s.add("cvm", map[string][]string{"X": {pooled}, "CVM": {s.in("CVM")}}, slots{"Y": part}, nil, "use_cvm")
		parts = append(parts, part)
	}
	s.add("concat", map[string][]string{"X": parts}, slots{"Out": s.out("Out")}, nil, "axis")
	return len(parts) > 0
}

// splitProducts writes a product of several matrices from the first to the last. Paddle multiplies them in the order of the fewest operations, which rounds otherwise.
func splitProducts(s *splitter) bool {
	all := s.op.Inputs["X"]
	if len(all) < 2 {
		return false
	}
	product := all[0]
	for i, x := range all[1:] {
		to := s.out("Out")
		if i < len(all)-2 {
			to = s.between("Out")
		}
		s.pair("matmul_v2", product, x, to, nil)
		product = to
	}
	return true
}

// splitChannelsLast writes a prelu whose channels are the last axis between transpositions.
func splitChannelsLast(s *splitter) bool {
	format, _ := s.op.Str("data_format")
	if !strings.HasSuffix(format, "C") || !strings.HasPrefix(format, "N") {
		return false
	}
	rank := int32(len(s.dims("X")))
	if mode, _ := s.op.Str("mode"); mode != "channel" || rank < 3 {
		delete(s.op.Attrs, "data_format") // which then has no effect
		s.made = []*Op{s.op}
		return true
	}
	there, back := []int32{0, rank - 1}, []int32{0}
	for i := range rank - 2 {
		there, back = append(there, i+1), append(back, i+2)
	}
	back = append(back, 1)
	op := s.op.Clone()
	delete(op.Attrs, "data_format")
	for _, slot := range []string{"X", GradName("Out")} {
		if name := op.In(slot); name != "" {
			op.Inputs[slot] = []string{s.temporary(name)}
			s.unary("transpose", name, op.In(slot), map[string]Attr{"axis": there})
		}
	}
	s.made = append(s.made, op)
	for _, slot := range []string{"Out", GradName("X")} {
		if name := op.Out(slot); name != "" && name != Empty {
			op.Outputs[slot] = []string{s.temporary(name)}
			s.unary("transpose", op.Out(slot), name, map[string]Attr{"axis": back})
		}
	}
	return true
}
