package ops_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/ops"
)

// TestRecordsAlongAnotherAxis says which ops of a network whose tensors begin with the steps leave the records apart.
func TestRecordsAlongAnotherAxis(t *testing.T) {
	for op, apart := range map[string]bool{
		"slice Input=m -> Out=z | axes=[0] starts=[0] ends=[2]":                                                             true,
		"slice Input=m -> Out=z | axes=[0] starts=[1] ends=[2] decrease_axis=[0]":                                           true,
		"slice Input=m -> Out=z | axes=[1] starts=[0] ends=[1]":                                                             false,
		"slice Input=m -> Out=z | axes=[0,1,-1] starts=[0,0,0] ends=[-1,1000000000,1000000000]":                             true,
		"slice Input=m -> Out=z | axes=[0,1] starts=[0,0] ends=[2,1000000]":                                                 false,
		"slice Input=m -> Out=z | axes=[-1] starts=[0] ends=[1] decrease_axis=[-1]":                                         true,
		"slice Input=m -> Out=z | axes=[-2] starts=[0] ends=[1]":                                                            false,
		"unsqueeze2 X=m -> Out=z XShape=xs | axes=[-1]":                                                                     true,
		"reverse X=m -> Out=z | axis=[0]":                                                                                   true,
		"reverse X=m -> Out=z | axis=[1]":                                                                                   false,
		"concat X=m,m -> Out=z | axis=0":                                                                                    true,
		"concat X=m,m -> Out=z | axis=1":                                                                                    false,
		"concat X=m,x -> Out=z | axis=0":                                                                                    false,
		"stack X=m,m -> Y=z | axis=1":                                                                                       true,
		"split X=m -> Out=z,rest | axis=0 num=2 sections=[]":                                                                true,
		"unstack X=m -> Y=z,b,c,d | axis=0 num=4":                                                                           true,
		"unstack X=m -> Y=z,b | axis=1 num=2":                                                                               false,
		"reduce_sum X=m -> Out=z | dim=[0] keep_dim=false":                                                                  true,
		"reduce_sum X=m -> Out=z | dim=[1] keep_dim=false":                                                                  false,
		"reduce_max X=m -> Out=z | dim=[2] keep_dim=true":                                                                   true,
		"reduce_sum X=m -> Out=z | dim=[-1] keep_dim=false":                                                                 true,
		"reduce_sum X=m -> Out=z | dim=[-2] keep_dim=false":                                                                 false,
		"tanh X=m -> Out=z |":                                                                                               true,
		"mul X=m Y=w -> Out=z | x_num_col_dims=2 y_num_col_dims=1":                                                          true,
		"mul X=m Y=v -> Out=z | x_num_col_dims=1 y_num_col_dims=1":                                                          false,
		"reshape2 X=m -> Out=z XShape=xs | shape=[2,2,-1,3]":                                                                true,
		"reshape2 X=m -> Out=z XShape=xs | shape=[-1,3]":                                                                    false,
		"softmax X=m -> Out=z | axis=1":                                                                                     false,
		"transpose2 X=m -> Out=z XShape=xs | axis=[0,2,1]":                                                                  true,
		"fill_constant_batch_size_like Input=m -> Out=z | shape=[-1,3] value=1.0f dtype=5 input_dim_idx=0 output_dim_idx=0": false,
	} {
		m, err := fluidtext.Read(`
var x float32 [-1,4,3] feed=[2,4,3]
var w float32 [3,5] param
var v float32 [6,5] param
var m float32 [4,-1,3]
var z float32 []
var sum float32 [1]
var loss float32 [1]
transpose2 X=x -> Out=m XShape=ms | axis=[1,0,2]
` + op + `
square X=z -> Out=zz |
mean X=zz -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=zz Out@GRAD=loss@GRAD -> X@GRAD=zz@GRAD | op_role=1
`)
		if err != nil {
			t.Fatal(err)
		}
		kind, err := ops.GradientMerge(m.Program)
		switch {
		case apart && (err != nil || kind != ops.MergeMean):
			t.Errorf("%s: %v, %v", op, kind, err)
		case !apart && !errors.Is(err, fault.Unsupported):
			t.Errorf("%s: %v, %v; it mixes the records", op, kind, err)
		}
	}
}

// TestLossesOfSteps tells a mean over the batch for each step, whose numbers are added up, from a mean over steps for each record.
func TestLossesOfSteps(t *testing.T) {
	for axes, want := range map[string]ops.Merge{"[0,1]": ops.MergeMean, "[1,0]": ops.MergeSum} {
		m, err := fluidtext.Read(`
var x float32 [-1,4] feed=[2,4]
var m float32 []
var loss float32 [1]
transpose2 X=x -> Out=m XShape=ms | axis=` + axes + `
reduce_mean X=m -> Out=steps | dim=[0] keep_dim=false reduce_all=false
reduce_sum X=steps -> Out=loss | dim=[0] keep_dim=false reduce_all=true op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
reduce_sum_grad X=steps Out@GRAD=loss@GRAD -> X@GRAD=steps@GRAD | dim=[0] keep_dim=false reduce_all=true op_role=1
`)
		if err != nil {
			t.Fatal(err)
		}
		if kind, err := ops.GradientMerge(m.Program); err != nil || kind != want {
			t.Errorf("axes %s: %v, %v, want %v", axes, kind, err, want)
		}
	}
}

// TestProgramsOfPaddleWithBlocksTrainOnClusters follows the records through loops and branches as Fluid writes them.
func TestProgramsOfPaddleWithBlocksTrainOnClusters(t *testing.T) {
	paths, err := filepath.Glob("../executor/testdata/programs/grad_*.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := fluidtext.Read(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Program.Blocks) == 1 {
			continue
		}
		tried++
		if kind, err := ops.GradientMerge(m.Program); err != nil || kind != ops.MergeMean {
			t.Errorf("%s: %v, %v", strings.TrimSuffix(filepath.Base(path), ".txt"), kind, err)
		}
	}
	if tried < 6 {
		t.Errorf("%d programs with blocks", tried)
	}
}

// TestFilledWithComputedDims finds the records of what is filled with one number and with dims that the program computes.
func TestFilledWithComputedDims(t *testing.T) {
	for lines, apart := range map[string]bool{
		`fill_constant ShapeTensorList=two,n,three -> Out=h | shape=[2L,-1L,3L] value=0.5f dtype=5
		slice Input=h -> Out=y | axes=[0] starts=[0] ends=[1] decrease_axis=[0]`: true,
		`fill_constant ShapeTensorList=two,n,three -> Out=h | shape=[2L,-1L,3L] value=0.5f dtype=5
		slice Input=h -> Out=y | axes=[1] starts=[0] ends=[1] decrease_axis=[1]`: false,
		`fill_constant ShapeTensorList=n,n -> Out=h | shape=[-1L,-1L] value=0.5f dtype=5
		reduce_sum X=h -> Out=y | dim=[1] keep_dim=true reduce_all=false`: false,
		`fill_constant ShapeTensor=nt -> Out=h | shape=[] value=0.5f dtype=5
		reduce_sum X=h -> Out=y | dim=[1] keep_dim=true reduce_all=false`: true,
		`fill_constant ShapeTensor=tw -> Out=h2 | shape=[] value=0.5f dtype=5
		reduce_sum X=h2 -> Out=number | dim=[0] keep_dim=false reduce_all=true
		reduce_sum X=x -> Out=m | dim=[1] keep_dim=false reduce_all=false
		elementwise_mul X=m Y=number -> Out=y | axis=-1`: true,
		`fill_constant ShapeTensor=s -> Out=h2 | shape=[] value=0.5f dtype=5
		reduce_sum X=h2 -> Out=number | dim=[0] keep_dim=false reduce_all=true
		reduce_sum X=x -> Out=m | dim=[1] keep_dim=false reduce_all=false
		elementwise_mul X=m Y=number -> Out=y | axis=-1`: false,
		`fill_constant ShapeTensor=tw -> Out=h | shape=[] value=0.5f dtype=5
		reduce_sum X=h -> Out=y | dim=[1] keep_dim=true reduce_all=false`: false,
	} {
		m, err := fluidtext.Read(`
var x float32 [-1,-1,3] feed=[2,3,3]
var s int32 [3]
var h float32 [-1,-1,3]
var y float32 [-1,3]
var loss float32 [1]
fill_constant -> Out=two | shape=[1L] value=2.0f dtype=2
fill_constant -> Out=three | shape=[1L] value=3.0f dtype=2
transpose2 X=x -> Out=turned XShape=xs | axis=[1,0,2]
shape Input=turned -> Out=ts |
shape Input=x -> Out=s |
slice Input=ts -> Out=n | axes=[0] starts=[1] ends=[2]
slice Input=s -> Out=nt | axes=[0] starts=[0] ends=[-1]
slice Input=s -> Out=tw | axes=[0] starts=[1] ends=[3]
` + lines + `
reduce_sum X=turned -> Out=each | dim=[0] keep_dim=false reduce_all=false
elementwise_mul X=each Y=y -> Out=z | axis=-1
mean X=z -> Out=loss | op_role=256
fill_constant -> Out=loss@GRAD | shape=[1L] value=1.0f dtype=5 op_role=257
mean_grad X=z Out@GRAD=loss@GRAD -> X@GRAD=z@GRAD | op_role=1
`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = ops.GradientMerge(m.Program); apart == (err != nil) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}
