package program_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// split writes an op to a file, reads it, and returns the types of the ops that it became. The variables w has these dims.
func split(t *testing.T, op *program.Op, w ...int64) string {
	t.Helper()
	p := program.New()
	for _, name := range append(op.InputNames(), op.OutputNames()...) {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: w})
	}
	p.Global().Append(&program.Op{Type: "before"})
	p.Global().Append(op)
	p.Global().Append(&program.Op{Type: "after"})
	var types []string
	read := decode(t, encode(t, p))
	known := op.InputNames()
	for _, made := range read.Global().Ops {
		for _, name := range made.InputNames() {
			if !slices.Contains(known, name) {
				t.Errorf("%s reads %q, which no part has written", made.Type, name)
			}
		}
		known = append(known, made.OutputNames()...)
		types = append(types, made.Type)
		for _, name := range append(made.InputNames(), made.OutputNames()...) {
			if !read.Global().Declares(name) {
				t.Errorf("%s: nothing declares %q", made.Type, name)
			}
		}
	}
	all := strings.Join(types, " ")
	rest, ok := strings.CutPrefix(all, "before ")
	rest, last := strings.CutSuffix(rest, " after")
	if !ok || !last {
		t.Errorf("the ops around it have changed: %s", all)
	}
	return rest
}

func TestMergedOpsAreReadAsTheirParts(t *testing.T) {
	one := func(slots ...string) map[string][]string {
		m := map[string][]string{}
		for _, slot := range slots {
			m[slot] = []string{"of " + slot}
		}
		return m
	}
	for _, c := range []struct {
		name   string
		op     program.Op
		w      []int64
		result string
	}{
		{"a branch for inference", program.Op{Type: "conditional_block_infer", Inputs: one("Cond"), Outputs: one("Out")}, nil, "conditional_block"},
		{"a sum of gradients", program.Op{Type: "grad_add", Inputs: one("X", "Y"), Outputs: one("Out")}, nil, "elementwise_add"},
		{"masked softmax", program.Op{Type: "softmax_mask_fuse", Inputs: one("X", "Mask"), Outputs: one("Out")}, nil, "elementwise_add softmax"},
		{"product and normalisation", program.Op{Type: "fused_fc_elementwise_layernorm", Inputs: one("X", "W", "Bias0", "Y", "Scale", "Bias1"), Outputs: one("Out"),
			Attrs: map[string]program.Attr{"activation_type": "relu"}}, nil, "mul elementwise_add relu elementwise_add layer_norm"},
		{"transposes", program.Op{Type: "fusion_transpose_flatten_concat", Inputs: map[string][]string{"X": {"a", "b"}}, Outputs: one("Out"), Attrs: map[string]program.Attr{"trans_axis": []int32{0, 2, 3, 1}}}, nil,
			"transpose flatten transpose flatten concat"},
		{"pooled sequences", program.Op{Type: "fusion_seqpool_concat", Inputs: map[string][]string{"X": {"a", "b"}}, Outputs: one("Out")}, nil, "sequence_pool sequence_pool concat"},
		{"expanded sequences", program.Op{Type: "fusion_seqexpand_concat_fc", Inputs: map[string][]string{"X": {"a", "b"}, "FCWeight": {"w"}, "FCBias": {"v"}}, Outputs: one("Out"),
			Attrs: map[string]program.Attr{"fc_activation": "tanh"}}, nil, "sequence_expand concat mul elementwise_add tanh"},
		{"updates", program.Op{Type: "merged_momentum", Inputs: map[string][]string{"Param": {"a", "b"}, "Grad": {"c", "d"}, "Velocity": {"u", "v"}, "LearningRate": {"r"}},
			Outputs: map[string][]string{"ParamOut": {"a", "b"}, "VelocityOut": {"u", "v"}}}, nil, "momentum momentum"},
		{"updates with a penalty", program.Op{Type: "merged_momentum", Inputs: map[string][]string{"Param": {"a"}, "Grad": {"c"}, "Velocity": {"u"}, "LearningRate": {"r"}},
			Outputs: map[string][]string{"ParamOut": {"a"}, "VelocityOut": {"u"}}, Attrs: map[string]program.Attr{"regularization_method": []string{"l2_decay"}}}, nil, "merged_momentum"},
		{"updates of other numbers", program.Op{Type: "merged_adam", Inputs: map[string][]string{"Param": {"a", "b", "e"}, "Grad": {"c", "d"}}, Outputs: map[string][]string{"ParamOut": {"a", "b", "e"}}}, nil, "merged_adam"},
		{"fc without bias", program.Op{Type: "fc", Inputs: one("Input", "W"), Outputs: one("Out")}, nil, "mul"},
		{"fc", program.Op{Type: "fc", Inputs: one("Input", "W", "Bias"), Outputs: one("Out"), Attrs: map[string]program.Attr{"activation_type": "relu"}}, nil, "mul elementwise_add relu"},
		{"fc of padded weights", program.Op{Type: "fc", Inputs: one("Input", "W"), Outputs: one("Out"), Attrs: map[string]program.Attr{"padding_weights": true}}, nil, "fc"},
		{"fc without a result", program.Op{Type: "fc", Inputs: one("Input", "W")}, nil, "fc"},
		{"fc without an input", program.Op{Type: "fc", Inputs: one("W"), Outputs: one("Out")}, nil, "fc"},
		{"convolution that is split", program.Op{Type: "conv2d_fusion", Inputs: one("Input", "Filter", "Bias"), Outputs: one("Output"),
			Attrs: map[string]program.Attr{"split_channels": []int32{1, 2}}}, nil, "conv2d_fusion"},
		{"convolution", program.Op{Type: "conv2d_fusion", Inputs: one("Input", "Filter", "Bias"), Outputs: one("Output")}, nil, "conv2d elementwise_add relu"},
		{"two unary functions", program.Op{Type: "fused_elemwise_activation", Inputs: one("X", "Y"), Outputs: one("Out"),
			Attrs: map[string]program.Attr{"functor_list": []string{"relu", "tanh"}}}, nil, "fused_elemwise_activation"},
		{"a function of a sum", program.Op{Type: "fused_elemwise_activation", Inputs: one("X", "Y"), Outputs: one("Out", "IntermediateOut"),
			Attrs: map[string]program.Attr{"functor_list": []string{"relu", "elementwise_add"}, "save_intermediate_out": true}}, nil, "elementwise_add relu"},
		{"its gradient", program.Op{Type: "fused_elemwise_activation_grad", Inputs: one("X", "Y", "Out", "IntermediateOut", "Out@GRAD"), Outputs: one("X@GRAD", "Y@GRAD"),
			Attrs: map[string]program.Attr{"functor_list": []string{"relu_grad", "elementwise_add_grad"}}}, nil, "relu_grad elementwise_add_grad"},
		{"the gradient of a product with a function", program.Op{Type: "fused_elemwise_activation_grad", Inputs: one("X", "Y", "Out", "Out@GRAD"), Outputs: one("X@GRAD", "Y@GRAD"),
			Attrs: map[string]program.Attr{"functor_list": []string{"elementwise_mul_grad", "scale_grad"}, "scale": float32(2)}}, nil, "scale elementwise_mul_grad scale"},
		{"of the other factor alone", program.Op{Type: "fused_elemwise_activation_grad", Inputs: one("X", "Y", "Out", "Out@GRAD"), Outputs: one("X@GRAD"),
			Attrs: map[string]program.Attr{"functor_list": []string{"elementwise_mul_grad", "tanh_grad"}}}, nil, "tanh elementwise_mul_grad"},
		{"without the first factor", program.Op{Type: "fused_elemwise_activation_grad", Inputs: one("Y", "Out", "Out@GRAD"), Outputs: one("Y@GRAD"),
			Attrs: map[string]program.Attr{"functor_list": []string{"elementwise_mul_grad", "tanh_grad"}}}, nil, "fused_elemwise_activation_grad"},
		{"the gradient of a sum that is normalised", program.Op{Type: "fused_bn_add_activation_grad", Inputs: one("X", "Y", "Scale", "Bias", "SavedMean", "SavedVariance", "Y@GRAD"),
			Outputs: one("X@GRAD", "Z@GRAD", "Scale@GRAD", "Bias@GRAD"), Attrs: map[string]program.Attr{"act_type": "relu"}}, nil, "relu_grad batch_norm_grad"},
		{"of another activation", program.Op{Type: "fused_batch_norm_act_grad", Inputs: one("X", "Y", "Scale", "Bias", "SavedMean", "SavedVariance", "Y@GRAD"),
			Outputs: one("X@GRAD"), Attrs: map[string]program.Attr{"act_type": "tanh"}}, nil, "fused_batch_norm_act_grad"},
		{"lookups", program.Op{Type: "fused_embedding_eltwise_layernorm", Inputs: map[string][]string{"Ids": {"a", "b"}, "Embs": {"u", "v"}, "Scale": {"s"}, "Bias": {"t"}},
			Outputs: one("Out")}, []int64{2, 3, 1}, "lookup_table lookup_table sum layer_norm"},
		{"lookups of ids without a last 1", program.Op{Type: "fused_embedding_eltwise_layernorm", Inputs: map[string][]string{"Ids": {"a"}, "Embs": {"u"}, "Scale": {"s"}, "Bias": {"t"}},
			Outputs: one("Out")}, []int64{2, 3}, "lookup_table_v2 sum layer_norm"},
		{"more ids than tables", program.Op{Type: "fused_embedding_eltwise_layernorm", Inputs: map[string][]string{"Ids": {"a", "b"}, "Embs": {"u"}, "Scale": {"s"}, "Bias": {"t"}},
			Outputs: one("Out")}, nil, "fused_embedding_eltwise_layernorm"},
		{"attention", program.Op{Type: "multihead_matmul", Inputs: one("Input", "W", "Bias"), Outputs: one("Out"), Attrs: map[string]program.Attr{"head_number": int32(2)}}, []int64{4, 3, 4},
			"mul reshape elementwise_add reshape transpose slice slice slice matmul softmax matmul transpose reshape"},
		{"attention of heads that do not divide", program.Op{Type: "multihead_matmul", Inputs: one("Input", "W", "Bias"), Outputs: one("Out"),
			Attrs: map[string]program.Attr{"head_number": int32(3)}}, []int64{4, 3, 4}, "multihead_matmul"},
		{"attention of huge weights", program.Op{Type: "multihead_matmul", Inputs: one("Input", "W", "Bias"), Outputs: one("Out"),
			Attrs: map[string]program.Attr{"head_number": int32(1)}}, []int64{4, 3, 1 << 40, 1 << 40}, "multihead_matmul"},
		{"convolution of sequences", program.Op{Type: "fusion_seqconv_eltadd_relu", Inputs: one("X", "Filter", "Bias"), Outputs: one("Out", "ColMat")}, nil,
			"sequence_conv elementwise_add relu"},
		{"lstm of lookups", program.Op{Type: "fused_embedding_fc_lstm", Inputs: one("Ids", "Embeddings", "WeightH", "Bias"), Outputs: one("Hidden", "XX"),
			Attrs: map[string]program.Attr{"use_peepholes": false}}, []int64{2, 8}, "scale lookup_table lstm"},
		{"lstm with peepholes of lookups", program.Op{Type: "fused_embedding_fc_lstm", Inputs: one("Ids", "Embeddings", "WeightH", "Bias"), Outputs: one("Hidden")}, []int64{2, 8},
			"slice fill_constant concat lookup_table lstm"},
		{"eigenvalues", program.Op{Type: "eigvalsh", Inputs: one("X"), Outputs: one("Eigenvalues", "Eigenvectors"), Attrs: map[string]program.Attr{"UPLO": "L", "is_test": true}}, nil, "eigh"},
		{"lstm", program.Op{Type: "fusion_lstm", Inputs: one("X", "WeightX", "WeightH", "Bias"), Outputs: one("Hidden", "XX")}, nil, "mul lstm"},
		{"convolution of oneDNN", program.Op{Type: "conv2d", Inputs: one("Input", "Filter", "Bias", "ResidualData"), Outputs: one("Output"),
			Attrs: map[string]program.Attr{"fuse_activation": "leaky_relu", "fuse_alpha": float32(0.25), "fuse_residual_connection": true}}, nil, "conv2d elementwise_add leaky_relu"},
		{"convolution and relu", program.Op{Type: "depthwise_conv2d", Inputs: one("Input", "Filter"), Outputs: one("Output"), Attrs: map[string]program.Attr{"fuse_relu": true}}, nil, "depthwise_conv2d relu"},
		{"convolution alone", program.Op{Type: "fused_conv2d", Inputs: one("Input", "Filter"), Outputs: one("Output")}, nil, "conv2d"},
		{"convolution and what nobody knows", program.Op{Type: "conv2d", Inputs: one("Input", "Filter"), Outputs: one("Output"), Attrs: map[string]program.Attr{"fuse_activation": "new"}}, nil, "conv2d"},
		{"product with a bias", program.Op{Type: "fused_gemm_epilogue", Inputs: one("X", "Y", "Bias"), Outputs: one("Out"), Attrs: map[string]program.Attr{"activation": "relu", "trans_y": true}}, nil,
			"matmul_v2 elementwise_add relu"},
		{"product whose gradient reads more", program.Op{Type: "fused_gemm_epilogue", Inputs: one("X", "Y", "Bias"), Outputs: one("Out", "ReserveSpace")}, nil, "fused_gemm_epilogue"},
		{"normalisation and relu", program.Op{Type: "batch_norm", Inputs: one("X", "Scale", "Bias", "Mean", "Variance"), Outputs: one("Y"), Attrs: map[string]program.Attr{"fuse_with_relu": true}}, nil,
			"batch_norm relu"},
		{"truth of numbers", program.Op{Type: "logical_and", Inputs: one("X", "Y"), Outputs: one("Out")}, []int64{2}, "cast cast logical_and"},
		{"dropout of elements", program.Op{Type: "dropout_nd", Inputs: one("X"), Outputs: one("Out"), Attrs: map[string]program.Attr{"axis": []int32{}}}, nil, "dropout"},
		{"dropout of parts", program.Op{Type: "dropout_nd", Inputs: one("X"), Outputs: one("Out"), Attrs: map[string]program.Attr{"axis": []int32{0}}}, nil, "dropout_nd"},
		{"pooled clicks", program.Op{Type: "fusion_seqpool_cvm_concat", Inputs: map[string][]string{"X": {"a", "b"}, "CVM": {"c"}}, Outputs: one("Out"), Attrs: map[string]program.Attr{"use_cvm": true}}, nil,
			"sequence_pool cvm sequence_pool cvm concat"},
		{"products", program.Op{Type: "multi_dot", Inputs: map[string][]string{"X": {"a", "b", "c"}}, Outputs: one("Out")}, nil, "matmul_v2 matmul_v2"},
		{"one product", program.Op{Type: "multi_dot", Inputs: map[string][]string{"X": {"a"}}, Outputs: one("Out")}, nil, "multi_dot"},
		{"shuffled channels", program.Op{Type: "channel_shuffle", Inputs: one("X"), Outputs: one("Out"), Attrs: map[string]program.Attr{"groups": int32(2)}}, nil, "shuffle_channel"},
		{"attention with what is drawn", program.Op{Type: "fused_attention", Inputs: one("X", "QKVW", "OutLinearW"), Outputs: one("Y", "QKVOut"), Attrs: map[string]program.Attr{"pre_layer_norm": true}}, []int64{3, 2, 2, 4},
			"layer_norm reshape matmul_v2 reshape transpose slice slice slice matmul softmax dropout matmul transpose reshape matmul_v2 dropout elementwise_add"},
		{"attention of flat weights", program.Op{Type: "fused_attention", Inputs: one("X", "QKVW", "OutLinearW", "CacheKV"), Outputs: one("Y", "CacheKVOut"),
			Attrs: map[string]program.Attr{"transpose_qkv_wb": true, "num_heads": int32(2), "add_residual": false}}, []int64{4, 12},
			"matmul_v2 reshape transpose slice slice concat slice slice matmul softmax dropout matmul transpose reshape matmul_v2 dropout layer_norm"},
		{"attention of weights that others have, too", program.Op{Type: "fused_attention", Inputs: one("X", "QKVW", "OutLinearW"), Outputs: one("Y"), Attrs: map[string]program.Attr{"ring_id": int32(0)}}, []int64{3, 2, 2, 4},
			"fused_attention"},
		{"attention of huge heads", program.Op{Type: "fused_attention", Inputs: one("X", "QKVW", "OutLinearW"), Outputs: one("Y")}, []int64{3, 1 << 31, 1 << 31, 4}, "fused_attention"},
		{"feedforward of other activations", program.Op{Type: "fused_feedforward", Inputs: one("X", "Linear1Weight", "Linear2Weight"), Outputs: one("Out"), Attrs: map[string]program.Attr{"act_method": "new"}},
			[]int64{2, 3, 4}, "fused_feedforward"},
		{"layers with a cache", program.Op{Type: "fused_multi_transformer", Inputs: one("X", "QKVW", "OutLinearW", "FFN1Weight", "FFN2Weight", "CacheKV"), Outputs: one("Out"),
			Attrs: map[string]program.Attr{"is_test": true}}, []int64{3, 2, 2, 4}, "fused_multi_transformer"},
		{"a gradient without what it belongs to", program.Op{Type: "fused_attention_grad", Inputs: one("X", "QKVW", "QKVOut", "Y@GRAD"), Outputs: one("X@GRAD")}, nil, "fused_attention_grad"},
		{"attention with a mask and an order", program.Op{Type: "flash_attn", Inputs: one("q", "k", "v", "attn_mask"), Outputs: one("out"), Attrs: map[string]program.Attr{"causal": true}}, []int64{1, 2, 3, 4},
			"flash_attn"},
		{"a gate", program.Op{Type: "swiglu", Inputs: one("x"), Outputs: one("out")}, nil, "split silu elementwise_mul"},
		{"its gradient by one side", program.Op{Type: "swiglu_grad", Inputs: one("x", "y", "out@GRAD"), Outputs: one("y@GRAD")}, nil, "silu elementwise_mul_grad"},
		{"root of a mean", program.Op{Type: "rms_norm", Inputs: one("x", "norm_weight"), Outputs: one("out"), Attrs: map[string]program.Attr{"begin_norm_axis": int32(1)}}, []int64{2, 4},
			"square reduce_mean scale rsqrt elementwise_mul elementwise_mul"},
		{"root of a mean in whole numbers", program.Op{Type: "rms_norm", Inputs: one("x", "norm_weight"), Outputs: one("out"), Attrs: map[string]program.Attr{"quant_scale": float32(2)}}, []int64{2, 4}, "rms_norm"},
		{"sums of clicks that are filtered", program.Op{Type: "fused_seqpool_cvm", Inputs: one("X", "CVM"), Outputs: one("Out"), Attrs: map[string]program.Attr{"need_filter": true}}, nil, "fused_seqpool_cvm"},
		{"one memory for parameters", program.Op{Type: "coalesce_tensor", Inputs: map[string][]string{"Input": {"a", "b"}}, Outputs: map[string][]string{"Output": {"a", "b"}, "FusedOutput": {"all"}},
			Attrs: map[string]program.Attr{"copy_data": true, "use_align": false}}, []int64{2}, "reshape reshape concat"},
		{"one memory for gradients", program.Op{Type: "coalesce_tensor", Inputs: map[string][]string{"Input": {"a", "b"}}, Outputs: map[string][]string{"Output": {"a", "b"}, "FusedOutput": {"all"}},
			Attrs: map[string]program.Attr{"copy_data": false, "use_align": true}}, []int64{2}, "coalesce_tensor"},
		{"the gradient of a product with an activation", program.Op{Type: "fused_gemm_epilogue_grad", Inputs: one("X", "Y", "DOut"), Outputs: one("DX"), Attrs: map[string]program.Attr{"activation_grad": "relu_grad"}},
			[]int64{2, 3}, "fused_gemm_epilogue_grad"},
		{"rotary positions without sines", program.Op{Type: "fused_rotary_position_embedding", Inputs: one("q"), Outputs: one("out_q")}, []int64{1, 2, 3, 4}, "fused_rotary_position_embedding"},
		{"no layers", program.Op{Type: "fusion_repeated_fc_relu", Inputs: one("X"), Outputs: one("Out")}, nil, "fusion_repeated_fc_relu"},
	} {
		if got := split(t, c.op.Clone(), c.w...); got != c.result {
			t.Errorf("%s: %s, want %s", c.name, got, c.result)
		}
	}
}

// Before 2.0, Fluid calls the last states of cudnn_lstm otherwise.
func TestSlotsOfOldNames(t *testing.T) {
	p := program.New()
	for _, name := range []string{"x", "out", "h", "dh", "cache"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32})
	}
	p.Global().Append(&program.Op{Type: "cudnn_lstm", Inputs: map[string][]string{"Input": {"x"}, "Cache": {"cache"}}, Outputs: map[string][]string{"Out": {"out"}, "last_h": {"h"}}})
	p.Global().Append(&program.Op{Type: "cudnn_lstm_grad", Inputs: map[string][]string{"Out": {"out"}, "last_h": {"h"}, "last_h@GRAD": {"dh"}}, Outputs: map[string][]string{}})
	list := decode(t, encode(t, p)).Global().Ops
	if list[0].Out("LastH") != "h" || list[1].In("LastH") != "h" || list[1].In("LastH@GRAD") != "dh" || len(list[0].Outputs["last_h"])+len(list[1].Inputs["last_h@GRAD"])+len(list[0].Inputs["Cache"]) > 0 {
		t.Errorf("got %v and %v", list[0], list[1])
	}
}

// Fluid says of hierarchical_sigmoid that it writes its weights, which it leaves as they are.
func TestWeightsThatStayAreNotWritten(t *testing.T) {
	for out, want := range map[string]int{"w": 0, "another": 1} {
		p := program.New()
		for _, name := range []string{"x", "w", "cost", "another"} {
			p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32})
		}
		p.Global().Append(&program.Op{Type: "hierarchical_sigmoid", Inputs: map[string][]string{"X": {"x"}, "W": {"w"}}, Outputs: map[string][]string{"Out": {"cost"}, "W_Out": {out}}})
		op := decode(t, encode(t, p)).Global().Ops[0]
		if op.Type != "hierarchical_sigmoid" || op.Out("Out") != "cost" || len(op.Outputs["W_Out"]) != want {
			t.Errorf("W_Out = %s is read as %v", out, op.Outputs)
		}
	}
}
