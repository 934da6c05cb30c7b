package transpiler_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/transpiler"
)

// Paddle 2 writes x[:, i] = y as set_value in place, and its gradient so, too: each takes what y gives away from the gradient of x. Such a program trains by the law, and as one that writes each value
// to a variable of its own.
func TestValuesThatAreSetInPlaceTrain(t *testing.T) {
	const head = `version 2003000
var x float32 [-1,3] feed=[4,3]
var w float32 [3,2] value=random
var u float32 [2,2] value=random
var rate float32 [1] value=0.1
fill_constant_batch_size_like Input=x -> Out=S0 | shape=[-1,3,2] value=1.0f dtype=5 input_dim_idx=0 output_dim_idx=0
matmul_v2 X=x Y=w -> Out=h0 | trans_x=false trans_y=false
set_value Input=S0 ValueTensor=h0 -> Out=S1 | dtype=5 axes=[1L] starts=[0L] ends=[1L] steps=[1L] decrease_axes=[1L] none_axes=[] shape=[]
matmul_v2 X=h0 Y=u -> Out=h1 | trans_x=false trans_y=false
set_value Input=S1 ValueTensor=h1 -> Out=S2 | dtype=5 axes=[1L] starts=[1L] ends=[2L] steps=[1L] decrease_axes=[1L] none_axes=[] shape=[]
square X=S2 -> Out=squares
mean X=squares -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=squares Out@GRAD=loss@GRAD -> X@GRAD=squares@GRAD | op_role=1
square_grad X=S2 Out@GRAD=squares@GRAD -> X@GRAD=S2@GRAD | op_role=1
set_value_grad ValueTensor=h1 Out@GRAD=S2@GRAD -> Input@GRAD=S1@GRAD ValueTensor@GRAD=h1@GRAD | dtype=5 axes=[1L] starts=[1L] ends=[2L] steps=[1L] decrease_axes=[1L] none_axes=[] shape=[] op_role=1
matmul_v2_grad X=h0 Y=u Out@GRAD=h1@GRAD -> X@GRAD=h0@GRAD@RENAME@0 Y@GRAD=u@GRAD | trans_x=false trans_y=false op_role=1 op_role_var=["u","u@GRAD"]
set_value_grad ValueTensor=h0 Out@GRAD=S1@GRAD -> Input@GRAD=S0@GRAD ValueTensor@GRAD=h0@GRAD@RENAME@1 | dtype=5 axes=[1L] starts=[0L] ends=[1L] steps=[1L] decrease_axes=[1L] none_axes=[] shape=[] op_role=1
sum X=h0@GRAD@RENAME@0,h0@GRAD@RENAME@1 -> Out=h0@GRAD | op_role=1
matmul_v2_grad X=x Y=w Out@GRAD=h0@GRAD -> Y@GRAD=w@GRAD | trans_x=false trans_y=false op_role=1 op_role_var=["w","w@GRAD"]
sgd Param=w Grad=w@GRAD LearningRate=rate -> ParamOut=w | op_role=2 op_role_var=["w","w@GRAD"]
sgd Param=u Grad=u@GRAD LearningRate=rate -> ParamOut=u | op_role=2 op_role_var=["u","u@GRAD"]
`
	apart := read(t, head)
	same := read(t, strings.NewReplacer("S0", "s", "S1", "s", "S2", "s").Replace(head))
	cfg := transpiler.Config{Trainers: 2, PServers: 2, MinBlockSize: 4}
	for name, p := range map[string]*program.Program{"apart": apart, "in place": same} {
		if err := checkLaw(t, p, cfg, "loss", "w"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	feed := batch(t, apart, rand.New(rand.NewPCG(1, 2)))
	var got [2][]float32
	for i, p := range []*program.Program{apart, same} {
		l := executor.New()
		defer l.Close()
		if err := l.Startup(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		for range steps {
			out, err := l.Run(t.Context(), p, feed, "loss", "w", "u")
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range out {
				got[i] = append(got[i], x.Float32s()...)
			}
		}
	}
	if !slices.Equal(got[0], got[1]) {
		t.Errorf("in place it computes %v, want %v", got[1], got[0])
	}
}
