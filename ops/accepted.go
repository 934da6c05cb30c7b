package ops

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A foreignAttr is an attribute that Fluid writes and that the ops here do not define. With one of the values it does not change what the op
// computes. Any other value asks for something that this build does not have.
type foreignAttr struct {
	ops    string         // type of the ops without _grad, as a pattern of path.Match
	names  string         // attributes, separated by spaces
	values []program.Attr // with which they have no effect; none: no value has one
	unless string         // the attribute only counts if this one, which has an entry of its own, has an effect; for readers of the table
}

// foreignAttrs is what Fluid 0.10 to 1.8 and Paddle 2 put on ops in addition to the attributes that the definitions list. Empty lists are written
// with any element type.
var foreignAttrs = []foreignAttr{
	// Choices of kernels and devices, and marks that other tools leave.
	{ops: "*", names: "use_cudnn use_mkldnn use_onednn exhaustive_search workspace_size_MB use_addto user_defined_device force_cpu inplace is_test"},
	{ops: "*", names: "skip_eager_deletion_vars"}, // plans find out how long a value lives
	{ops: "*", names: "with_quant_attr skip_quant quantization_type out_threshold bit_length"},
	{ops: "*", names: "grad_merge_cond_name"},        // when sums of gradients travel: here the update says it
	{ops: "*", names: "x_data_format y_data_format"}, // layouts in the memory of oneDNN
	{ops: "*", names: "data_format data_layout", values: []program.Attr{"NCHW", "AnyLayout", "ANYLAYOUT", ""}},
	{ops: "*", names: "padding_algorithm", values: []program.Attr{"EXPLICIT"}},
	// Arithmetic with fewer bits.
	{ops: "*", names: "mkldnn_data_type", values: []program.Attr{"float32", ""}},
	{ops: "*", names: "use_quantizer force_fp32_output multi_precision", values: []program.Attr{false}},
	{ops: "*", names: "quantize_weight_bits weight_bits", values: []program.Attr{int32(0)}},
	{ops: "*", names: "Scale_in Scale_in_eltwise Scale_out Scale_x Scale_y scale_in scale_out scale_x", values: []program.Attr{float32(1)}},
	{ops: "*", names: "Scale_weights scale_weights scale_y Scale_y Scale_x", values: []program.Attr{[]float32{1}, []float32{}}},
	// Ops that a pass has merged into this one.
	{ops: "*", names: "fuse_relu fuse_with_relu fuse_brelu fuse_residual_connection fuse_relu_before_depthwise_conv", values: []program.Attr{false}},
	{ops: "*", names: "fuse_activation fuse_activation_type", values: []program.Attr{""}},
	{ops: "*", names: "fuse_alpha fuse_beta", unless: "fuse_activation"},
	{ops: "*", names: "fuse_activation_alpha fuse_activation_beta fuse_activation_scale", unless: "fuse_activation_type"},
	{ops: "*", names: "fused_unsqueeze2_axes fused_squeeze2_axes fused_reshape2_shape", values: []program.Attr{[]int32{}}},
	{ops: "*", names: "fused_output_scale", values: []program.Attr{float32(1)}},
	{ops: "transpose*", names: "scale", values: []program.Attr{float32(1)}},
	{ops: "transpose*", names: "shift", values: []program.Attr{float32(0)}},
	{ops: "transpose*", names: "output_data_type", values: []program.Attr{""}},
	{ops: "*", names: "fuse_brelu_threshold", unless: "fuse_brelu"},
	{ops: "matmul*", names: "fused_reshape_X fused_reshape_Y fused_reshape_Out fused_transpose_X fused_transpose_Y fused_transpose_Out",
		values: []program.Attr{[]int32{}}},
	{ops: "matmul", names: "head_number", values: []program.Attr{int32(1)}},
	// Where tables are: the transpiler of EDL decides it anew.
	{ops: "*", names: "endpoints epmap height_sections table_names trainer_id trainers_num remote_prefetch is_sparse is_distributed"},
	{ops: "lookup_table*", names: "slot"},
	{ops: "lookup_table*", names: "grad_inplace", values: []program.Attr{false}},
	{ops: "fused_embedding_seq_pool*", names: "grad_inplace", values: []program.Attr{false}},
	{ops: "lookup_table*", names: "entry", values: []program.Attr{"none", ""}},
	{ops: "lookup_table*", names: "entry_config", unless: "entry"},
	// Later options of old ops.
	{ops: "data_norm", names: "summary_decay_rate"}, // the kernels of GPUs update the sums with it, those of CPUs do not
	{ops: "data_norm", names: "slot_dim", values: []program.Attr{int32(-1), int32(0)}},
	{ops: "data_norm", names: "sync_stats enable_scale_and_shift", values: []program.Attr{false}},
	{ops: "reduce_*", names: "in_dtype out_dtype", values: []program.Attr{int32(-1)}},
	{ops: "fill_constant", names: "place_type", values: []program.Attr{int32(-1), int32(0)}},
	{ops: "uniform_random*", names: "diag_num", values: []program.Attr{int32(0)}},
	{ops: "uniform_random*", names: "diag_step diag_val", unless: "diag_num"},
	{ops: "truncated_gaussian_random", names: "a", values: []program.Attr{float32(-2)}},
	{ops: "truncated_gaussian_random", names: "b", values: []program.Attr{float32(2)}},
	{ops: "softmax_with_cross_entropy", names: "numeric_stable_mode"}, // EDL computes the stable way always
	{ops: "softmax_with_cross_entropy", names: "axis", values: []program.Attr{int32(-1)}},
	{ops: "warpctc", names: "norm_by_batchsize norm_by_total_logits_len", values: []program.Attr{false}},
	{ops: "*momentum", names: "regularization_method", values: []program.Attr{""}},
	{ops: "*momentum", names: "regularization_coeff", unless: "regularization_method"},
	{ops: "*momentum", names: "rescale_grad", values: []program.Attr{float32(1)}},
	{ops: "adam*", names: "use_global_beta_pow", values: []program.Attr{false}},
	{ops: "mish", names: "threshold", values: []program.Attr{float32(20)}}, // above, Fluid takes X for log(1 + e**X): the difference is below 3e-9
	{ops: "unpool3d", names: "data_format", values: []program.Attr{"NCDHW"}},
	{ops: "read", names: "throw_eof_exp drop_last infer_out"}, // drop_last is about batches that devices of one process share
	{ops: "quantize_linear", names: "moving_rate"},            // of training, which the op refuses
	{ops: "set_value", names: "fp16_values", values: []program.Attr{[]float32{}}},
	{ops: "fill_zeros_like*", names: "dtype"}, // always the type of X
	{ops: "load_combine", names: "model_from_memory", values: []program.Attr{false}},
	{ops: "save_combine", names: "save_to_memory", values: []program.Attr{false}},
	{ops: "load", names: "seek", values: []program.Attr{int32(-1)}},
	{ops: "load", names: "shape", unless: "seek"}, // the dims of the part that begins at seek
}

// checkAttrNames reports attributes that neither the op nor its forward op defines and that Fluid does not write, and those that Fluid writes
// with a value that changes what the op computes. If they were ignored, another model would run without a warning.
func checkAttrNames(op *program.Op, def *Def) fault.List {
	forward, hasForward := Lookup(strings.TrimSuffix(op.Type, "_grad"))
	var faults fault.List
	for _, name := range slices.Sorted(maps.Keys(op.Attrs)) {
		if def.hasAttr(name) || hasForward && forward.hasAttr(name) || strings.HasPrefix(name, "op_") || strings.HasPrefix(name, "@") ||
			strings.HasPrefix(name, "__") || isThreshold(op, name) {
			continue
		}
		if f := checkForeign(op, name); f != nil {
			faults.Add(f)
		}
	}
	return faults
}

// isThreshold reports whether an attribute such as Input0_threshold is the largest value that a quantizer has seen of a variable of op: a mark for other tools.
func isThreshold(op *program.Op, name string) bool {
	place, ok := strings.CutSuffix(name, "_threshold")
	slot := strings.TrimRight(place, "0123456789")
	return ok && slot != place && len(op.Inputs[slot])+len(op.Outputs[slot])+len(op.Inputs[program.GradName(slot)]) > 0
}

// checkForeign reports an attribute that the definition of op does not list, unless it has no effect.
func checkForeign(op *program.Op, name string) *fault.Fault {
	opType, value := strings.TrimSuffix(op.Type, "_grad"), op.Attrs[name]
	var wanted []string
	for _, a := range foreignAttrs {
		if matches, _ := path.Match(a.ops, opType); !matches || !slices.Contains(strings.Fields(a.names), name) {
			continue
		}
		if len(a.values) == 0 {
			return nil
		}
		for _, v := range a.values {
			if sameAttr(op, name, v) {
				return nil
			}
			wanted = append(wanted, fmt.Sprintf("%#v", v))
		}
	}
	if wanted == nil {
		return fault.E(fault.Unsupported, fault.Got("attribute "+fault.Quote(name)+", which this build does not know"),
			fault.Want("an attribute that `edl show ops "+op.Type+"` lists"))
	}
	for i, text := range wanted {
		wanted[i] = strings.NewReplacer("[]float32", "", "[]int32", "").Replace(text)
	}
	hint := ""
	if name == "mkldnn_data_type" || strings.HasPrefix(name, "Scale_") || strings.HasPrefix(name, "scale_") {
		hint = beforeQuantized
	}
	return fault.E(fault.Unsupported, fault.Got("attribute "+name+" = "+fault.Quote(fmt.Sprint(value))), fault.Wantf("%s: this build has no other value yet",
		strings.Join(wanted, " or ")), fault.Hint(hint))
}

// sameAttr reports whether the attribute has the value v, whichever type of the same sort it was written with.
func sameAttr(op *program.Op, name string, v program.Attr) bool {
	switch v := v.(type) {
	case bool:
		got, ok := op.Bool(name)
		return ok && got == v
	case int32:
		got, ok := op.Int(name)
		return ok && got == int64(v)
	case float32:
		got, ok := op.Float(name)
		return ok && got == float64(v)
	case string:
		got, ok := op.Str(name)
		return ok && got == v
	case []int32:
		if got, ok := op.Ints(name); ok {
			return slices.EqualFunc(got, v, func(a int64, b int32) bool { return a == int64(b) })
		}
		return len(v) == 0 && program.IsEmptyList(op.Attrs[name])
	case []float32:
		if got, ok := op.Floats(name); ok {
			return slices.EqualFunc(got, v, func(a float64, b float32) bool { return a == float64(b) })
		}
		return len(v) == 0 && program.IsEmptyList(op.Attrs[name])
	}
	return false
}
