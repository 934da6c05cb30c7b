package program

import (
	"math"
	"slices"
)

// The functions of this file write ops that Paddle has for layers of transformers as the ops that they are made of, with dropout and, in training, with their gradients (partgrad.go).

// trainedOps names, of the merged ops whose gradient is written as that of their parts, an output that the op of the gradient reads, too, and the output whose gradient it reads.
var trainedOps = map[string]struct{ key, out string }{
	"fused_attention":                        {"QKVOut", "Y"},
	"fused_feedforward":                      {"Dropout1Out", "Out"},
	"fused_bias_dropout_residual_layer_norm": {"BiasDropoutResidualOut", "Y"},
	"fused_dropout_add":                      {"seed_offset", "out"},
	"flash_attn":                             {"softmax_lse", "out"},
}

// A mergedKey is the type of a merged op and its variable that the op of the gradient reads, too.
type mergedKey struct{ opType, variable string }

// A merging is a merged op and the parts that stand in its place.
type merging struct {
	op    *Op
	parts []*Op
}

// A transformer is a splitter of ops for layers of transformers.
type transformer struct{ *splitter }

// number returns an attribute, otherwise if the op has none.
func (s transformer) number(name string, otherwise float32) float32 {
	if v, ok := s.op.Float(name); ok {
		return float32(v)
	}
	return otherwise
}

// truth returns an attribute, otherwise if the op has none.
func (s transformer) truth(name string, otherwise bool) bool {
	if v, ok := s.op.Bool(name); ok {
		return v
	}
	return otherwise
}

// ofOne reports that the op belongs to one process: no others have parts of its weights.
func (s transformer) ofOne() bool {
	ring, given := s.op.Int("ring_id")
	return !given || ring == -1
}

// end returns where the last part writes: out, or a variable between if there is another part to come.
func (s transformer) end(last bool, out string) string {
	if last {
		return out
	}
	return s.temporary(out)
}

// sum appends x + y, with y over the last axes of x. Where y is "" it returns x.
func (s transformer) sum(x, y, like string) string {
	if y == "" || y == Empty {
		return x
	}
	out := s.temporary(like)
	s.pair("elementwise_add", x, y, out, map[string]Attr{"axis": int32(-1)})
	return out
}

// times appends the product of the rows of the last axis of x with a matrix.
func (s transformer) times(x, w, like string, transposed bool) string {
	out := s.temporary(like)
	s.pair("matmul_v2", x, w, out, map[string]Attr{"trans_x": false, "trans_y": transposed})
	return out
}

// normalise appends a layer_norm of the axes from begin on. A scale or bias that is "" is left out.
func (s transformer) normalise(x, scale, bias, out string, begin int, epsilon float32) {
	in := map[string][]string{"X": {x}}
	for slot, name := range (slots{"Scale": scale, "Bias": bias}) {
		if name != "" && name != Empty {
			in[slot] = []string{name}
		}
	}
	s.add("layer_norm", in, slots{"Y": out, "Mean": s.temporary(x), "Variance": s.temporary(x)}, map[string]Attr{"begin_norm_axis": int32(begin), "epsilon": epsilon})
}

// A dropping is what a merged op says of its dropout.
type dropping struct {
	rate, seed, fixed, way string // attributes
	otherwise              string // the implementation of an op that has no such attribute
	seedFrom               string // a variable with the seed, "" for none
}

// drop appends a dropout from x to out.
func (s transformer) drop(x, out string, d dropping) {
	attrs := map[string]Attr{"dropout_prob": s.number(d.rate, 0.5), "dropout_implementation": d.otherwise,
		"is_test": s.truth("is_test", false) || s.truth("dropout_is_test", false) || s.truth("attn_dropout_is_test", false)}
	for name, from := range (slots{"seed": d.seed, "fix_seed": d.fixed, "dropout_implementation": d.way}) {
		if v, ok := s.op.Attrs[from]; ok {
			attrs[name] = v
		}
	}
	in := map[string][]string{"X": {x}}
	if d.seedFrom != "" && d.seedFrom != Empty {
		in["Seed"] = []string{d.seedFrom}
	}
	s.add("dropout", in, slots{"Out": out, "Mask": s.temporary(out)}, attrs)
}

// shaped appends a reshape of x.
func (s transformer) shaped(x, like string, dims ...int64) string {
	list, out := make([]int32, len(dims)), s.temporary(like)
	for i, extent := range dims {
		list[i] = int32(extent)
	}
	s.unary("reshape", x, out, map[string]Attr{"shape": list})
	return out
}

// turned appends a transpose of x.
func (s transformer) turned(x, like string, axes ...int32) string {
	out := s.temporary(like)
	s.unary("transpose", x, out, map[string]Attr{"axis": axes})
	return out
}

// placeOf appends the parts from to till-1 of axis 0 of x; one is without the axis.
func (s transformer) placeOf(x, like string, from, till int32) string {
	out, attrs := s.temporary(like), map[string]Attr{"axes": []int32{0}, "starts": []int32{from}, "ends": []int32{till}}
	if till == from+1 {
		attrs["decrease_axis"] = []int32{0}
	}
	s.add("slice", map[string][]string{"Input": {x}}, slots{"Out": out}, attrs)
	return out
}

// heads is how the product for queries, keys and values is divided.
type heads struct{ count, size int64 }

// headsOf reads the extents of heads from the declared dims of the weights: [3, count, size, N], or turned [N, 3, count, size], or with flat [N, 3*count*size].
func (s transformer) headsOf(weights string, turned, flat bool) (heads, bool) {
	v, ok := s.block.Find(weights)
	if !ok {
		return heads{}, false
	}
	h, dims := heads{}, v.Dims
	switch n, _ := s.op.Int("num_heads"); {
	case flat && len(dims) == 2 && n > 0 && dims[1] > 0 && dims[1]%(3*n) == 0:
		h = heads{n, dims[1] / (3 * n)}
	case flat || len(dims) != 4:
		return heads{}, false
	case turned && dims[1] == 3:
		h = heads{dims[2], dims[3]}
	case !turned && dims[0] == 3:
		h = heads{dims[1], dims[2]}
	}
	return h, h.count > 0 && h.size > 0 && h.count <= math.MaxInt32/3/h.size
}

// lanes appends what makes queries, keys and values [3, batch, count, rows, size] of x [batch, rows, N].
func (s transformer) lanes(x, weights, bias, like string, h heads, turned, flat bool) string {
	width := 3 * h.count * h.size
	w := weights
	switch {
	case flat:
	case turned:
		w = s.shaped(weights, weights, 0, width)
	default:
		w = s.shaped(weights, weights, width, -1)
	}
	product := s.times(x, w, like, !flat && !turned)
	if bias != "" && bias != Empty {
		if !flat {
			bias = s.shaped(bias, bias, width)
		}
		product = s.sum(product, bias, like)
	}
	return s.turned(s.shaped(product, like, 0, 0, 3, h.count, h.size), like, 2, 0, 3, 1, 4)
}

// attend appends attention of queries over keys, which are [batch, heads, rows, size]. mask is added to the scores. The result has the dims of queries.
func (s transformer) attend(queries, keys, values, mask, like string, size int64, d *dropping) string {
	return s.weigh(s.sum(s.scores(queries, keys, like, size), mask, like), values, like, d)
}

// attendBefore is attend where a row attends to itself and to the rows before.
func (s transformer) attendBefore(queries, keys, values, like string, size int64, d *dropping) string {
	low, mask := s.temporary(like), s.temporary(like)
	scores := s.scores(queries, keys, like, size)
	s.unary("fill_any_like", scores, low, map[string]Attr{"value": float32(-1e9), "dtype": int32(-1)})
	s.unary("tril_triu", low, mask, map[string]Attr{"diagonal": int32(1), "lower": false})
	return s.weigh(s.sum(scores, mask, like), values, like, d)
}

// scores appends the products of queries and keys.
func (s transformer) scores(queries, keys, like string, size int64) string {
	out := s.temporary(like)
	s.pair("matmul", queries, keys, out, map[string]Attr{"transpose_Y": true, "alpha": float32(1 / math.Sqrt(float64(size)))})
	return out
}

// weigh appends the sum of values by the softmax of scores.
func (s transformer) weigh(scores, values, like string, d *dropping) string {
	weights, mixed := s.temporary(like), s.temporary(like)
	s.unary("softmax", scores, weights, map[string]Attr{"axis": int32(-1)})
	if d != nil {
		dropped := s.temporary(like)
		s.drop(weights, dropped, *d)
		weights = dropped
	}
	s.pair("matmul", weights, values, mixed, nil)
	return mixed
}

// splitAttention writes a layer of attention, with what comes before and behind it. With CacheKV [2, batch, heads, rows, size] the keys and values before are those of earlier rows.
func splitAttention(op *splitter) bool {
	s := transformer{op}
	flat, before := s.truth("transpose_qkv_wb", false), s.truth("pre_layer_norm", false)
	h, ok := s.headsOf(s.in("QKVW"), false, flat)
	if !ok || !s.ofOne() {
		return false
	}
	x, y := s.in("X"), s.out("Y")
	rows := x
	if before {
		rows = s.temporary(x)
		s.normalise(x, s.op.In("LnScale"), s.op.In("LnBias"), rows, 2, s.number("epsilon", 1e-5))
	}
	lanes := s.lanes(rows, s.in("QKVW"), s.op.In("QKVBias"), y, h, false, flat)
	queries := s.placeOf(lanes, y, 0, 1)
	pairs, first := lanes, int32(1)
	if s.has("CacheKV") {
		pairs, first = s.out("CacheKVOut"), 0
		s.add("concat", map[string][]string{"X": {s.in("CacheKV"), s.placeOf(lanes, y, 1, 3)}}, slots{"Out": pairs}, map[string]Attr{"axis": int32(3)})
	}
	keys, values := s.placeOf(pairs, y, first, first+1), s.placeOf(pairs, y, first+1, first+2)
	mixed := s.attend(queries, keys, values, s.op.In("SrcMask"), y, h.size,
		&dropping{rate: "attn_dropout_rate", seed: "attn_dropout_seed", fixed: "attn_dropout_fix_seed", way: "attn_dropout_implementation", otherwise: "upscale_in_train"})
	together := s.shaped(s.turned(mixed, y, 0, 2, 1, 3), y, 0, 0, h.count*h.size)
	s.finish(s.sum(s.times(together, s.in("OutLinearW"), y, false), s.op.In("OutLinearBias"), y), x, y, closing{before: before, scale: "Ln2Scale", bias: "Ln2Bias", epsilon: "ln_epsilon", begin: 2,
		drop: dropping{rate: "dropout_rate", seed: "dropout_seed", fixed: "dropout_fix_seed", way: "dropout_implementation", otherwise: "downgrade_in_infer"}})
	return true
}

// A closing is what follows the products of a layer: dropout, the sum with what the layer reads, and without a normalisation before, one behind it.
type closing struct {
	before               bool
	scale, bias, epsilon string // slots and an attribute of the normalisation
	begin                int
	drop                 dropping
}

// finish appends the end of a layer.
func (s transformer) finish(x, residual, out string, c closing) {
	adds := s.truth("add_residual", true)
	dropped := s.end(!adds && c.before, out)
	s.drop(x, dropped, c.drop)
	if adds {
		added := s.end(c.before, out)
		s.pair("elementwise_add", residual, dropped, added, map[string]Attr{"axis": int32(-1)})
		dropped = added
	}
	if !c.before {
		s.normalise(dropped, s.op.In(c.scale), s.op.In(c.bias), out, c.begin, s.number(c.epsilon, 1e-5))
	}
}

// rankOfX returns how many axes X has: three, [batch, rows, N], where it is declared with the dims [], as temporary variables may be. Otherwise the dims of what normalises it would not fit.
func (s transformer) rankOfX() int {
	if rank := len(s.dims("X")); rank > 0 {
		return rank
	}
	return 3
}

// splitFeedforward writes two products of each row with an activation between.
func splitFeedforward(op *splitter) bool {
	s := transformer{op}
	x, out, rank, before := s.in("X"), s.out("Out"), s.rankOfX(), s.truth("pre_layer_norm", false)
	activation, ok := s.op.Str("act_method")
	if !ok {
		activation = "gelu"
	}
	if !s.ofOne() || rank < 2 || !slices.Contains([]string{"gelu", "relu", "tanh", "sigmoid"}, activation) {
		return false
	}
	rows := x
	if before {
		rows = s.temporary(x)
		s.normalise(x, s.op.In("Ln1Scale"), s.op.In("Ln1Bias"), rows, rank-1, s.number("ln1_epsilon", 1e-5))
	}
	first := s.sum(s.times(rows, s.in("Linear1Weight"), out, false), s.op.In("Linear1Bias"), out)
	active, dropped := s.temporary(out), s.temporary(out)
	s.unary(activation, first, active, nil)
	s.drop(active, dropped, dropping{rate: "dropout1_rate", seed: "dropout1_seed", fixed: "dropout1_fix_seed", way: "dropout1_implementation", otherwise: "downgrade_in_infer", seedFrom: s.op.In("Dropout1Seed")})
	s.finish(s.sum(s.times(dropped, s.in("Linear2Weight"), out, false), s.op.In("Linear2Bias"), out), x, out, closing{before: before, scale: "Ln2Scale", bias: "Ln2Bias", epsilon: "ln2_epsilon", begin: rank - 1,
		drop: dropping{rate: "dropout2_rate", seed: "dropout2_seed", fixed: "dropout2_fix_seed", way: "dropout2_implementation", otherwise: "downgrade_in_infer", seedFrom: s.op.In("Dropout2Seed")}})
	return true
}

// splitDroppedNorm writes layer_norm(Residual + dropout(X + Bias)).
func splitDroppedNorm(op *splitter) bool {
	s := transformer{op}
	rank, y := s.rankOfX(), s.out("Y")
	if rank < 2 {
		return false
	}
	s.finish(s.sum(s.in("X"), s.op.In("Bias"), y), s.in("Residual"), y, closing{scale: "LnScale", bias: "LnBias", epsilon: "ln_epsilon", begin: rank - 1,
		drop: dropping{rate: "dropout_rate", seed: "dropout_seed", fixed: "dropout_fix_seed", way: "dropout_implementation", otherwise: "downgrade_in_infer"}})
	return true
}

// splitDropoutAdd writes dropout(x) + y.
func splitDropoutAdd(op *splitter) bool {
	s := transformer{op}
	dropped := s.temporary(s.out("out"))
	s.drop(s.in("x"), dropped, dropping{rate: "p", seed: "seed", fixed: "fix_seed", way: "mode", otherwise: "upscale_in_train", seedFrom: s.op.In("seed_tensor")})
	s.pair("elementwise_add", dropped, s.in("y"), s.out("out"), map[string]Attr{"axis": int32(-1)})
	return true
}

// splitFlash writes attention of rows q, k and v [batch, rows, heads, size]. It does not write the softmax that the op returns beside its result: no op reads that.
func splitFlash(op *splitter) bool {
	s := transformer{op}
	q, k, causal := s.dims("q"), s.dims("k"), s.truth("causal", false)
	if len(q) != 4 || len(k) != 4 || q[3] < 1 || s.truth("return_softmax", false) || causal && (q[1] != k[1] || s.has("attn_mask")) {
		return false
	}
	out := s.out("out")
	var sides [3]string
	for i, slot := range []string{"q", "k", "v"} {
		sides[i] = s.turned(s.in(slot), out, 0, 2, 1, 3)
	}
	d := &dropping{rate: "dropout", otherwise: "upscale_in_train"}
	if rate := s.number("dropout", 0); rate == 0 {
		d = nil
	}
	var mixed string
	if causal {
		mixed = s.attendBefore(sides[0], sides[1], sides[2], out, q[3], d)
	} else {
		mixed = s.attend(sides[0], sides[1], sides[2], s.op.In("attn_mask"), out, q[3], d)
	}
	s.unary("transpose", mixed, out, map[string]Attr{"axis": []int32{0, 2, 1, 3}})
	return true
}

// splitTransformer writes several layers of attention and products in inference, in which Paddle drops nothing. An op with a cache stays whole: it writes to the place of the cache that a tensor names.
func splitTransformer(op *splitter) bool {
	s := transformer{op}
	weights, turned, x, out := s.op.Inputs["QKVW"], !s.truth("trans_qkvw", true), s.in("X"), s.out("Out")
	activation, ok := s.op.Str("act_method")
	if !ok {
		activation = "gelu"
	}
	norm, _ := s.op.Str("norm_type")
	group, _ := s.op.Int("gqa_group_size")
	switch {
	case !s.truth("pre_layer_norm", true) || !s.truth("is_test", false) || !s.ofOne() || s.has("CacheKV") || s.has("PreCaches") || s.has("RotaryPosEmb") || s.has("SeqLengths"),
		s.number("residual_alpha", 1) != 1 || norm != "" && norm != "layernorm" || group > 0 || activation != "gelu" && activation != "relu" || len(weights) == 0:
		return false
	}
	at := func(slot string, layer int) string {
		if list := s.op.Inputs[slot]; layer < len(list) && list[layer] != Empty {
			return list[layer]
		}
		return ""
	}
	epsilon, last := s.number("epsilon", 1e-5), map[string]Attr{"axis": int32(-1)}
	for layer := range weights {
		for _, slot := range []string{"OutLinearW", "FFN1Weight", "FFN2Weight"} {
			if at(slot, layer) == "" {
				return false
			}
		}
		h, ok := s.headsOf(weights[layer], turned, false)
		if !ok {
			return false
		}
		rows, between, end := s.temporary(x), s.temporary(out), s.end(layer == len(weights)-1, out)
		s.normalise(x, at("LnScale", layer), at("LnBias", layer), rows, 2, epsilon)
		lanes := s.lanes(rows, weights[layer], at("QKVBias", layer), out, h, turned, false)
		mixed := s.attend(s.placeOf(lanes, out, 0, 1), s.placeOf(lanes, out, 1, 2), s.placeOf(lanes, out, 2, 3), s.op.In("SrcMask"), out, h.size, nil)
		together := s.shaped(s.turned(mixed, out, 0, 2, 1, 3), out, 0, 0, h.count*h.size)
		s.pair("elementwise_add", x, s.sum(s.times(together, at("OutLinearW", layer), out, false), at("OutLinearBias", layer), out), between, last)
		next, active := s.temporary(x), s.temporary(out)
		s.normalise(between, at("FFNLnScale", layer), at("FFNLnBias", layer), next, 2, epsilon)
		s.unary(activation, s.sum(s.times(next, at("FFN1Weight", layer), out, false), at("FFN1Bias", layer), out), active, nil)
		s.pair("elementwise_add", between, s.sum(s.times(active, at("FFN2Weight", layer), out, false), at("FFN2Bias", layer), out), end, last)
		x = end
	}
	return true
}
