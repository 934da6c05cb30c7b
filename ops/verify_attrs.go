package ops

import (
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// ignoredAttrs lists attributes that programs of Fluid carry and that change nothing that EDL computes: choices of kernels, marks of
// quantization and fusion, and the ends of wires that only Fluid's own runtime reads.
var ignoredAttrs = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`
		data_format data_layout x_data_format y_data_format
		endpoints epmap height_sections table_names trainer_id remote_prefetch is_distributed is_sparse
		exhaustive_search force_cpu force_fp32_output inplace is_test padding_algorithm user_defined_device
		fuse_activation fuse_alpha fuse_beta fuse_brelu fuse_brelu_threshold fuse_relu fuse_relu_before_depthwise_conv
		fuse_residual_connection fuse_with_relu
		mkldnn_data_type quantization_type quantize_weight_bits out_threshold skip_quant weight_bits with_quant_attr
		Scale_in Scale_in_eltwise Scale_out Scale_weights scale_in scale_out scale_weights scale_x scale_y
		use_cudnn use_mkldnn use_onednn use_quantizer workspace_size_MB
	`) {
		ignoredAttrs[name] = true
	}
}

// checkAttrNames reports attributes that neither the op nor, for the op of a gradient, its forward op has, nor Fluid's runtime alone. Such a
// name is most likely misspelt, and an attribute that is not read silently trains another model.
func checkAttrNames(op *program.Op, def *Def) fault.List {
	forward, hasForward := Lookup(strings.TrimSuffix(op.Type, "_grad"))
	var faults fault.List
	for _, name := range slices.Sorted(maps.Keys(op.Attrs)) {
		if def.hasAttr(name) || hasForward && forward.hasAttr(name) ||
			ignoredAttrs[name] || strings.HasPrefix(name, "op_") || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "__") {
			continue
		}
		faults.Add(fault.E(fault.InvalidProgram, fault.Got("attribute "+fault.Quote(name)),
			fault.Want("one of those that `edl show ops "+op.Type+"` lists")))
	}
	return faults
}

func (d *Def) hasAttr(name string) bool {
	return slices.ContainsFunc(d.Attrs, func(a Attr) bool { return a.Name == name })
}
