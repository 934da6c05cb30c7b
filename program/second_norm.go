package program

import "slices"

// A normSecond writes the second gradient of a normalisation. Elements that are normalised together form a row of a matrix, which is called flat here. With h the normalised X
// and r the inverse of the deviation, the gradient of a row is dX = Scale*P(dY), where P(v) = r*(v - mean(v) - h*mean(v*h)).
type normSecond struct {
	*splitter
	order   []int32 // of the axes of X that brings the elements of a row together; nil if they lie so
	turned  string  // X in this order
	h       string  // flat
	inverse string  // r, one number for each row
}

func splitInstanceNormSecond(s *splitter) bool { return (&normSecond{splitter: s}).split() }

// splitBatchNormSecond knows the form in which the batch gives the statistics, and channels are the second axis.
func splitBatchNormSecond(s *splitter) bool {
	layout, _ := s.op.Str("data_layout")
	given, _ := s.op.Bool("use_global_stats")
	test, _ := s.op.Bool("is_test")
	rank := len(s.dims("X"))
	if given || test || layout == "NHWC" || rank < 2 {
		return false
	}
	order := []int32{1, 0}
	for axis := 2; axis < rank; axis++ {
		order = append(order, int32(axis))
	}
	return (&normSecond{splitter: s, order: order}).split()
}

func (n *normSecond) split() bool {
	x := n.in("X")
	n.turned = x
	if n.order != nil {
		n.turned = n.turn(x)
	}
	n.inverse = n.in("SavedVariance")
	n.h = n.perRow("elementwise_mul", n.perRow("elementwise_sub", n.flat(x), n.in("SavedMean")), n.inverse)
	dy := n.flat(n.in("DY"))
	gradient := n.rowGradient(dy)
	change := "" // of X, flat
	if n.has("DDX") {
		change = n.flat(n.in("DDX"))
	}
	if end := n.wanted("DDY"); end != "" {
		var terms []string
		if change != "" {
			terms = append(terms, n.scaled(n.unflat(n.rowGradient(change)), "Scale"))
		}
		if n.has("DDScale") {
			terms = append(terms, n.scaled(n.unflat(n.h), "DDScale"))
		}
		n.sum(terms, "DDBias", end)
	}
	if end := n.wanted("DScale"); end != "" {
		if change == "" {
			n.unary("fill_zeros_like", n.in("Scale"), end, nil)
		} else { // a bias whose gradient this is has the sums over channels
			product := n.of("elementwise_mul", n.unflat(gradient), n.in("DDX"), nil)
			n.add("elementwise_add_grad", map[string][]string{"X": {product}, "Y": {n.in("Scale")}, gradOf("Out"): {product}}, slots{gradOf("Y"): end}, map[string]Attr{"axis": int32(1)})
		}
	}
	if end := n.wanted("DX"); end != "" {
		var terms []string
		if change != "" {
			terms = append(terms, n.scaled(n.unflat(n.curvature(dy, gradient, change)), "Scale"))
		}
		if n.has("DDScale") {
			terms = append(terms, n.scaled(n.unflat(gradient), "DDScale"))
		}
		n.sum(terms, "", end)
	}
	return true
}

// curvature is the gradient of the sum of u*P(v) by X: -r*(r*A*h + mean(v*h)*P(u) + mean(u*h)*P(v)), with A = mean(u*v) - mean(u)*mean(v) - mean(u*h)*mean(v*h).
func (n *normSecond) curvature(v, gradient, u string) string {
	along := func(w string) string { return n.mean(n.of("elementwise_mul", w, n.h, nil)) }
	uh, vh := along(u), along(v)
	a := n.of("elementwise_sub", n.mean(n.of("elementwise_mul", u, v, nil)), n.of("elementwise_mul", n.mean(u), n.mean(v), nil), nil)
	a = n.of("elementwise_mul", n.of("elementwise_sub", a, n.of("elementwise_mul", uh, vh, nil), nil), n.inverse, nil)
	all := n.temporary(n.h)
	n.add("sum", map[string][]string{"X": {n.perRow("elementwise_mul", n.h, a), n.perRow("elementwise_mul", n.rowGradient(u), vh), n.perRow("elementwise_mul", gradient, uh)}}, slots{"Out": all}, nil)
	negative := n.temporary(n.inverse)
	n.unary("scale", n.inverse, negative, map[string]Attr{"scale": float32(-1)})
	return n.perRow("elementwise_mul", all, negative)
}

// rowGradient is P(v).
func (n *normSecond) rowGradient(v string) string {
	centred := n.perRow("elementwise_sub", v, n.mean(v))
	along := n.perRow("elementwise_mul", n.h, n.mean(n.of("elementwise_mul", v, n.h, nil)))
	return n.perRow("elementwise_mul", n.of("elementwise_sub", centred, along, nil), n.inverse)
}

// perRow appends an op of a matrix and a number for each of its rows.
func (n *normSecond) perRow(opType, x, numbers string) string {
	return n.of(opType, x, numbers, map[string]Attr{"axis": int32(0)})
}

// mean has the means of the rows of a matrix.
func (n *normSecond) mean(x string) string {
	to := n.temporary(n.inverse)
	n.unary("reduce_mean", x, to, map[string]Attr{"dim": []int32{1}, "keep_dim": false, "reduce_all": false})
	return to
}

// flat makes a matrix of what has the dims of X, and unflat the reverse.
func (n *normSecond) flat(x string) string {
	if n.order != nil {
		x = n.turn(x)
	}
	to := n.temporary(x)
	n.unary("flatten", x, to, map[string]Attr{"axis": n.rows()})
	return to
}

// rows counts the axes that become rows: those of images and channels, or of channels alone.
func (n *normSecond) rows() int32 {
	if n.order != nil {
		return 1
	}
	return 2
}

func (n *normSecond) unflat(x string) string {
	to := n.temporary(n.in("X"))
	n.add("flatten_grad", map[string][]string{"X": {n.turned}, gradOf("Out"): {x}}, slots{gradOf("X"): to}, map[string]Attr{"axis": n.rows()})
	if n.order != nil {
		return n.turn(to) // the first two axes change places again
	}
	return to
}

func (n *normSecond) turn(x string) string {
	to := n.temporary(x)
	n.unary("transpose", x, to, map[string]Attr{"axis": slices.Clone(n.order)})
	return to
}

// scaled multiplies channels by the numbers of a slot, if it has a variable.
func (n *normSecond) scaled(x, slot string) string {
	if !n.has(slot) {
		return x
	}
	return n.of("elementwise_mul", x, n.in(slot), map[string]Attr{"axis": int32(1)})
}

// sum adds terms, and what a slot has for each channel, into end. Without terms it is 0.
func (n *normSecond) sum(terms []string, bias, end string) {
	if len(terms) == 0 {
		zero := n.temporary(n.in("X"))
		n.unary("fill_zeros_like", n.in("X"), zero, nil)
		terms = []string{zero}
	}
	to := end
	if bias != "" && n.has(bias) {
		to = n.temporary(n.in("X"))
	}
	n.add("sum", map[string][]string{"X": slices.Clone(terms)}, slots{"Out": to}, nil)
	if to != end {
		n.pair("elementwise_add", to, n.in(bias), end, map[string]Attr{"axis": int32(1)})
	}
}
