package program_test

import (
	"bytes"
	"testing"

	"github.com/edl-go/edl/internal/fluidtext"
)

// Ops as Fluid wrote them in 2017 are read as those of today.
func TestOpsOf2017AreReadAsThoseOfToday(t *testing.T) {
	for _, c := range []struct{ old, today string }{
		{"tanh X=x -> Y=y", "tanh X=x -> Out=y"},
		{"softmax_grad X=x Y=y Y@GRAD=g -> X@GRAD=h", "softmax_grad X=x Out=y Out@GRAD=g -> X@GRAD=h"},
		{"pow X=x -> Y=y | factor=2.0f", "pow X=x -> Out=y | factor=2.0f"},
		{"cross_entropy X=x Label=l -> Y=y | softLabel=false", "cross_entropy X=x Label=l -> Y=y | soft_label=false"},
		{"conv2d_cudnn Input=x Filter=w -> Output=y | strides=[1,1] workspace_size_MB=4096", "conv2d Input=x Filter=w -> Output=y | strides=[1,1] workspace_size_MB=4096"},
		{"conv2d_cudnn_grad Input=x Filter=w Output@GRAD=g -> Filter@GRAD=h", "conv2d_grad Input=x Filter=w Output@GRAD=g -> Filter@GRAD=h"},
		{"conv2dtranspose_cudnn Input=x Filter=w -> Output=y", "conv2d_transpose Input=x Filter=w -> Output=y"},
		{`pool2d_cudnn X=x -> Out=y | poolingType="max" globalPooling=true`, `pool2d X=x -> Out=y | pooling_type="max" global_pooling=true`},
		{"seq_expand X=x Y=l -> Out=y", "sequence_expand X=x Y=l -> Out=y"},
		{"sequence_pool X=x -> Out=y | strategy=2", `sequence_pool X=x -> Out=y | pooltype="SQRT"`},
		{"sequence_pool X=x -> Out=y | strategy=9", `sequence_pool X=x -> Out=y | strategy=9`},
		{"sequence_concat X=x,l -> Out=y | axis=0 level=0", "sequence_concat X=x,l -> Out=y"},
		{"sequence_concat X=x,l -> Out=y | axis=1 level=0", "sequence_concat X=x,l -> Out=y | axis=1"},
		{"dropout X=x -> Out=y Mask=m | is_training=false", "dropout X=x -> Out=y Mask=m | is_test=true"},
		{"lod_reset X=x TargetLoD=l -> Out=y", "lod_reset X=x Y=l -> Out=y"},
		{"cast X=x -> Out=y | in_data_type=5 out_data_type=6", "cast X=x -> Out=y | in_dtype=5 out_dtype=6"},
		{"cast X=x -> Out=y | in_data_type=5 in_dtype=5", "cast X=x -> Out=y | in_data_type=5 in_dtype=5"},
		{"auc Out=x Indices=l Label=l TP=w TN=w FP=w FN=w -> AUC=y TPOut=w TNOut=w FPOut=w FNOut=w | num_thresholds=200",
			"auc_at_thresholds Predict=x Label=l TP=w TN=w FP=w FN=w -> AUC=y TPOut=w TNOut=w FPOut=w FNOut=w | column=0 num_thresholds=200"},
		{"auc Predict=x Label=l TP=w TN=w FP=w FN=w -> AUC=y", "auc_at_thresholds Predict=x Label=l TP=w TN=w FP=w FN=w -> AUC=y"},
		{"auc Inference=x Label=l -> AUC=y", "auc_at_thresholds Predict=x Label=l -> AUC=y | column=0"},
		{"accuracy Inference=x Indices=y Label=l -> Accuracy=a", "accuracy Out=x Indices=y Label=l -> Accuracy=a Correct=a_0 Total=a_1"},
		{"while X=x Condition=l -> Out=y StepScopes=s | step_block=block:0", "while X=x Condition=l -> Out=y StepScopes=s | sub_block=block:0"},
		{"conditional_block X=x Params=w -> Out=y Scope=s | block=block:0", "conditional_block X=x Params=w -> Out=y Scope=s | sub_block=block:0"},
	} {
		t.Run(c.old, func(t *testing.T) {
			var encoded [2][]byte
			for i, line := range []string{c.old, c.today} {
				m, err := fluidtext.Read("var x float32 [-1,4] feed=[2,4]\n" + line)
				if err != nil {
					t.Fatal(err)
				}
				op := m.Program.Global().Ops[0]
				m.Program.Global().Ops = m.Program.Global().Ops[:0]
				for _, v := range m.Program.Global().Vars() { // their declarations do not matter here
					m.Program.Global().RemoveVar(v.Name)
				}
				m.Program.Global().Append(op)
				encoded[i] = encode(t, m.Program)
			}
			if !bytes.Equal(encoded[0], encoded[1]) {
				t.Errorf("%q\nis not read as\n%q", encoded[0], encoded[1])
			}
		})
	}
}
