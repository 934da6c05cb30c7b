package transpiler_test

import (
	"os"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/transpiler"
)

// network is a program as Fluid writes one before an optimizer changes it: temporary variables have no dims.
const network = `var x float32 [-1,6] feed=[4,6]
var y float32 [-1,1] feed=[4,1]
var w0 float32 [6,8] value=random
var b0 float32 [8] value=random
var w1 float32 [8,1] value=random
var b1 float32 [1] value=0
var rate float32 [1] value=0.1
mul X=x Y=w0 -> Out=fc_0.tmp_0 | x_num_col_dims=1 y_num_col_dims=1
elementwise_add X=fc_0.tmp_0 Y=b0 -> Out=fc_0.tmp_1 | axis=1
relu X=fc_0.tmp_1 -> Out=fc_0.tmp_2
mul X=fc_0.tmp_2 Y=w1 -> Out=fc_1.tmp_0 | x_num_col_dims=1 y_num_col_dims=1
elementwise_add X=fc_1.tmp_0 Y=b1 -> Out=fc_1.tmp_1 | axis=1
elementwise_sub X=fc_1.tmp_1 Y=y -> Out=cost.tmp_0 | axis=-1
square X=cost.tmp_0 -> Out=cost.tmp_1
mean X=cost.tmp_1 -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 force_cpu=false op_role=257
mean_grad X=cost.tmp_1 Out@GRAD=loss@GRAD -> X@GRAD=cost.tmp_1@GRAD | op_role=1
square_grad X=cost.tmp_0 Out@GRAD=cost.tmp_1@GRAD -> X@GRAD=cost.tmp_0@GRAD | op_role=1
elementwise_sub_grad X=fc_1.tmp_1 Y=y Out@GRAD=cost.tmp_0@GRAD -> X@GRAD=fc_1.tmp_1@GRAD | axis=-1 op_role=1
elementwise_add_grad X=fc_1.tmp_0 Y=b1 Out@GRAD=fc_1.tmp_1@GRAD -> X@GRAD=fc_1.tmp_0@GRAD Y@GRAD=b1@GRAD | axis=1 op_role=1 op_role_var=["b1","b1@GRAD"]
mul_grad X=fc_0.tmp_2 Y=w1 Out@GRAD=fc_1.tmp_0@GRAD -> X@GRAD=fc_0.tmp_2@GRAD Y@GRAD=w1@GRAD | x_num_col_dims=1 y_num_col_dims=1 op_role=1 op_role_var=["w1","w1@GRAD"]
relu_grad Out=fc_0.tmp_2 Out@GRAD=fc_0.tmp_2@GRAD -> X@GRAD=fc_0.tmp_1@GRAD | op_role=1
elementwise_add_grad X=fc_0.tmp_0 Y=b0 Out@GRAD=fc_0.tmp_1@GRAD -> X@GRAD=fc_0.tmp_0@GRAD Y@GRAD=b0@GRAD | axis=1 op_role=1 op_role_var=["b0","b0@GRAD"]
mul_grad X=x Y=w0 Out@GRAD=fc_0.tmp_0@GRAD -> Y@GRAD=w0@GRAD | x_num_col_dims=1 y_num_col_dims=1 op_role=1 op_role_var=["w0","w0@GRAD"]
`

// counter begins the schedules of Fluid.
const counter = `var @LR_DECAY_COUNTER@ int64 [1] value=-1
increment X=@LR_DECAY_COUNTER@ -> Out=@LR_DECAY_COUNTER@ | step=1.0f op_role=16
cast X=@LR_DECAY_COUNTER@ -> Out=step | in_dtype=3 out_dtype=5 op_role=16
`

// schedules write the variable "now".
var schedules = map[string]string{
	"constant": "scale X=rate -> Out=now | scale=1.0f bias=0.0f bias_after_scale=true op_role=16\n",
	"exponential": counter + `scale X=step -> Out=div | scale=0.5f bias=0.0f bias_after_scale=true op_role=16
floor X=div -> Out=floor | op_role=16
fill_constant -> Out=half | shape=[1L] value=0.5f dtype=5 force_cpu=false op_role=16
elementwise_pow X=half Y=floor -> Out=pow | axis=-1 op_role=16
scale X=pow -> Out=now | scale=0.1f bias=0.0f bias_after_scale=true op_role=16
`,
	"noam": strings.Replace(counter, "value=-1", "value=0", 1) + `pow X=step -> Out=pow | factor=-0.5f op_role=16
scale X=step -> Out=up | scale=0.01f bias=0.0f bias_after_scale=true op_role=16
elementwise_min X=pow Y=up -> Out=least | axis=-1 op_role=16
scale X=least -> Out=now | scale=0.044f bias=0.0f bias_after_scale=true op_role=16
`,
	"piecewise": counter + `var now float32 [1] value=0
var early bool [1]
var late bool [1]
fill_constant -> Out=two | shape=[1L] value=2.0f dtype=5 force_cpu=true op_role=16
less_than X=step Y=two -> Out=early | axis=-1 force_cpu=false op_role=16
conditional_block Cond=early -> Out=now Scope=scope_0 | sub_block=block:1 is_scalar_condition=true op_role=16
logical_not X=early -> Out=late | op_role=16
conditional_block Cond=late -> Out=now Scope=scope_1 | sub_block=block:2 is_scalar_condition=true op_role=16
block 1 0
fill_constant -> Out=fast | shape=[1L] value=0.1f dtype=5 force_cpu=false op_role=16
assign X=fast -> Out=now | op_role=16
block 2 0
fill_constant -> Out=slow | shape=[1L] value=0.05f dtype=5 force_cpu=false op_role=16
assign X=slow -> Out=now | op_role=16
global
`,
}

// penalties read P@GRAD and write P.reg, clips read P.reg and write P.clip. R is the role: later releases mark them as updates, older ones as part of the backward pass.
var (
	penalties = map[string]string{
		"none": "scale X=<P>@GRAD -> Out=<P>.reg | scale=1.0f op_role=<R>\n",
		"l2": `scale X=<P> -> Out=<P>.l2 | scale=0.1f bias=0.0f bias_after_scale=true op_role=<R> op_role_var=["<P>","<P>@GRAD"]
sum X=<P>@GRAD,<P>.l2 -> Out=<P>.reg | use_mkldnn=false op_role=<R> op_role_var=["<P>","<P>@GRAD"]
`,
		"oldest l2": `scale X=<P> -> Out=<P>.l2 | scale=0.1f op_role=<R>
elementwise_add X=<P>@GRAD Y=<P>.l2 -> Out=<P>@GRAD | axis=-1 op_role=<R>
assign X=<P>@GRAD -> Out=<P>.reg | op_role=<R>
`,
		"l1": `sign X=<P> -> Out=<P>.sign | op_role=<R> op_role_var=["<P>","<P>@GRAD"]
scale X=<P>.sign -> Out=<P>.l1 | scale=0.1f bias=0.0f bias_after_scale=true op_role=<R> op_role_var=["<P>","<P>@GRAD"]
sum X=<P>@GRAD,<P>.l1 -> Out=<P>.reg | use_mkldnn=false op_role=<R> op_role_var=["<P>","<P>@GRAD"]
`,
	}
	byGlobalNorm = `fill_constant -> Out=limit | shape=[1L] value=0.1f dtype=5 force_cpu=false op_role=<R>
sum X=w0.squares,b0.squares,w1.squares,b1.squares -> Out=squares | use_mkldnn=false op_role=<R>
sqrt X=squares -> Out=norm | op_role=<R>
elementwise_max X=limit Y=norm -> Out=most | axis=-1 op_role=<R>
elementwise_div X=limit Y=most -> Out=factor | axis=-1 op_role=<R>
` + each(`elementwise_mul X=<P>.reg Y=factor -> Out=<P>.clip | axis=-1 op_role=<R> op_role_var=["<P>","<P>@GRAD"]
`)
	clips = map[string]string{
		"none":  each("assign X=<P>.reg -> Out=<P>.clip | op_role=<R>\n"),
		"value": each(`clip X=<P>.reg -> Out=<P>.clip | min=-0.1f max=0.1f op_role=<R> op_role_var=["<P>","<P>@GRAD"]` + "\n"),
		"norm":  each(`clip_by_norm X=<P>.reg -> Out=<P>.clip | max_norm=0.1f op_role=<R> op_role_var=["<P>","<P>@GRAD"]` + "\n"),
		"global norm": each(`square X=<P>.reg -> Out=<P>.square | op_role=<R> op_role_var=["<P>","<P>@GRAD"]
reduce_sum X=<P>.square -> Out=<P>.squares | dim=[0] keep_dim=false reduce_all=true op_role=<R> op_role_var=["<P>","<P>@GRAD"]
`) + byGlobalNorm,
		"global norm since 1.8": each(`squared_l2_norm X=<P>.reg -> Out=<P>.squares | op_role=<R> op_role_var=["<P>","<P>@GRAD"]`+"\n") + byGlobalNorm,
	}
)

const adam = `var m1_<P> float32 <D> value=0
var m2_<P> float32 <D> value=0
var p1_<P> float32 [1] value=0.9
var p2_<P> float32 [1] value=0.999
adam Param=<P> Grad=<P>.clip LearningRate=now Moment1=m1_<P> Moment2=m2_<P> Beta1Pow=p1_<P> Beta2Pow=p2_<P> -> ParamOut=<P> Moment1Out=m1_<P> Moment2Out=m2_<P> | beta1=0.9f beta2=0.999f epsilon=0.00000001f lazy_mode=false min_row_size_to_use_multithread=1000L op_role=2 op_role_var=["<P>","<P>@GRAD"]
`

// updates read P.clip and "now".
var updates = map[string]string{
	"sgd": each(`sgd Param=<P> Grad=<P>.clip LearningRate=now -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]` + "\n"),
	"rates of parameters": each(`scale X=now -> Out=<P>.rate | scale=2.0f bias=0.0f bias_after_scale=true op_role=18 op_role_var=["<P>","<P>@GRAD"]
sgd Param=<P> Grad=<P>.clip LearningRate=<P>.rate -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"old rates of parameters": each(`fill_constant -> Out=<P>.two | shape=[1L] value=2.0f dtype=5 force_cpu=false op_role=2
elementwise_mul X=now Y=<P>.two -> Out=<P>.rate | axis=-1 op_role=2
sgd Param=<P> Grad=<P>.clip LearningRate=<P>.rate -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"momentum": each(`var velocity_<P> float32 <D> value=0
momentum Param=<P> Grad=<P>.clip Velocity=velocity_<P> LearningRate=now -> ParamOut=<P> VelocityOut=velocity_<P> | mu=0.9f use_nesterov=false op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"adam": each(adam) + each(`scale X=p1_<P> -> Out=p1_<P> | scale=0.9f bias=0.0f bias_after_scale=true op_role=2 op_role_var=["<P>","<P>@GRAD"]
scale X=p2_<P> -> Out=p2_<P> | scale=0.999f bias=0.0f bias_after_scale=true op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"adam since 1.7": each(strings.Replace(adam, "Moment2Out=m2_<P>", "Moment2Out=m2_<P> Beta1PowOut=p1_<P> Beta2PowOut=p2_<P>", 1)),
	"oldest adam": "var p1 float32 [1] value=0.9\nvar p2 float32 [1] value=0.999\n" +
		each(`var m1_<P> float32 <D> value=0
var m2_<P> float32 <D> value=0
adam Param=<P> Grad=<P>.clip LearningRate=now Moment1=m1_<P> Moment2=m2_<P> Beta1Pow=p1 Beta2Pow=p2 -> ParamOut=<P> Moment1Out=m1_<P> Moment2Out=m2_<P> | beta1=0.9f beta2=0.999f epsilon=0.00000001f op_role=2
`) + "scale X=p1 -> Out=p1 | scale=0.9f op_role=2\nscale X=p2 -> Out=p2 | scale=0.999f op_role=2\n",
	"decoupled decay": each(`scale X=now -> Out=<P>.k | scale=0.1f bias=0.0f bias_after_scale=true op_role=2 op_role_var=["<P>","<P>@GRAD"]
elementwise_mul X=<P> Y=<P>.k -> Out=<P>.decay | axis=-1 op_role=2 op_role_var=["<P>","<P>@GRAD"]
sgd Param=<P> Grad=<P>.clip LearningRate=now -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
elementwise_sub X=<P> Y=<P>.decay -> Out=<P>.less | axis=-1 op_role=2 op_role_var=["<P>","<P>@GRAD"]
assign X=<P>.less -> Out=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"moving average": each(`var <P>.ema float32 <D> value=0
sgd Param=<P> Grad=<P>.clip LearningRate=now -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
scale X=<P>.ema -> Out=<P>.old | scale=0.9f bias=0.0f bias_after_scale=true op_role=2 op_role_var=["<P>","<P>@GRAD"]
scale X=<P> -> Out=<P>.new | scale=0.1f bias=0.0f bias_after_scale=true op_role=2 op_role_var=["<P>","<P>@GRAD"]
elementwise_add X=<P>.old Y=<P>.new -> Out=<P>.mean | axis=-1 op_role=2 op_role_var=["<P>","<P>@GRAD"]
assign X=<P>.mean -> Out=<P>.ema | op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
	"model average": each(`var <P>.s1 float32 <D> value=0
var <P>.s2 float32 <D> value=0
var <P>.s3 float32 <D> value=0
var <P>.n int64 [1] value=0
var <P>.old int64 [1] value=0
var <P>.updates int64 [1] value=0
sgd Param=<P> Grad=<P>.clip LearningRate=now -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
average_accumulates param=<P> in_sum_1=<P>.s1 in_sum_2=<P>.s2 in_sum_3=<P>.s3 in_num_accumulates=<P>.n in_old_num_accumulates=<P>.old in_num_updates=<P>.updates -> out_sum_1=<P>.s1 out_sum_2=<P>.s2 out_sum_3=<P>.s3 out_num_accumulates=<P>.n out_old_num_accumulates=<P>.old out_num_updates=<P>.updates | average_window=0.15f min_average_window=10000L max_average_window=20000L op_role=2 op_role_var=["<P>","<P>@GRAD"]
`),
}

// each writes lines for each parameter: P is its name, D its dims.
func each(lines string) string {
	var b strings.Builder
	for _, p := range [][2]string{{"w0", "[6,8]"}, {"b0", "[8]"}, {"w1", "[8,1]"}, {"b1", "[1]"}} {
		b.WriteString(strings.NewReplacer("<P>", p[0], "<D>", p[1]).Replace(lines))
	}
	return b.String()
}

// What releases of Fluid write for schedules, penalties, clips, rates of parameters and optimizers obeys the law, also where no temporary variable is declared with its
// dims: each form of one kind stands beside one of the others.
func TestFormsOfFluidObeyTheLaw(t *testing.T) {
	type forms struct{ schedule, penalty, clip, role, update string }
	var all []forms
	for schedule := range schedules {
		all = append(all, forms{schedule, "l2", "none", "2", "adam since 1.7"}, forms{schedule, "none", "none", "2", "old rates of parameters"})
	}
	for penalty := range penalties {
		all = append(all, forms{"constant", penalty, "value", "1", "sgd"}, forms{"constant", penalty, "norm", "2", "momentum"})
	}
	for clip := range clips {
		all = append(all, forms{"constant", "l2", clip, "1", "momentum"}, forms{"exponential", "l1", clip, "2", "adam"})
	}
	for update := range updates {
		all = append(all, forms{"exponential", "none", "none", "2", update}, forms{"piecewise", "l2", "global norm", "2", update})
	}
	for _, f := range all {
		role := func(text string) string { return strings.ReplaceAll(text, "<R>", f.role) }
		m, err := fluidtext.Read(network + schedules[f.schedule] + role(each(penalties[f.penalty])) + role(clips[f.clip]) + updates[f.update])
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		for _, cfg := range []transpiler.Config{{Trainers: 3, PServers: 2, MinBlockSize: 4}, {Trainers: 1, PServers: 2, MinBlockSize: 4, Mode: transpiler.Async}} {
			if err := checkLaw(t, m.Program, cfg, "loss", "w0"); err != nil {
				t.Errorf("%+v: %v", f, err)
			}
		}
	}
}

// Since Paddle 2.5 a loss and its gradient have the dims [].
func TestALossWithoutDimsObeysTheLaw(t *testing.T) {
	text := strings.NewReplacer("-> Out=loss@GRAD | shape=[1L]", "-> Out=loss@GRAD | shape=[]").Replace(network)
	m, err := fluidtext.Read("version 2005001\nvar loss float32 []\nvar cost.tmp_1 float32 [-1,1]\n" + text +
		strings.ReplaceAll(schedules["constant"]+each(penalties["none"])+clips["none"]+updates["adam since 1.7"], "<R>", "2"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cfg := range []transpiler.Config{{Trainers: 3, PServers: 2, MinBlockSize: 4}, {Trainers: 1, PServers: 2, MinBlockSize: 4, Mode: transpiler.Async}} {
		if err := checkLaw(t, m.Program, cfg, "loss", "w0"); err != nil {
			t.Error(err)
		}
	}
}

// A detector scales an image to twice its height and width, which it computes from dims: they do not depend on the rows of a trainer. A branch, of which trainers must know what it
// depends on, changes nothing of that.
func TestSizesFromDimsObeyTheLaw(t *testing.T) {
	scaled := `var x float32 [-1,2,3,4] feed=[4,2,3,4]
var w float32 [2,2,1,1] value=random
var rate float32 [1] value=0.1
var dims int32 [4]
var size int32 [2]
var whole int32 [2]
var twice int32 [2]
conv2d Input=x Filter=w -> Output=conv | strides=[1,1] paddings=[0,0] dilations=[1,1] groups=1 data_format="NCHW"
shape Input=conv -> Out=dims
slice Input=dims -> Out=size | axes=[0] starts=[2] ends=[4] decrease_axis=[] infer_flags=[1]
cast X=size -> Out=whole | in_dtype=2 out_dtype=2
scale X=whole -> Out=twice | scale=2.0f bias=0.0f bias_after_scale=true
nearest_interp X=conv OutSize=twice -> Out=large | interp_method="nearest" align_corners=false align_mode=1 out_h=-1 out_w=-1 out_d=-1 scale=0.0f data_layout="NCHW"
`
	branch := `var never bool [1]
fill_constant -> Out=never | shape=[1L] value=0.0f dtype=0
fill_constant -> Out=unused | shape=[1L] value=0.0f dtype=5
conditional_block Cond=never -> Out=unused Scope=scope | sub_block=block:1 is_scalar_condition=true
block 1 0
fill_constant -> Out=unused | shape=[1L] value=1.0f dtype=5
global
`
	trained := `square X=large -> Out=squares
mean X=squares -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=squares Out@GRAD=loss@GRAD -> X@GRAD=squares@GRAD | op_role=1
square_grad X=large Out@GRAD=squares@GRAD -> X@GRAD=large@GRAD | op_role=1
nearest_interp_grad X=conv OutSize=twice Out@GRAD=large@GRAD -> X@GRAD=conv@GRAD | interp_method="nearest" align_corners=false align_mode=1 out_h=-1 out_w=-1 out_d=-1 scale=0.0f data_layout="NCHW" op_role=1
conv2d_grad Input=x Filter=w Output@GRAD=conv@GRAD -> Filter@GRAD=w@GRAD | strides=[1,1] paddings=[0,0] dilations=[1,1] groups=1 data_format="NCHW" op_role=1 op_role_var=["w","w@GRAD"]
sgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | op_role=2 op_role_var=["w","w@GRAD"]
`
	for name, text := range map[string]string{"alone": scaled + trained, "beside a branch": scaled + branch + trained} {
		m, err := fluidtext.Read(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := checkLaw(t, m.Program, transpiler.Config{Trainers: 3, PServers: 2}, "loss", "w"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, err := fluidtext.Read(strings.Replace(scaled, "starts=[2] ends=[4]", "starts=[0] ends=[2]", 1) + trained)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 2, PServers: 1}); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("a size that follows from the number of rows: %v", err)
	}
}

// Recommenders as Fluid writes them, with a schedule, clips, penalties and sparse tables, and merged layers of transformers that drop, a block that Fluid runs on several places, and moving statistics over words beside ones over records, obey the law.
func TestProgramsThatTrainObeyTheLaw(t *testing.T) {
	for name, fetch := range map[string]string{"train_din": "item_b", "train_mmoe": "fc_0.w_0", "train_xdeepfm": "fc_0.w_0", "train_widedeep": "SparseFeatFactors", "train_transformer": "qkvw", "grad_parallel_do": "w", "train_statistics": "batch_norm_0.w_1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../executor/testdata/programs/" + name + ".txt")
			if err != nil {
				t.Fatal(err)
			}
			m, err := fluidtext.Read(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, cfg := range []transpiler.Config{{Trainers: 3, PServers: 2, MinBlockSize: 16}, {Trainers: 1, PServers: 2, Mode: transpiler.Async}} {
				if err := checkLaw(t, m.Program, cfg, fetch); err != nil {
					t.Errorf("%+v: %v", cfg, err)
				}
			}
		})
	}
}

// A penalty on gradients, and costs that are put in rows by a shape that follows from dims and divided by a sum of weights behind batch_norm, obey the law.
func TestLossesOfGradientsAndOfCountedRowsObeyTheLaw(t *testing.T) {
	for name, text := range map[string]string{"a penalty on gradients": `var x float32 [-1,2] feed=[4,2]
var w float32 [2,3] value=random
var u float32 [3,1] value=random
var rate float32 [1] value=0.1
mul X=x Y=w -> Out=h
square X=h -> Out=a
mul X=a Y=u -> Out=score
fill_constant_batch_size_like Input=score -> Out=score@GRAD | shape=[-1,1] value=1.0f dtype=5 op_role=1
mul_grad X=a Y=u Out@GRAD=score@GRAD -> X@GRAD=a@GRAD | op_role=1
square_grad X=h Out@GRAD=a@GRAD -> X@GRAD=h@GRAD | op_role=1
mul_grad X=x Y=w Out@GRAD=h@GRAD -> X@GRAD=x@GRAD | op_role=1
square X=x@GRAD -> Out=squares
mean X=squares -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=squares Out@GRAD=loss@GRAD -> X@GRAD=squares@GRAD | op_role=1
square_grad X=x@GRAD Out@GRAD=squares@GRAD -> X@GRAD=x@GRAD@GRAD | op_role=1
mul_grad_grad X=x Y=w DOut=h@GRAD DDX=x@GRAD@GRAD -> DY=w@GRAD@RENAME@0 DDOut=h@GRAD@GRAD | op_role=1
square_grad_grad X=h DOut=a@GRAD DDX=h@GRAD@GRAD -> DX=h@GRAD_0 DDOut=a@GRAD@GRAD | op_role=1
mul_grad_grad X=a Y=u DOut=score@GRAD DDX=a@GRAD@GRAD -> DY=u@GRAD | op_role=1 op_role_var=["u","u@GRAD"]
mul_grad X=x Y=w Out@GRAD=h@GRAD_0 -> Y@GRAD=w@GRAD@RENAME@1 | op_role=1
sum X=w@GRAD@RENAME@0,w@GRAD@RENAME@1 -> Out=w@GRAD | op_role=1 op_role_var=["w","w@GRAD"]
sgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | op_role=2 op_role_var=["w","w@GRAD"]
sgd Param=u Grad=u@GRAD LearningRate=rate -> ParamOut=u | op_role=2 op_role_var=["u","u@GRAD"]
`, "counted rows": `var x float32 [-1,2,3] feed=[4,2,3]
var w float32 [3,1] value=random
var scale float32 [2] value=1.0
var bias float32 [2] value=0.0
var mean float32 [2] value=0.0
var variance float32 [2] value=1.0
var rate float32 [1] value=0.1
var dims int32 [3]
var rows int32 [2]
var many bool [-1,2]
batch_norm X=x Scale=scale Bias=bias Mean=mean Variance=variance -> Y=y MeanOut=mean VarianceOut=variance SavedMean=m SavedVariance=v | momentum=0.9f epsilon=0.00001f is_test=false data_layout="NCHW" use_global_stats=false
shape Input=y -> Out=dims
slice Input=dims -> Out=rows | axes=[0] starts=[0] ends=[2] decrease_axis=[] infer_flags=[1]
flatten2 X=y -> Out=flat XShape=s0 | axis=2
mul X=flat Y=w -> Out=costs
reshape2 X=costs Shape=rows -> Out=table XShape=s1 | shape=[-1,2]
fill_any_like X=table -> Out=ones | value=1.0f dtype=-1
reduce_sum X=table -> Out=all | dim=[0] keep_dim=false reduce_all=true
reduce_sum X=ones -> Out=count | dim=[0] keep_dim=false reduce_all=true
elementwise_div X=all Y=count -> Out=loss | axis=-1 op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
elementwise_div_grad Y=count Out=loss Out@GRAD=loss@GRAD -> X@GRAD=all@GRAD | axis=-1 op_role=1
reduce_sum_grad X=table Out@GRAD=all@GRAD -> X@GRAD=table@GRAD | dim=[0] keep_dim=false reduce_all=true op_role=1
reshape2_grad XShape=s1 Out@GRAD=table@GRAD -> X@GRAD=costs@GRAD | shape=[-1,2] op_role=1
mul_grad X=flat Y=w Out@GRAD=costs@GRAD -> Y@GRAD=w@GRAD | op_role=1 op_role_var=["w","w@GRAD"]
sgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | op_role=2 op_role_var=["w","w@GRAD"]
`} {
		m, err := fluidtext.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range []transpiler.Config{{Trainers: 2, PServers: 1}, {Trainers: 3, PServers: 2, MinBlockSize: 2}} {
			if err := checkLaw(t, m.Program, cfg, "w"); err != nil {
				t.Errorf("%s, %+v: %v", name, cfg, err)
			}
		}
	}
}
