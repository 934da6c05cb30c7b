package program

import (
	"maps"
	"strings"
)

// The functions of this file write gradients of gradients as other ops: those of functions of two variables that are linear in each, of functions of single elements, and of
// reshaping. Losses that depend on gradients have such ops, as penalties on the gradients of a discriminator do. An op with the slots DDX and DOut gets a
// variation of dX and the gradient that arrived in the first pass, and computes gradients of both.

// secondOps says of gradients of gradients what they are made of.
var secondOps = map[string]func(*splitter) bool{
	"mul_grad_grad":              splitProductSecond("mul", "DX", "DY"),
	"matmul_grad_grad":           splitProductSecond("matmul", "DX", "DY"),
	"matmul_v2_grad_grad":        splitProductSecond("matmul_v2", "DX", "DY"),
	"elementwise_mul_grad_grad":  splitProductSecond("elementwise_mul", gradOf("X"), gradOf("Y")),
	"elementwise_add_grad_grad":  splitSumSecond("elementwise_add"),
	"elementwise_sub_grad_grad":  splitSumSecond("elementwise_sub"),
	"elementwise_div_grad_grad":  splitQuotientSecond,
	"conv2d_grad_grad":           splitConvSecond("conv2d"),
	"depthwise_conv2d_grad_grad": splitConvSecond("depthwise_conv2d"),
	"conv3d_grad_grad":           splitConvSecond("conv3d"),
	"conv2d_transpose_grad_grad": splitConvSecond("conv2d_transpose"),
	"relu_grad_grad":             splitPiecewiseSecond("relu", "Out"),
	"leaky_relu_grad_grad":       splitPiecewiseSecond("leaky_relu", "X"),
	"abs_double_grad":            splitPiecewiseSecond("abs", "X"),
	"square_grad_grad":           splitSquareSecond,
	"sqrt_grad_grad":             splitRootSecond("sqrt", -1),
	"rsqrt_grad_grad":            splitRootSecond("rsqrt", 3),
	"tanh_grad_grad":             splitSigmoidSecond("tanh", -2, 0),
	"sigmoid_grad_grad":          splitSigmoidSecond("sigmoid", -2, 1),
	"log_grad_grad":              splitLogSecond,
	"elu_grad_grad":              splitELUSecond,
	"reshape2_grad_grad":         splitReshapeSecond,
	"pool2d_double_grad":         splitPoolSecond,
	"instance_norm_grad_grad":    splitInstanceNormSecond,
	"batch_norm_grad_grad":       splitBatchNormSecond,
}

func init() { maps.Copy(fusedOps, secondOps) }

// A bilinear names the slots of an op that is linear in x and in y, and those of its second gradient.
type bilinear struct {
	op, x, y, out  string
	dOut, ddx, ddy string // what the second gradient reads
	ddOut, dx, dy  string // what it writes
}

func splitProductSecond(op, dx, dy string) func(*splitter) bool {
	return bilinear{op: op, x: "X", y: "Y", out: "Out", dOut: "DOut", ddx: "DDX", ddy: "DDY", ddOut: "DDOut", dx: dx, dy: dy}.split
}

func splitConvSecond(op string) func(*splitter) bool {
	return bilinear{op: op, x: "Input", y: "Filter", out: "Output", dOut: "DOutput", ddx: "DDInput", ddy: "DDFilter", ddOut: "DDOutput", dx: "DInput", dy: "DFilter"}.split
}

// split writes ddOut = op(ddx, y) + op(x, ddy), and dx and dy as the gradients of op(x, ddy) and op(ddx, y). What lacks its variation is 0.
func (l bilinear) split(s *splitter) bool {
	varied := [2]string{}
	if s.has(l.ddx) {
		varied[0] = s.in(l.ddx)
	}
	if s.has(l.ddy) {
		varied[1] = s.in(l.ddy)
	}
	attrs := attrsOf(s)
	terms := []map[string][]string{}
	if varied[0] != "" {
		terms = append(terms, map[string][]string{l.x: {varied[0]}, l.y: {s.in(l.y)}})
	}
	if varied[1] != "" {
		terms = append(terms, map[string][]string{l.x: {s.in(l.x)}, l.y: {varied[1]}})
	}
	if len(terms) == 0 {
		return false
	}
	if end := s.wanted(l.ddOut); end != "" {
		parts := make([]string, len(terms))
		for i, in := range terms {
			parts[i] = end
			if len(terms) > 1 {
				parts[i] = s.temporary(end)
			}
			s.add(l.op, in, slots{l.out: parts[i]}, attrs)
		}
		if len(parts) > 1 {
			s.add("sum", map[string][]string{"X": parts}, slots{"Out": end}, nil)
		}
	}
	for i, to := range []string{s.wanted(l.dx), s.wanted(l.dy)} {
		switch mine, other := []string{l.x, l.y}[i], varied[1-i]; {
		case to == "":
		case other == "":
			s.unary("fill_zeros_like", s.in(mine), to, nil)
		default:
			in := map[string][]string{l.x: {s.in(l.x)}, l.y: {s.in(l.y)}, gradOf(l.out): {s.in(l.dOut)}}
			in[[]string{l.x, l.y}[1-i]] = []string{other}
			s.add(l.op+"_grad", in, slots{gradOf(mine): to}, attrs)
		}
	}
	return true
}

// attrsOf copies the attributes of the op that say what it computes. A second gradient has those of its function.
func attrsOf(s *splitter) map[string]Attr {
	attrs := map[string]Attr{}
	for name, value := range s.op.Attrs {
		if !strings.HasPrefix(name, "op_") {
			attrs[name] = value
		}
	}
	return attrs
}

// splitSumSecond writes the second gradient of a sum or a difference, which is that of the variations. Releases before 1.6 ask for gradients of X and Y, too, which are 0.
func splitSumSecond(op string) func(*splitter) bool {
	return func(s *splitter) bool {
		for _, slot := range []string{"X", "Y"} {
			if to := s.wanted(gradOf(slot)); to != "" {
				s.unary("fill_zeros_like", s.in(slot), to, nil)
			}
		}
		end := s.wanted("DDOut")
		if end == "" {
			return len(s.made) > 0
		}
		if !s.has("DDY") {
			s.unary("assign", s.in("DDX"), end, nil)
			return true
		}
		var x string
		if s.has("DDX") {
			x = s.in("DDX")
		} else {
			x = s.temporary(end)
			s.unary("fill_zeros_like", s.in("DOut"), x, nil)
		}
		s.pair(op, x, s.in("DDY"), end, s.functionAttrs(op))
		return true
	}
}

// splitQuotientSecond writes the second gradient of X/Y. With v = ddX - Out*ddY it is ddOut = v/Y, dOut = -dX*ddY and dY = -dX*v/Y.
func splitQuotientSecond(s *splitter) bool {
	attrs := s.functionAttrs("elementwise_div")
	out, y := s.in("Out"), s.in("Y")
	v := ""
	if s.has("DDX") {
		v = s.in("DDX")
	}
	if s.has("DDY") {
		if v == "" {
			v = s.temporary(out)
			s.unary("fill_zeros_like", out, v, nil)
		}
		v = s.of("elementwise_sub", v, s.of("elementwise_mul", out, s.in("DDY"), attrs), nil)
	}
	if v == "" {
		return false
	}
	if end := s.wanted("DDOut"); end != "" {
		s.pair("elementwise_div", v, y, end, attrs)
	}
	if end := s.wanted("DOut"); end != "" {
		if s.has("DDY") {
			s.unary("scale", s.of("elementwise_mul", s.in("DX"), s.in("DDY"), attrs), end, map[string]Attr{"scale": float32(-1)})
		} else {
			s.unary("fill_zeros_like", out, end, nil)
		}
	}
	if end := s.wanted(gradOf("Y")); end != "" { // that of v/Y when dX*Y arrives at it, which has the dims of Y
		s.add("elementwise_div_grad", map[string][]string{"X": {v}, "Y": {y}, "Out": {s.of("elementwise_div", v, y, attrs)}, gradOf("Out"): {s.of("elementwise_mul", s.in("DX"), y, attrs)}},
			slots{gradOf("Y"): end}, attrs)
	}
	return true
}

// of appends an op of X and Y whose result is one between two parts, of the dims of x.
func (s *splitter) of(opType, x, y string, attrs map[string]Attr) string {
	to := s.temporary(x)
	s.pair(opType, x, y, to, attrs)
	return to
}

// firstGrad appends the gradient of a function of one variable: by gives it what it reads beside what arrives.
func (s *splitter) firstGrad(function, slot, by, arrives, to string) {
	s.add(function+"_grad", map[string][]string{slot: {by}, gradOf("Out"): {arrives}}, slots{gradOf("X"): to}, attrsOf(s))
}

// splitPiecewiseSecond writes the second gradient of a function of straight pieces, which is its gradient. slot is what that reads. Releases before 1.7 give leaky_relu its
// result, which has the sign of X.
func splitPiecewiseSecond(function, slot string) func(*splitter) bool {
	return func(s *splitter) bool {
		by := s.op.In(slot)
		if by == "" || by == Empty {
			by = s.in("Out")
		}
		s.firstGrad(function, slot, by, s.in("DDX"), s.out("DDOut"))
		return true
	}
}

// splitSquareSecond writes ddOut = 2*X*ddX and dX = 2*ddX*dOut.
func splitSquareSecond(s *splitter) bool {
	if end := s.wanted("DDOut"); end != "" {
		s.firstGrad("square", "X", s.in("X"), s.in("DDX"), end)
	}
	if end := s.wanted("DX"); end != "" {
		s.firstGrad("square", "X", s.in("DDX"), s.in("DOut"), end)
	}
	return true
}

// splitRootSecond writes the second gradient of a root: ddOut is its gradient, and dOut is factor*dX*ddX/Out.
func splitRootSecond(function string, factor float32) func(*splitter) bool {
	return func(s *splitter) bool {
		if end := s.wanted("DDOut"); end != "" {
			s.firstGrad(function, "Out", s.in("Out"), s.in("DDX"), end)
		}
		if end := s.wanted("DOut"); end != "" {
			product := s.of("elementwise_mul", s.in("DX"), s.in("DDX"), nil)
			scaled := s.temporary(product)
			s.unary("scale", product, scaled, map[string]Attr{"scale": factor})
			s.pair("elementwise_div", scaled, s.in("Out"), end, nil)
		}
		return true
	}
}

// splitSigmoidSecond writes the second gradient of a function whose gradient is a polynomial of its result, and the derivative of that factor*Out + bias.
func splitSigmoidSecond(function string, factor, bias float32) func(*splitter) bool {
	return func(s *splitter) bool {
		if end := s.wanted("DDOut"); end != "" {
			s.firstGrad(function, "Out", s.in("Out"), s.in("DDX"), end)
		}
		if end := s.wanted("DOutNew"); end != "" {
			slope := s.temporary(s.in("Out"))
			s.unary("scale", s.in("Out"), slope, map[string]Attr{"scale": factor, "bias": bias})
			s.pair("elementwise_mul", s.of("elementwise_mul", s.in("DDX"), s.in("DOut"), nil), slope, end, nil)
		}
		return true
	}
}

// splitLogSecond writes ddOut = ddX/X and dX = -ddX*dOut/X**2.
func splitLogSecond(s *splitter) bool {
	if end := s.wanted("DDOut"); end != "" {
		s.firstGrad("log", "X", s.in("X"), s.in("DDX"), end)
	}
	if end := s.wanted("DX"); end != "" {
		by := s.of("elementwise_div", s.of("elementwise_div", s.of("elementwise_mul", s.in("DDX"), s.in("DOut"), nil), s.in("X"), nil), s.in("X"), nil)
		s.unary("scale", by, end, map[string]Attr{"scale": float32(-1)})
	}
	return true
}

// splitELUSecond writes ddOut as the gradient of elu, and dX as ddX*dOut*alpha*e**X below 0: what the gradients of elu and of relu differ in.
func splitELUSecond(s *splitter) bool {
	if end := s.wanted("DDOut"); end != "" {
		s.firstGrad("elu", "X", s.in("X"), s.in("DDX"), end)
	}
	if end := s.wanted("DX"); end != "" {
		x := s.in("X")
		product := s.of("elementwise_mul", s.in("DDX"), s.in("DOut"), nil)
		curved, above, straight := s.temporary(x), s.temporary(x), s.temporary(x)
		s.firstGrad("elu", "X", x, product, curved)
		s.unary("relu", x, above, nil)
		s.unaryGrad("relu", above, product, straight)
		s.pair("elementwise_sub", curved, straight, end, nil)
	}
	return true
}

// splitReshapeSecond gives a variation the dims of dOut, whose elements it does not read.
func splitReshapeSecond(s *splitter) bool {
	s.add("reshape_grad", map[string][]string{"X": {s.in("DOut")}, gradOf("Out"): {s.in("DDX")}}, slots{gradOf("X"): s.out("DDOut")}, nil, "shape")
	return true
}

// splitPoolSecond writes the second gradient of an average, which is the average of the variation. That of a maximum depends on where it was.
func splitPoolSecond(s *splitter) bool {
	if kind, _ := s.op.Str("pooling_type"); kind != "avg" {
		return false
	}
	s.add("pool2d", map[string][]string{"X": {s.in("X")}}, slots{"Out": s.out("Out")}, attrsOf(s))
	return true
}
