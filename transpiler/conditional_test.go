package transpiler_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/transpiler"
)

// lookahead is what the optimizer Lookahead of Fluid 1.8 appends behind the updates of another one. All has the role of the forward pass.
var lookahead = `var scope_2 int32 [] scopes
var scope_3 int32 [] scopes
var k int32 [1] value=2
var alpha float32 [1] value=0.5
var step int32 [1] value=0
increment X=step -> Out=step | step=1.0f
fill_constant -> Out=zero | shape=[1L] value=0.0f dtype=5
fill_constant -> Out=one | shape=[1L] value=1.0f dtype=5
var mod int32 [1]
var whole int32 [1]
var due bool [1]
var early bool [1]
elementwise_mod X=step Y=k -> Out=mod | axis=-1
cast X=zero -> Out=whole | in_dtype=5 out_dtype=2
equal X=mod Y=whole -> Out=due | axis=-1
logical_not X=due -> Out=early
` + each("var <P>@SLOW float32 <D> value=0.1\n") + `conditional_block Cond=due Input=w0,w1,b0,b1,w0@SLOW,w1@SLOW,b0@SLOW,b1@SLOW,alpha,one -> Out=w0,w1,b0,b1,w0@SLOW,w1@SLOW,b0@SLOW,b1@SLOW Scope=scope_2 | sub_block=block:1 is_scalar_condition=true
conditional_block Cond=early -> Scope=scope_3 | sub_block=block:2 is_scalar_condition=true
block 1 0
` + each(`elementwise_mul X=<P> Y=alpha -> Out=<P>.fast | axis=-1
elementwise_sub X=one Y=alpha -> Out=<P>.rest | axis=-1
elementwise_mul X=<P>@SLOW Y=<P>.rest -> Out=<P>.kept | axis=-1
elementwise_add X=<P>.fast Y=<P>.kept -> Out=<P>.next | axis=-1
assign X=<P>.next -> Out=<P>@SLOW
assign X=<P>.next -> Out=<P>
`) + "block 2 0\nglobal\n"

// merged is what the merge of gradients of Paddle 2 appends to a backward pass: sums of gradients, and a block that changes parameters in every third step. INNER stands for the
// ops of the block.
var merged = `var scope_2 int32 [] scopes
var k int32 [1] value=3
var zero int32 [1] value=0
var step int32 [1] value=0
var due bool [1] value=0
increment X=step -> Out=step | step=1.0f
elementwise_mod X=step Y=k -> Out=step | axis=-1
equal X=step Y=zero -> Out=due | axis=-1
` + each(`var <P>@GRAD@GradientMerge float32 <D> value=0
elementwise_add X=<P>@GRAD Y=<P>@GRAD@GradientMerge -> Out=<P>@GRAD@GradientMerge | axis=-1 grad_merge_cond_name="due" op_role=1 op_role_var=["<P>","<P>@GRAD@GradientMerge"]
var m_<P> float32 <D> value=0
`) + `conditional_block Cond=due Input=w0,w1,b0,b1,m_w0,m_w1,m_b0,m_b1,rate,w0@GRAD@GradientMerge,w1@GRAD@GradientMerge,b0@GRAD@GradientMerge,b1@GRAD@GradientMerge -> Out=w0,w1,b0,b1,m_w0,m_w1,m_b0,m_b1,w0@GRAD@GradientMerge,w1@GRAD@GradientMerge,b0@GRAD@GradientMerge,b1@GRAD@GradientMerge Scope=scope_2 | sub_block=block:1 is_scalar_condition=true
block 1 0
` + each("scale X=<P>@GRAD@GradientMerge -> Out=<P>@GRAD@GradientMerge | scale=0.3333333f bias=0.0f bias_after_scale=false\n") + "INNER" +
	each("fill_constant -> Out=<P>@GRAD@GradientMerge | shape=<D> dtype=5 value=0.0f\n") + "global\n"

const inner = `momentum Param=<P> Grad=GRADIENT Velocity=m_<P> LearningRate=rate -> ParamOut=<P> VelocityOut=m_<P> | mu=0.9f use_nesterov=false op_role=2 op_role_var=["<P>","<P>@GRAD@GradientMerge"]
`

// scaled is how Fluid 1.6 takes the scale of a loss out of gradients, drops those that are not finite, and adapts the scale.
var scaled = `var scope_2 int32 [] scopes
var scope_3 int32 [] scopes
var scaling float32 [1] value=2
var finite bool [1]
var broken bool [1]
` + each(`elementwise_div X=<P>@GRAD Y=scaling -> Out=<P>.true | axis=-1
reduce_sum X=<P>.true -> Out=<P>.all | dim=[0] keep_dim=false reduce_all=true
`) + `concat X=w0.all,b0.all,w1.all,b1.all -> Out=parts | axis=0
reduce_sum X=parts -> Out=total | dim=[0] keep_dim=false reduce_all=true
isfinite X=total -> Out=finite
conditional_block Cond=finite Input=scaling -> Out=scaling Scope=scope_2 | sub_block=block:1 is_scalar_condition=true
logical_not X=finite -> Out=broken
conditional_block Cond=broken Input=w0.true,b0.true,w1.true,b1.true -> Out=w0.true,b0.true,w1.true,b1.true Scope=scope_3 | sub_block=block:2 is_scalar_condition=true
` + each(`sgd Param=<P> Grad=<P>.true LearningRate=rate -> ParamOut=<P> | op_role=2 op_role_var=["<P>","<P>@GRAD"]
`) + `block 1 0
scale X=scaling -> Out=grown | scale=2.0f bias=0.0f bias_after_scale=true
assign X=grown -> Out=scaling
block 2 0
` + each(`fill_zeros_like X=<P>.true -> Out=<P>.none
assign X=<P>.none -> Out=<P>.true
`) + "global\n"

// conditional are programs whose updates depend on the number of the step.
func conditional() map[string]string {
	updates := strings.ReplaceAll(schedules["constant"]+each(penalties["none"])+clips["none"]+updates["adam"], "<R>", "2")
	clip := each("squared_l2_norm X=<P>@GRAD@GradientMerge -> Out=<P>.squares\nassign X=<P>@GRAD@GradientMerge -> Out=<P>.reg\n") + strings.ReplaceAll(byGlobalNorm, "<R>", "2")
	return map[string]string{
		"lookahead":         network + updates + lookahead,
		"merge":             network + strings.Replace(merged, "INNER", each(strings.Replace(inner, "GRADIENT", "<P>@GRAD@GradientMerge", 1)), 1),
		"merge with a clip": network + strings.Replace(merged, "INNER", clip+each(strings.Replace(inner, "GRADIENT", "<P>.clip", 1)), 1),
		"scaled loss":       network + scaled,
		"clipped weights":   network + updates + each("clip X=<P> -> Out=<P>.limited | min=-0.1f max=0.1f\nassign X=<P>.limited -> Out=<P>\n"),
		"a schedule of averages": network + updates + `var passed int64 [1] value=-1
increment X=passed -> Out=passed | step=1.0f
cast X=passed -> Out=steps | in_dtype=3 out_dtype=5
scale X=steps -> Out=more | scale=1.0f bias=1.0f op_role=16
scale X=steps -> Out=most | scale=1.0f bias=10.0f op_role=16
elementwise_div X=more Y=most -> Out=decay | axis=-1 op_role=16
` + each(`var <P>.ema float32 <D> value=0
elementwise_mul X=<P>.ema Y=decay -> Out=<P>.old | axis=-1 op_role=2
scale X=decay -> Out=<P>.share | scale=-1.0f bias=1.0f op_role=2
elementwise_mul X=<P> Y=<P>.share -> Out=<P>.new | axis=-1 op_role=2
elementwise_add X=<P>.old Y=<P>.new -> Out=<P>.mean | axis=-1 op_role=2
assign X=<P>.mean -> Out=<P>.ema | op_role=2
`),
		"slow copies in a branch": network + updates + strings.Replace(lookahead, "value=0.1", "value=0", 1) + copies,
	}
}

// copies gives the slow copies the values of the parameters in the first step.
var copies = `var first.number int32 [1]
fill_constant -> Out=first.number | shape=[1L] value=1.0f dtype=2
var first bool [1]
var scope_4 int32 [] scopes
equal X=step Y=first.number -> Out=first | axis=-1
conditional_block Cond=first Input=w0,w1,b0,b1 -> Out=w0@SLOW,w1@SLOW,b0@SLOW,b1@SLOW Scope=scope_4 | sub_block=block:3 is_scalar_condition=true
block 3 0
` + each("assign X=<P> -> Out=<P>@SLOW\n") + "global\n"

// Updates that act in every few steps, as Lookahead and the merge of gradients, and what stands behind updates, obey the law, and parameters that have nothing to do with each other are on different servers.
func TestConditionalUpdatesObeyTheLaw(t *testing.T) {
	for name, text := range conditional() {
		m, err := fluidtext.Read(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, cfg := range []transpiler.Config{{Trainers: 3, PServers: 2, MinBlockSize: 4}, {Trainers: 1, PServers: 2, MinBlockSize: 4, Mode: transpiler.Async}} {
			if err := checkLaw(t, m.Program, cfg, "loss", "w0"); err != nil {
				t.Errorf("%s, %+v: %v", name, cfg, err)
			}
		}
		r, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 2, PServers: 2})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var slices [2]int
		for _, s := range r.Placement.Slices {
			slices[s.Server]++
		}
		if together := slices[0] == 0 || slices[1] == 0; together != (name == "merge with a clip" || name == "scaled loss") {
			t.Errorf("%s: servers have %v slices", name, slices)
		}
	}
}

// A condition that depends on the batch differs from trainer to trainer, so no server can have it.
func TestAConditionOfTheBatchIsRefused(t *testing.T) {
	text := strings.Replace(conditional()["merge"], "equal X=step Y=zero -> Out=due", "mean X=fc_0.tmp_0 -> Out=level\nless_than X=level Y=rate -> Out=due", 1)
	m, err := fluidtext.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transpiler.Transpile(t.Context(), m.Program, transpiler.Config{Trainers: 2, PServers: 2}); fault.KindOf(err) != fault.Unsupported || !strings.Contains(err.Error(), "due") {
		t.Errorf("%v", err)
	}
}
