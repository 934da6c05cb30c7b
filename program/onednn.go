package program

import (
	"slices"
	"strings"
)

// oneDNNAttrs are what passes for oneDNN put on the ops that they merge others into. Numbers of quantization stay, so that the ops refuse them.
var oneDNNAttrs = []string{"fuse_activation", "fuse_alpha", "fuse_beta", "fuse_activation_type", "fuse_activation_alpha", "fuse_activation_beta", "fuse_activation_scale", "fuse_residual_connection",
	"fused_reshape_X", "fused_transpose_X", "fused_reshape_Y", "fused_transpose_Y", "fused_reshape_Out", "fused_transpose_Out",
	"fused_squeeze2_axes", "fused_unsqueeze2_axes", "fused_reshape2_shape", "matmul_alpha", "fused_output_scale"}

// splitOneDNN writes an op of opType into which passes for oneDNN have merged others: other dims and another order of axes of X and Y before it, and a sum with ResidualData,
// an activation, a factor, another order and other dims of the result after it.
func splitOneDNN(opType string) func(*splitter) bool {
	return func(s *splitter) bool {
		main := s.op.Clone()
		main.Type = opType
		list := func(name string) []int32 {
			values, _ := main.Ints(name)
			var short []int32
			for _, v := range values {
				short = append(short, int32(v))
			}
			return short
		}
		number := func(name string) float64 {
			if x, ok := main.Float(name); ok {
				return x
			}
			return 1
		}
		activation, _ := main.Str("fuse_activation")
		if kind, _ := main.Str("fuse_activation_type"); activation == "" && kind != "" {
			activation = kind
			for _, name := range []string{"alpha", "beta"} {
				if value, ok := main.Attrs["fuse_activation_"+name]; ok {
					main.Attrs["fuse_"+name] = value
				}
			}
			if number("fuse_activation_scale") != 1 {
				return false
			}
		}
		attrs := fusedAttrs(main, activation)
		if attrs == nil {
			return false
		}
		residual := s.has("ResidualData")
		var after []func(from, to string) // what becomes of the result, in order
		if alpha := number("matmul_alpha"); alpha != 1 {
			after = append(after, func(from, to string) { s.unary("scale", from, to, map[string]Attr{"scale": float32(alpha)}) })
		}
		if residual {
			after = append(after, func(from, to string) { s.pair("elementwise_add", from, s.in("ResidualData"), to, nil) })
		}
		if activation != "" {
			after = append(after, func(from, to string) {
				s.unary(strings.TrimSuffix(strings.TrimSuffix(activation, "_erf"), "_tanh"), from, to, attrs)
			})
		}
		if scale := number("fused_output_scale"); scale != 1 {
			after = append(after, func(from, to string) { s.unary("scale", from, to, map[string]Attr{"scale": float32(scale)}) })
		}
		form := func(opType, attr string, values []int32) {
			if len(values) > 0 {
				after = append(after, func(from, to string) { s.unary(opType, from, to, map[string]Attr{attr: values}) })
			}
		}
		if residual && len(list("fused_transpose_Out")) > 0 {
			return false
		}
		form("transpose", "axis", list("fused_transpose_Out"))
		form("reshape", "shape", list("fused_reshape_Out"))
		form("unsqueeze", "axes", list("fused_unsqueeze2_axes"))
		form("reshape", "shape", list("fused_reshape2_shape"))

		for _, slot := range []string{"X", "Y"} {
			x := main.In(slot)
			change := func(opType, attr string, values []int32) {
				if len(values) > 0 {
					to := s.temporary(x)
					s.unary(opType, x, to, map[string]Attr{attr: values})
					x = to
				}
			}
			if slot == "X" {
				change("squeeze", "axes", list("fused_squeeze2_axes"))
			}
			change("reshape", "shape", list("fused_reshape_"+slot))
			change("transpose", "axis", list("fused_transpose_"+slot))
			if x != "" {
				main.Inputs[slot] = []string{x}
			}
		}
		if len(after) == 0 && len(s.made) == 0 && opType == s.op.Type {
			return false
		}
		for _, name := range oneDNNAttrs {
			delete(main.Attrs, name)
		}
		if x, ok := main.Float("scale_in_eltwise"); ok && x == 0 {
			delete(main.Attrs, "scale_in_eltwise")
		}
		delete(main.Inputs, "ResidualData")
		at := s.out("Out")
		names := []string{at}
		for range after {
			names = slices.Insert(names, 0, s.between("Out"))
		}
		main.Outputs["Out"] = names[:1]
		s.made = append(s.made, main)
		for i, f := range after {
			f(names[i], names[i+1])
		}
		return true
	}
}
