package program

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/tensor"
)

// earliestTypes are ops that had a type of their own for a kernel of GPUs, or another name, before 2018. Gradient ops have the same names with _grad.
var earliestTypes = map[string]string{
	"conv2d_cudnn": "conv2d", "conv_cudnn": "conv2d", "conv3d_cudnn": "conv3d", "pool2d_cudnn": "pool2d", "pool3d_cudnn": "pool3d",
	"conv2d_transpose_cudnn": "conv2d_transpose", "conv3d_transpose_cudnn": "conv3d_transpose",
	"conv2dtranspose": "conv2d_transpose", "conv2dtranspose_cudnn": "conv2d_transpose", "conv3dtranspose": "conv3d_transpose", "conv3dtranspose_cudnn": "conv3d_transpose",
	"seq_expand": "sequence_expand",
}

// earliestInputs are inputs that had another name before 2018, by the type of their ops without _grad.
var earliestInputs = map[string][2]string{"accuracy": {"Inference", "Out"}, "lod_reset": {"TargetLoD", "Y"}}

// earliestUnary are ops of one operand, which called their result Y before 2018.
var earliestUnary = []string{"abs", "brelu", "ceil", "elu", "exp", "floor", "hard_shrink", "hard_sigmoid", "leaky_relu", "log", "logsigmoid", "pow", "reciprocal", "relu", "relu6", "round",
	"sigmoid", "soft_relu", "softmax", "softplus", "softshrink", "softsign", "sqrt", "square", "stanh", "swish", "tanh", "tanh_shrink", "thresholded_relu"}

// earliestAttrs are attributes that had another name before 2018, by the type of their ops without _grad.
var earliestAttrs = map[string]map[string]string{
	"batch_norm":                     {"tensor_format": "data_layout"},
	"cast":                           {"in_data_type": "in_dtype", "out_data_type": "out_dtype"},
	"conditional_block":              {"block": "sub_block"},
	"cross_entropy":                  {"softLabel": "soft_label"},
	"expand":                         {"expandTimes": "expand_times"},
	"fill_constant":                  {"data_type": "dtype"},
	"fill_constant_batch_size_like":  {"data_type": "dtype"},
	"gaussian_random":                {"data_type": "dtype"},
	"lstm":                           {"usePeepholes": "use_peepholes", "isReverse": "is_reverse", "gateActivation": "gate_activation", "cellActivation": "cell_activation", "candidateActivation": "candidate_activation"},
	"max_pool2d_with_index":          {"globalPooling": "global_pooling"},
	"max_pool3d_with_index":          {"globalPooling": "global_pooling"},
	"momentum":                       {"useNesterov": "use_nesterov"},
	"pool2d":                         {"poolingType": "pooling_type", "globalPooling": "global_pooling"},
	"pool3d":                         {"poolingType": "pooling_type", "globalPooling": "global_pooling"},
	"recurrent":                      {"step_block": "sub_block", "block_idx": "sub_block"},
	"softmax_with_cross_entropy":     {"softLabel": "soft_label"},
	"uniform_random":                 {"data_type": "dtype"},
	"uniform_random_batch_size_like": {"data_type": "dtype"},
	"unpool":                         {"unpoolingType": "unpooling_type"},
	"while":                          {"step_block": "sub_block"},
}

// earliestPools are the kinds of sequence_pool, which were numbers.
var earliestPools = []string{"AVERAGE", "SUM", "SQRT", "MAX", "LAST", "FIRST"}

// readEarliest gives ops of the releases of 2017 the types, slots and attributes that they have today. No later release gives these another meaning, so it does not matter which form the file has. An
// op that has both names keeps both, and is refused.
func readEarliest(p *Program) {
	for _, b := range p.Blocks {
		for _, op := range b.Ops {
			forward, gradient := strings.CutSuffix(op.Type, "_grad")
			if name, ok := earliestTypes[forward]; ok {
				op.Type, forward = strings.Replace(op.Type, forward, name, 1), name
			}
			if slot, ok := earliestInputs[forward]; ok {
				rekey(op.Inputs, slot[0], slot[1])
			}
			switch unary := slices.Contains(earliestUnary, forward); {
			case unary && gradient:
				rekey(op.Inputs, "Y", "Out")
				rekey(op.Inputs, GradName("Y"), GradName("Out"))
			case unary:
				rekey(op.Outputs, "Y", "Out")
			}
			for from, to := range earliestAttrs[forward] {
				rekey(op.Attrs, from, to)
			}
			switch op.Type {
			case "accuracy":
				for _, slot := range []string{"Correct", "Total"} {
					if op.Out(slot) == "" && op.Out("Accuracy") != "" {
						op.Outputs[slot] = []string{b.EnsureVar(Var{Name: p.UniqueName(op.Out("Accuracy")), Kind: LoDTensor, DType: tensor.Int32, Dims: []int64{1}, StopGradient: true}).Name}
					}
				}
			case "dropout", "dropout_grad":
				if training, ok := op.Bool("is_training"); ok {
					delete(op.Attrs, "is_training")
					op.SetAttr("is_test", !training)
				}
			case "sequence_concat", "sequence_concat_grad": // the rows of sequences of the first level
				if axis, ok := op.Int("axis"); ok && axis == 0 {
					delete(op.Attrs, "axis")
				}
				if level, ok := op.Int("level"); ok && level == 0 {
					delete(op.Attrs, "level")
				}
			case "sequence_pool", "sequence_pool_grad":
				if kind, ok := op.Int("strategy"); ok && kind >= 0 && int(kind) < len(earliestPools) {
					delete(op.Attrs, "strategy")
					op.SetAttr("pooltype", earliestPools[kind])
				}
			}
		}
	}
}

// rekey moves what a map has under a name to another name that is not taken.
func rekey[V any](m map[string]V, from, to string) {
	value, old := m[from]
	if _, taken := m[to]; old && !taken {
		delete(m, from)
		m[to] = value
	}
}
