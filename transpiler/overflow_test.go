package transpiler_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// minimized is network with a scaled loss, as mixed precision writes it. The loss is a sum over the batch, which overflows before its gradients do.
var minimized = strings.NewReplacer(`mean X=cost.tmp_1 -> Out=loss | op_role=256`, `reduce_sum X=cost.tmp_1 -> Out=cost | dim=[0] keep_dim=false reduce_all=true
var scaling float32 [1] value=SCALE
elementwise_mul X=cost Y=scaling -> Out=loss | axis=-1 op_role=256`, `mean_grad X=cost.tmp_1 Out@GRAD=loss@GRAD -> X@GRAD=cost.tmp_1@GRAD | op_role=1`,
	`elementwise_mul_grad X=cost Y=scaling Out@GRAD=loss@GRAD -> X@GRAD=cost@GRAD | axis=-1 op_role=1
reduce_sum_grad X=cost.tmp_1 Out@GRAD=cost@GRAD -> X@GRAD=cost.tmp_1@GRAD | dim=[0] keep_dim=false reduce_all=true op_role=1`).Replace(network)

// decorated is what apply_gradients of mixed_precision.decorate of Fluid 1.7 appends: the scale doubles after 2 steps in which all gradients are finite, and is divided by 8 after one in which one is not.
// No op but the division has a role.
var decorated = `var good int32 [1] value=0
var bad int32 [1] value=0
` + each("elementwise_div X=<P>@GRAD Y=scaling -> Out=<P>.true | axis=-1 op_role=2 op_role_var=[\"<P>\",\"<P>@GRAD\"]\n") +
	each("reduce_sum X=<P>.true -> Out=<P>.all | dim=[0] keep_dim=false reduce_all=true\n") + `concat X=w0.all,b0.all,w1.all,b1.all -> Out=parts | axis=0
reduce_sum X=parts -> Out=total | dim=[0] keep_dim=false reduce_all=true
var finite bool [1]
var broken bool [1]
var nothing int32 [1]
var often int32 [1]
var once int32 [1]
var scopes.0 int32 [] scopes
var scopes.1 int32 [] scopes
var scopes.2 int32 [] scopes
var scopes.3 int32 [] scopes
isfinite X=total -> Out=finite
fill_constant -> Out=often | shape=[1L] value=2.0f dtype=2
fill_constant -> Out=once | shape=[1L] value=1.0f dtype=2
fill_constant -> Out=nothing | shape=[1L] value=0.0f dtype=2
logical_not X=finite -> Out=broken
conditional_block Cond=finite Input=scaling,good,bad,nothing,often -> Out=scaling,good,bad Scope=scopes.0 | sub_block=block:1 is_scalar_condition=true
conditional_block Cond=broken Input=scaling,good,bad,nothing,once -> Out=scaling,good,bad Scope=scopes.1 | sub_block=block:6 is_scalar_condition=true
var broken.too bool [1]
logical_not X=finite -> Out=broken.too
conditional_block Cond=finite -> Scope=scopes.2 | sub_block=block:9 is_scalar_condition=true
conditional_block Cond=broken.too Input=w0.true,b0.true,w1.true,b1.true -> Out=w0.true,b0.true,w1.true,b1.true Scope=scopes.3 | sub_block=block:10 is_scalar_condition=true
` + each("sgd Param=<P> Grad=<P>.true LearningRate=rate -> ParamOut=<P> | op_role=2 op_role_var=[\"<P>\",\"<P>@GRAD\"]\n") + `block 1 0
var more int32 [1]
var grows bool [1]
var stays bool [1]
var scopes.4 int32 [] scopes
var scopes.5 int32 [] scopes
scale X=good -> Out=more | scale=1.0f bias=1.0f bias_after_scale=true
less_than X=often Y=more -> Out=grows | axis=-1
logical_not X=grows -> Out=stays
conditional_block Cond=grows Input=scaling,good,bad,nothing -> Out=scaling,good,bad Scope=scopes.4 | sub_block=block:2 is_scalar_condition=true
conditional_block Cond=stays Input=good,bad,nothing -> Out=good,bad Scope=scopes.5 | sub_block=block:5 is_scalar_condition=true
block 2 1
var larger float32 [1]
var fits bool [1]
var burst bool [1]
var scopes.6 int32 [] scopes
var scopes.7 int32 [] scopes
scale X=scaling -> Out=larger | scale=2.0f bias=0.0f bias_after_scale=true
isfinite X=larger -> Out=fits
logical_not X=fits -> Out=burst
conditional_block Cond=fits Input=larger -> Out=scaling Scope=scopes.6 | sub_block=block:3 is_scalar_condition=true
conditional_block Cond=burst -> Scope=scopes.7 | sub_block=block:4 is_scalar_condition=true
assign X=nothing -> Out=good
assign X=nothing -> Out=bad
block 3 2
assign X=larger -> Out=scaling
block 4 2
block 5 1
increment X=good -> Out=good | step=1.0f
assign X=nothing -> Out=bad
block 6 0
var worse int32 [1]
var falls bool [1]
var waits bool [1]
var scopes.8 int32 [] scopes
var scopes.9 int32 [] scopes
scale X=bad -> Out=worse | scale=1.0f bias=1.0f bias_after_scale=true
less_than X=nothing Y=worse -> Out=falls | axis=-1
logical_not X=falls -> Out=waits
conditional_block Cond=falls Input=scaling,good,bad,nothing -> Out=scaling,good,bad Scope=scopes.8 | sub_block=block:7 is_scalar_condition=true
conditional_block Cond=waits Input=good,bad,nothing -> Out=good,bad Scope=scopes.9 | sub_block=block:8 is_scalar_condition=true
block 7 6
var smaller float32 [1]
scale X=scaling -> Out=smaller | scale=0.125f bias=0.0f bias_after_scale=true
assign X=smaller -> Out=scaling
assign X=nothing -> Out=good
assign X=nothing -> Out=bad
block 8 6
increment X=bad -> Out=bad | step=1.0f
assign X=nothing -> Out=good
block 9 0
block 10 0
` + each(`var <P>.none float32 <D>
fill_zeros_like X=<P>.true -> Out=<P>.none
assign X=<P>.none -> Out=<P>.true
`) + "global\n"

// skipping applies gradients in a block that runs if all are finite, and adapts the scale with it.
var skipping = `var finite bool [1]
var broken bool [1]
var scopes.0 int32 [] scopes
var scopes.1 int32 [] scopes
` + each(`elementwise_div X=<P>@GRAD Y=scaling -> Out=<P>.true | axis=-1 op_role=2
reduce_sum X=<P>.true -> Out=<P>.all | dim=[0] keep_dim=false reduce_all=true op_role=2
`) + `concat X=w0.all,b0.all,w1.all,b1.all -> Out=parts | axis=0 op_role=2
isfinite X=parts -> Out=finite | op_role=2
logical_not X=finite -> Out=broken | op_role=2
conditional_block Cond=finite Input=w0,b0,w1,b1,w0.true,b0.true,w1.true,b1.true,rate -> Out=w0,b0,w1,b1 Scope=scopes.0 | sub_block=block:1 is_scalar_condition=true op_role=2
conditional_block Cond=broken Input=scaling -> Out=scaling Scope=scopes.1 | sub_block=block:2 is_scalar_condition=true op_role=2
block 1 0
` + each("sgd Param=<P> Grad=<P>.true LearningRate=rate -> ParamOut=<P> | op_role=2\n") + `block 2 0
scale X=scaling -> Out=smaller | scale=0.125f bias=0.0f bias_after_scale=true op_role=2
assign X=smaller -> Out=scaling | op_role=2
global
`

func read(t *testing.T, text string) *program.Program {
	t.Helper()
	m, err := fluidtext.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return m.Program
}

// A program that drops gradients of a scaled loss which is too large goes on with a lower scale, here and on clusters, also where the scaled loss is fetched.
func TestAScaledLossMayOverflow(t *testing.T) {
	for name, tail := range map[string]string{"gradients of 0": decorated, "updates that are left out": skipping} {
		p := read(t, strings.Replace(minimized, "SCALE", "3e38", 1)+tail)
		e := executor.New()
		defer e.Close()
		overflows, kept, changed := 0, 0, 0
		var old []float32
		random := rand.New(rand.NewPCG(1, 2))
		for range 8 {
			fetched, err := e.Run(t.Context(), p, batch(t, p, random), "loss", "w0")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if math.IsInf(float64(fetched[0].Float32s()[0]), 0) {
				overflows++
			}
			w0 := slices.Clone(fetched[1].Float32s())
			for _, w := range w0 {
				if math.IsNaN(float64(w)) || math.IsInf(float64(w), 0) {
					t.Fatalf("%s: w0 = %v", name, w0)
				}
			}
			switch {
			case old == nil:
			case slices.Equal(old, w0):
				kept++
			default:
				changed++
			}
			old = w0
		}
		if overflows == 0 || overflows == 8 || kept == 0 || changed == 0 {
			t.Errorf("%s: %d of 8 losses overflow, %d steps keep parameters, %d change them", name, overflows, kept, changed)
		}
		for _, cfg := range []transpiler.Config{{Trainers: 1, PServers: 1}, {Trainers: 2, PServers: 2, MinBlockSize: 4}, {Trainers: 3, PServers: 2, MinBlockSize: 4}, {Trainers: 4, PServers: 1}} {
			if err := checkLaw(t, p, cfg, "loss", "w0", "scaling"); err != nil {
				t.Errorf("%s, %+v: %v", name, cfg, err)
			}
		}
	}
}

// A program that looks at its gradients and uses them all the same, or drops only some of them, ends before its update.
func TestALossThatNobodyDropsMustBeFinite(t *testing.T) {
	looks := each("elementwise_div X=<P>@GRAD Y=scaling -> Out=<P>.true | axis=-1 op_role=2\n") + `var finite bool [1]
isfinite X=w0.true -> Out=finite | op_role=2
` + each("sgd Param=<P> Grad=<P>.true LearningRate=rate -> ParamOut=<P> | op_role=2\n")
	for name, tail := range map[string]string{
		"looks":             looks,
		"drops some":        strings.NewReplacer("assign X=b1.none -> Out=b1.true\n", "", "w1.true,b1.true -> Out=w0.true,b0.true,w1.true,b1.true Scope=scopes.3", "w1.true -> Out=w0.true,b0.true,w1.true Scope=scopes.3").Replace(decorated),
		"drops by the step": strings.Replace(decorated, "isfinite X=total -> Out=finite", "less_than X=good Y=good -> Out=finite | axis=-1", 1),
	} {
		p := read(t, strings.Replace(minimized, "SCALE", "3e38", 1)+tail)
		e := executor.New()
		defer e.Close()
		if _, err := e.Run(t.Context(), p, batch(t, p, rand.New(rand.NewPCG(1, 2))), "loss"); fault.KindOf(err) != fault.NotFinite {
			t.Errorf("%s: %v, want an error that says what is not finite", name, err)
		}
	}
}
