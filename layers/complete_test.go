package layers_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/edl-go/edl/ops"
)

// withoutLayer are the ops that no function of this package or of package optimizer writes, by the reason. layers.Op writes any of them.
var withoutLayer = map[string]string{
	"an older or newer op of the same layer is written": `crop deformable_conv_v1 diag expand_as fill fill_any fill_zeros_like2 flatten flatten_contiguous_range generate_proposals_v2
		lookup_table_v2 matmul_v2 merge_lod_tensor_infer minus multiclass_nms3 one_hot_v2 pad3d reshape share_data silu squeeze top_k_v2 transpose unbind unsqueeze`,
	"Conv2D and its like choose it by their options": "depthwise_conv2d depthwise_conv2d_transpose",
	"batch_norm is the same on the rows of a batch":  "sync_batch_norm",
	"functions of Paddle 2 on each element":          "isclose isfinite_v2 isinf_v2 isnan_v2 conj empty",
	"passes for quantisation write it": `dequantize_abs_max dequantize_linear dequantize_log fake_channel_wise_dequantize_max_abs fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max
		fake_dequantize_max_abs fake_quantize_abs_max fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max
		fake_quantize_moving_average_abs_max fake_quantize_range_abs_max moving_average_abs_max_scale quantize_linear`,
	"optimizers of Fluid write it for gradients": "amp_check_finite_and_scale dgc_clip_by_norm get_tensor_from_selected_rows merge_selected_rows",
	"Fluid has no layer for it":                  "attention_lstm max_pool3d_with_index squared_l2_distance unpool3d",
	"EDL writes it for role programs and plans": `auc_of_counts auc_of_rates gather_rows get_selected_rows merge_ids precision_recall_of_counts run_block scatter_rows split_ids split_selected_rows squared_l2_norm_merge
		squared_l2_norm_partial stripe_rows`,
	"reading a program of Fluid writes it":                 "auc_at_thresholds wrap_integers",
	"Paddle 2 has it for a variable that changes in place": "exponential fill_diagonal_tensor gaussian_random_inplace uniform_random_inplace",
}

// Every op that a model may have is written by a layer or an optimizer, or the list above says why not.
func TestEveryOpHasALayer(t *testing.T) {
	written := map[string]bool{}
	for _, pattern := range []string{"*.go", "../optimizer/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					if name, err := strconv.Unquote(literal.Value); err == nil {
						written[name] = true
					}
				}
				return true
			})
		}
	}
	listed := map[string]string{}
	for reason, names := range withoutLayer {
		for name := range strings.FieldsSeq(names) {
			listed[name] = reason
		}
	}
	for _, def := range ops.All() {
		switch def.Class {
		case ops.Compute, ops.Random, ops.Control, ops.Optimize:
		default:
			continue
		}
		reason := listed[def.Type]
		delete(listed, def.Type)
		switch {
		case strings.HasSuffix(def.Type, "_grad"):
		case reason == "" && !written[def.Type]:
			t.Errorf("no layer writes %s: add one, or list the op with the reason", def.Type)
		case reason != "" && written[def.Type]:
			t.Errorf("%s is listed (%s), but a layer writes it", def.Type, reason)
		}
	}
	for name := range listed {
		t.Errorf("%s is listed, but there is no such op", name)
	}
}
