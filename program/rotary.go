package program

import "math"

// The functions of this file write rotary positions as the ops that they are made of: x*cos + r(x)*sin for queries, keys and values [batch, rows, heads, size]. r exchanges the numbers of pairs and
// changes the sign of the first. With use_neox_rotary_style a pair are neighbours, else a number and the one half the size behind it.

// A rotary is a splitter of rotary positions.
type rotary struct {
	*splitter
	size       int64
	neighbours bool
	sin, cos   string // of each number
}

// rotaryOf reads an op whose sines and cosines are given.
func rotaryOf(s *splitter) (*rotary, bool) {
	if !s.has("sin") || !s.has("cos") {
		return nil, false
	}
	dims := s.dims("sin")
	major, _ := s.op.Bool("time_major")
	r := &rotary{splitter: s, neighbours: true}
	if style, given := s.op.Bool("use_neox_rotary_style"); given {
		r.neighbours = style
	}
	if len(dims) == 0 || major {
		return nil, false
	}
	if r.size = dims[len(dims)-1]; r.size < 2 || r.size%2 != 0 || r.size > math.MaxInt32 {
		return nil, false
	}
	r.sin, r.cos = r.table("sin"), r.table("cos")
	return r, true
}

// table appends what gives a slot of sines or cosines the dims of queries, with one head.
func (r *rotary) table(slot string) string {
	if !r.has("position_ids") {
		return r.shaped(r.in(slot), 1, -1, 1, int32(r.size))
	}
	rows := r.temporary(r.op.In(slot))
	r.add("lookup_table_v2", map[string][]string{"W": {r.shaped(r.in(slot), -1, int32(r.size))}, "Ids": {r.in("position_ids")}}, slots{"Out": rows}, nil)
	return r.shaped(rows, 0, 0, 1, int32(r.size))
}

func (r *rotary) shaped(x string, dims ...int32) string {
	out := r.temporary(x)
	r.unary("reshape", x, out, map[string]Attr{"shape": dims})
	return out
}

// exchanged appends r(x).
func (r *rotary) exchanged(x string) string {
	pairs := x
	if r.neighbours {
		pairs = r.shaped(x, 0, 0, 0, int32(r.size/2), 2)
	}
	first, second, negative, out := r.temporary(x), r.temporary(x), r.temporary(x), r.temporary(x)
	halves(r.splitter, pairs, first, second)
	r.unary("scale", second, negative, map[string]Attr{"scale": float32(-1)})
	r.add("concat", map[string][]string{"X": {negative, first}}, slots{"Out": out}, map[string]Attr{"axis": int32(-1)})
	if r.neighbours {
		return r.shaped(out, 0, 0, 0, int32(r.size))
	}
	return out
}

// times appends x*table.
func (r *rotary) times(x, table string) string {
	out := r.temporary(x)
	r.pair("elementwise_mul", x, table, out, map[string]Attr{"axis": int32(-1)})
	return out
}

// splitRotary writes the positions of each of q, k and v that the op has.
func splitRotary(s *splitter) bool {
	r, ok := rotaryOf(s)
	if !ok {
		return false
	}
	for _, slot := range []string{"q", "k", "v"} {
		if s.has(slot) {
			x := s.in(slot)
			s.pair("elementwise_add", r.times(x, r.cos), r.times(r.exchanged(x), r.sin), s.out("out_"+slot), map[string]Attr{"axis": int32(-1)})
		}
	}
	return true
}

// splitRotaryGrad writes the gradients: d*cos - r(d*sin).
func splitRotaryGrad(s *splitter) bool {
	r, ok := rotaryOf(s)
	if !ok {
		return false
	}
	for _, slot := range []string{"q", "k", "v"} {
		if to := s.wanted(gradOf(slot)); to != "" {
			d := s.in(gradOf("out_" + slot))
			s.pair("elementwise_sub", r.times(d, r.cos), r.exchanged(r.times(d, r.sin)), to, map[string]Attr{"axis": int32(-1)})
		}
	}
	return true
}
