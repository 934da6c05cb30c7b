package program

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// splitFused writes ops that passes of Paddle have merged for inference, such as fc, as the ops that they are made of. An op whose form it does not know stays as it
// is, and Verify says so. Results between the parts get variables of their own; what else a merged op writes between is left out, because nothing reads it.
func splitFused(p *Program) {
	merged := map[mergedKey]merging{}
	for _, b := range p.Blocks {
		var split []*Op
		counts := map[labelCount]string{}
		for i, op := range b.Ops {
			parts, ok := fusedOps[op.Type]
			if !ok {
				if split != nil {
					split = append(split, op)
				}
				continue
			}
			s := splitter{block: b, op: op, counts: counts, merged: merged}
			if done := parts(&s); !done || s.failed {
				s.made = []*Op{op}
			} else if trained, ok := trainedOps[op.Type]; ok {
				merged[mergedKey{op.Type, op.Out(trained.key)}] = merging{op, s.made}
			}
			if s.failed {
				clear(counts) // one may be of ops that are left out
			}
			if split == nil {
				split = slices.Clone(b.Ops[:i])
			}
			split = append(split, s.made...)
		}
		if split != nil {
			b.Ops = split
		}
	}
}

// fusedOps says of merged ops what they are made of. A function returns false for a form that it does not know.
var fusedOps = map[string]func(*splitter) bool{
	"fc":                                 splitFC,
	"conv2d_fusion":                      splitConv,
	"fused_conv2d_add_act":               splitConv,
	"fused_conv2d":                       splitConvOf("conv2d"),
	"conv2d":                             splitConvOf("conv2d"),
	"depthwise_conv2d":                   splitConvOf("depthwise_conv2d"),
	"fused_gemm_epilogue":                splitGemm,
	"fused_gemm_epilogue_grad":           splitGemmGrad,
	"batch_norm":                         splitNormRelu,
	"lookup_table_v2":                    splitIDs,
	"lookup_table_v2_grad":               splitIDs,
	"logical_and":                        splitTruth,
	"logical_or":                         splitTruth,
	"logical_xor":                        splitTruth,
	"logical_not":                        splitTruth,
	"dropout_nd":                         splitDropout,
	"fused_elemwise_activation":          splitElementwise,
	"fused_elemwise_activation_grad":     splitElementwiseGrad,
	"fused_elemwise_add_activation":      splitElementwise,
	"fused_elemwise_add_activation_grad": splitElementwiseGrad,
	"skip_layernorm":                     splitSkipLayerNorm,
	"fused_embedding_eltwise_layernorm":  splitEmbeddingLayerNorm,
	"multihead_matmul":                   splitMultihead,
	"fusion_squared_mat_sub":             splitSquaredMatSub,
	"fusion_repeated_fc_relu":            splitRepeatedFC,
	"fusion_seqconv_eltadd_relu":         splitSequenceConv,
	"fusion_gru":                         splitGRU,
	"fusion_lstm":                        splitLSTM,
	"fused_embedding_fc_lstm":            splitEmbeddingLSTM,
	"softmax_mask_fuse":                  splitMaskedSoftmax,
	"fused_fc_elementwise_layernorm":     splitFCLayerNorm,

	"fused_softmax_mask":      splitMaskedSoftmax,
	"fused_softmax_mask_grad": splitSoftmaxGrad,

	"softmax_mask_fuse_upper_triangle":       splitCausalSoftmax,
	"fused_softmax_mask_upper_triangle":      splitCausalSoftmax,
	"fused_softmax_mask_upper_triangle_grad": splitSoftmaxGrad,

	"fused_rotary_position_embedding": splitRotary, "fused_rotary_position_embedding_grad": splitRotaryGrad,
	"swiglu": splitGate, "swiglu_grad": splitGateGrad, "rms_norm": splitRootMean, "fused_seqpool_cvm": splitPools, "fused_seqpool_cvm_grad": splitPoolsGrad,

	"fused_attention": splitAttention, "fused_feedforward": splitFeedforward, "fused_bias_dropout_residual_layer_norm": splitDroppedNorm, "fused_dropout_add": splitDropoutAdd, "flash_attn": splitFlash,
	"fused_multi_transformer": splitTransformer,
	"fused_attention_grad":    splitTrainedGrad, "fused_feedforward_grad": splitTrainedGrad, "fused_bias_dropout_residual_layer_norm_grad": splitTrainedGrad, "fused_dropout_add_grad": splitTrainedGrad,
	"flash_attn_grad": splitTrainedGrad,

	"fusion_transpose_flatten_concat": splitTransposeFlattenConcat,
	"fusion_seqpool_concat":           splitPoolConcat,
	"fusion_seqpool_cvm_concat":       splitPoolClicks,
	"multi_dot":                       splitProducts,
	"fusion_seqexpand_concat_fc":      splitExpandConcatFC,
	"merged_momentum": splitMerged("momentum", []string{"Param", "Grad", "Velocity", "LearningRate"}, []string{"ParamOut", "VelocityOut"},
		"mu", "use_nesterov", "rescale_grad", "multi_precision"),
	"merged_adam":          splitMerged("adam", adamInputs, adamOutputs, "beta1", "beta2", "epsilon", "multi_precision", "use_global_beta_pow"),
	"merged_adamw":         splitMerged("adamw", adamInputs, adamOutputs, "beta1", "beta2", "epsilon", "coeff", "with_decay", "lr_ratio", "multi_precision", "use_global_beta_pow"),
	"hierarchical_sigmoid": leaveTable,
	"coalesce_tensor":      splitCoalesce,

	"fused_batch_norm_act":    splitNorm("act_type"),
	"fused_bn_add_activation": splitNorm("act_type"),
	abnOp:                     splitNorm("activation"),

	abnOp + "_grad":                splitABNGrad,
	"fused_batch_norm_act_grad":    splitNormGrad,
	"fused_bn_add_activation_grad": splitNormGrad,

	"reduce_sum": splitCast, "reduce_mean": splitCast, "reduce_max": splitCast, "reduce_min": splitCast, "reduce_prod": splitCast,
	"reduce_sum_grad": leaveCast, "reduce_mean_grad": leaveCast, "reduce_max_grad": leaveCast, "reduce_min_grad": leaveCast, "reduce_prod_grad": leaveCast,

	"sigmoid_cross_entropy_with_logits":      splitNormalizedCost,
	"sigmoid_cross_entropy_with_logits_grad": splitNormalizedCostGrad,

	"addmm_grad": splitAddmmGrad, "stack_grad": splitStackGrad, "top_k_grad": splitTopGrad, "tril_triu_grad": splitTriangleGrad, "unstack_grad": splitUnstackGrad,
	"fake_quantize_dequantize_grad": splitStraightGrad, "straight_through_estimator_grad": splitStraightGrad, "stright_throuth_estimator_grad": splitStraightGrad,

	"momentum":                        splitDecay,
	"softmax_with_cross_entropy":      splitLossAxis,
	"softmax_with_cross_entropy_grad": splitLossAxis,

	"matmul": splitOneDNN("matmul"), "matmul_v2": splitOneDNN("matmul_v2"), "fused_matmul": splitOneDNN("matmul_v2"),
	"transpose2": splitOneDNN("transpose2"), "fused_transpose": splitOneDNN("transpose2"),
	"softplus": splitOneDNN("softplus"), "fused_softplus": splitOneDNN("softplus"),
	"elementwise_add": splitOneDNN("elementwise_add"), "fused_elementwise_add": splitOneDNN("elementwise_add"),
	"elementwise_sub": splitOneDNN("elementwise_sub"), "fused_elementwise_sub": splitOneDNN("elementwise_sub"),
	"elementwise_mul": splitOneDNN("elementwise_mul"), "fused_elementwise_mul": splitOneDNN("elementwise_mul"),
	"elementwise_div": splitOneDNN("elementwise_div"), "fused_elementwise_div": splitOneDNN("elementwise_div"),

	"prelu": splitChannelsLast, "prelu_grad": splitChannelsLast,
}

// A splitter makes the ops of one merged op.
type splitter struct {
	block  *Block
	op     *Op
	made   []*Op
	failed bool                  // a variable is missing
	counts map[labelCount]string // of labels of the block: the variables that have them
	merged map[mergedKey]merging // ops of trainedOps that were met before
}

// in returns the variable of an input slot, which must hold one.
func (s *splitter) in(slot string) string {
	name := s.op.In(slot)
	if name == "" || name == Empty {
		s.failed = true
	}
	return name
}

// has reports whether an input slot holds a variable.
func (s *splitter) has(slot string) bool { return s.op.In(slot) != "" && s.op.In(slot) != Empty }

// dims returns the declared dims of the variable of an input slot.
func (s *splitter) dims(slot string) []int64 {
	v, ok := s.block.Find(s.op.In(slot))
	if !ok {
		s.failed = true
		return nil
	}
	return v.Dims
}

// between makes a variable for a result between two parts. It is declared as out, the output slot that takes the end of them: inference finds its dims.
func (s *splitter) between(out string) string { return s.temporary(s.op.Out(out)) }

// temporary makes a variable that is declared as another one, but does not outlive a run.
func (s *splitter) temporary(like string) string {
	v := Var{Kind: LoDTensor}
	if end, ok := s.block.Find(like); ok {
		v = end.Copy("")
	}
	v.Name = s.block.Program().UniqueName(s.op.Type + ".tmp")
	v.Persistable, v.IsParameter, v.NeedCheckFeed = false, false, false
	s.block.EnsureVar(v)
	return v.Name
}

// slots are the variables of an op by slot, one each.
type slots = map[string]string

// add appends a part. It has the attributes of attrs, those of the merged op that say who wrote it and where, and those that keep names.
func (s *splitter) add(opType string, in map[string][]string, out slots, attrs map[string]Attr, keep ...string) {
	op := &Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{}, Attrs: map[string]Attr{}}
	for slot, names := range in {
		if len(names) > 0 && names[0] != "" {
			op.Inputs[slot] = names
		}
	}
	for slot, name := range out {
		op.Outputs[slot] = []string{name}
	}
	for name, value := range s.op.Attrs {
		if strings.HasPrefix(name, "op_") || slices.Contains(keep, name) {
			op.Attrs[name] = value
		}
	}
	maps.Copy(op.Attrs, attrs)
	s.made = append(s.made, op)
}

// pair appends an op of X and Y to Out, and unary one of X to Out.
func (s *splitter) pair(opType, x, y, out string, attrs map[string]Attr) {
	s.add(opType, map[string][]string{"X": {x}, "Y": {y}}, slots{"Out": out}, attrs)
}

func (s *splitter) unary(opType, x, out string, attrs map[string]Attr) {
	s.add(opType, map[string][]string{"X": {x}}, slots{"Out": out}, attrs)
}

// out returns the variable of an output slot, which must hold one.
func (s *splitter) out(slot string) string {
	name := s.op.Out(slot)
	if name == "" || name == Empty {
		s.failed = true
	}
	return name
}

// activate appends an activation, "" for none, so that the result lands in end. It returns the variable that the op before it writes.
func (s *splitter) activate(activation, slot string) (before string, finish func()) {
	end := s.out(slot)
	if activation == "" || activation == "identity" {
		return end, func() {}
	}
	before = s.between(slot)
	return before, func() { s.unary(activation, before, end, nil) }
}

func splitFC(s *splitter) bool {
	if padded, _ := s.op.Bool("padding_weights"); padded {
		return false
	}
	axes := int32(1)
	if n, ok := s.op.Int("in_num_col_dims"); ok {
		axes = int32(n)
	}
	activation, _ := s.op.Str("activation_type")
	attrs := fusedAttrs(s.op, activation)
	if attrs == nil && activation != "identity" {
		return false
	}
	before, finish := s.activate(strings.TrimSuffix(strings.TrimSuffix(activation, "_erf"), "_tanh"), "Out")
	if len(attrs) > 0 {
		finish = func() {
			s.unary(strings.TrimSuffix(strings.TrimSuffix(activation, "_erf"), "_tanh"), before, s.out("Out"), attrs)
		}
	}
	product, sum := before, before
	if s.has("ResidualData") { // passes for oneDNN add it
		sum = s.between("Out")
		product = sum
	}
	if s.has("Bias") {
		product = s.between("Out")
	}
	s.pair("mul", s.in("Input"), s.in("W"), product, map[string]Attr{"x_num_col_dims": axes, "y_num_col_dims": int32(1)})
	if s.has("Bias") {
		s.pair("elementwise_add", product, s.in("Bias"), sum, map[string]Attr{"axis": int32(-1)})
	}
	if s.has("ResidualData") {
		s.pair("elementwise_add", sum, s.in("ResidualData"), before, nil)
	}
	finish()
	return true
}

func splitConv(s *splitter) bool {
	if channels, _ := s.op.Ints("split_channels"); len(channels) > 0 {
		return false
	}
	activation, ok := s.op.Str("activation")
	if !ok {
		activation = "relu"
	}
	before, finish := s.activate(activation, "Output")
	if alpha, given := s.op.Float("fuse_alpha"); activation == "leaky_relu" && given {
		finish = func() { s.unary(activation, before, s.out("Output"), map[string]Attr{"alpha": float32(alpha)}) }
	}
	channel := int32(1)
	if format, _ := s.op.Str("data_format"); format == "NHWC" {
		channel = -1
	}
	image := s.between("Output")
	s.add("conv2d", map[string][]string{"Input": {s.in("Input")}, "Filter": {s.in("Filter")}}, slots{"Output": image}, nil,
		"strides", "paddings", "dilations", "groups", "padding_algorithm", "data_format")
	sum := before
	if s.has("ResidualData") {
		sum = s.between("Output")
	}
	s.pair("elementwise_add", image, s.in("Bias"), sum, map[string]Attr{"axis": channel})
	if s.has("ResidualData") {
		s.pair("elementwise_add", sum, s.in("ResidualData"), before, nil)
	}
	finish()
	return true
}

func splitElementwise(s *splitter) bool {
	functions, _ := s.op.Strs("functor_list")
	if len(functions) != 2 {
		return false
	}
	attrs := s.functionAttrs
	first, second, end, middle := functions[0], functions[1], s.out("Out"), s.op.Out("IntermediateOut")
	if middle == "" || middle == Empty {
		middle = s.between("Out")
	}
	switch isPair := strings.HasPrefix(first, "elementwise_"); {
	case isPair == strings.HasPrefix(second, "elementwise_"):
		return false
	case isPair: // first(X, second(Y))
		s.unary(second, s.in("Y"), middle, attrs(second))
		s.pair(first, s.in("X"), middle, end, attrs(first))
	default: // first(second(X, Y))
		s.pair(second, s.in("X"), s.in("Y"), middle, attrs(second))
		s.unary(first, middle, end, attrs(first))
	}
	return true
}

// layerNorm appends the end of an op that normalises rows of the last axis of three.
func (s *splitter) layerNorm(x string) {
	begin := Attr(int32(2))
	if given, ok := s.op.Attrs["begin_norm_axis"]; ok {
		begin = given
	}
	s.add("layer_norm", map[string][]string{"X": {x}, "Scale": {s.in("Scale")}, "Bias": {s.in("Bias")}},
		slots{"Y": s.out("Out")}, map[string]Attr{"begin_norm_axis": begin}, "epsilon")
}

func splitSkipLayerNorm(s *splitter) bool {
	sum := s.between("Out")
	s.pair("elementwise_add", s.in("X"), s.in("Y"), sum, nil)
	s.layerNorm(sum)
	return true
}

func splitEmbeddingLayerNorm(s *splitter) bool {
	ids, tables := s.op.Inputs["Ids"], s.op.Inputs["Embs"]
	if len(ids) == 0 || len(ids) != len(tables) {
		return false
	}
	var rows []string
	for i, name := range ids {
		lookup := "lookup_table_v2"
		if v, ok := s.block.Find(name); ok && len(v.Dims) == 3 && v.Dims[2] == 1 {
			lookup = "lookup_table"
		}
		rows = append(rows, s.between("Out"))
		s.add(lookup, map[string][]string{"W": {tables[i]}, "Ids": {name}}, slots{"Out": rows[i]}, nil)
	}
	sum := s.between("Out")
	s.add("sum", map[string][]string{"X": rows}, slots{"Out": sum}, nil)
	s.layerNorm(sum)
	return true
}

// splitMultihead writes attention: Q, K and V come from one product with W [N, 3, heads, size] or [N, 3, heads*size].
func splitMultihead(s *splitter) bool {
	w := s.dims("W")
	heads, _ := s.op.Int("head_number")
	if s.failed || len(w) < 3 || w[1] != 3 || heads < 1 {
		return false
	}
	width := int64(1)
	for _, extent := range w[2:] {
		if extent < 1 || extent > math.MaxInt32/width {
			return false
		}
		width *= extent
	}
	if width%heads != 0 {
		return false
	}
	shape := func(dims ...int64) map[string]Attr {
		list := make([]int32, len(dims))
		for i, extent := range dims {
			list[i] = int32(extent)
		}
		return map[string]Attr{"shape": list}
	}
	wide, bias, sum, five, lanes := s.between("Out"), s.between("Out"), s.between("Out"), s.between("Out"), s.between("Out")
	s.pair("mul", s.in("Input"), s.in("W"), wide, map[string]Attr{"x_num_col_dims": int32(2), "y_num_col_dims": int32(1)})
	s.unary("reshape", s.in("Bias"), bias, shape(w[1:]...))
	s.pair("elementwise_add", wide, bias, sum, map[string]Attr{"axis": int32(2)})
	s.unary("reshape", sum, five, shape(0, 0, 3, heads, width/heads))
	s.unary("transpose", five, lanes, map[string]Attr{"axis": []int32{2, 0, 3, 1, 4}})
	var parts [3]string // Q, K and V, [batch, heads, rows, size]
	for i := range parts {
		parts[i] = s.between("Out")
		s.add("slice", map[string][]string{"Input": {lanes}}, slots{"Out": parts[i]},
			map[string]Attr{"axes": []int32{0}, "starts": []int32{int32(i)}, "ends": []int32{int32(i + 1)}, "decrease_axis": []int32{0}})
	}
	alpha := Attr(float32(1))
	if given, ok := s.op.Attrs["alpha"]; ok {
		alpha = given
	}
	scores := s.between("Out")
	s.pair("matmul", parts[0], parts[1], scores, map[string]Attr{"transpose_Y": true, "alpha": alpha})
	if s.has("BiasQK") {
		masked := s.between("Out")
		s.pair("elementwise_add", scores, s.in("BiasQK"), masked, nil)
		scores = masked
	}
	weights, mixed, rows := s.between("Out"), s.between("Out"), s.between("Out")
	s.unary("softmax", scores, weights, map[string]Attr{"axis": int32(-1)})
	s.pair("matmul", weights, parts[2], mixed, nil)
	s.unary("transpose", mixed, rows, map[string]Attr{"axis": []int32{0, 2, 1, 3}})
	s.unary("reshape", rows, s.out("Out"), shape(0, 0, width))
	return true
}

// splitSquaredMatSub writes scalar*((X*Y)**2 - X**2 * Y**2) of matrices.
func splitSquaredMatSub(s *splitter) bool {
	product, squared, x, y, xy, difference := s.between("Out"), s.between("Out"), s.between("Out"), s.between("Out"), s.between("Out"), s.between("Out")
	s.pair("matmul", s.in("X"), s.in("Y"), product, nil)
	s.unary("square", product, squared, nil)
	s.unary("square", s.in("X"), x, nil)
	s.unary("square", s.in("Y"), y, nil)
	s.pair("matmul", x, y, xy, nil)
	s.pair("elementwise_sub", squared, xy, difference, nil)
	scale := Attr(float32(1))
	if given, ok := s.op.Attrs["scalar"]; ok {
		scale = given
	}
	s.unary("scale", difference, s.out("Out"), map[string]Attr{"scale": scale})
	return true
}

func splitRepeatedFC(s *splitter) bool {
	weights, biases := s.op.Inputs["W"], s.op.Inputs["Bias"]
	if len(weights) == 0 || len(weights) != len(biases) {
		return false
	}
	x := s.in("X")
	for i := range weights {
		product, sum, end := s.between("Out"), s.between("Out"), s.out("Out")
		if i < len(weights)-1 {
			end = s.between("Out")
		}
		s.pair("mul", x, weights[i], product, nil)
		s.pair("elementwise_add", product, biases[i], sum, nil)
		s.unary("relu", sum, end, nil)
		x = end
	}
	return true
}

// leaveTable leaves out that an op writes its table as it is, which Fluid needs to fetch rows of it: here a variable that is trained has one value in a step.
func leaveTable(s *splitter) bool {
	if s.op.Out("W_Out") != s.in("W") {
		return false
	}
	op := s.op.Clone()
	delete(op.Outputs, "W_Out")
	s.made = []*Op{op}
	return true
}
