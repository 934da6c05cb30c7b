package executor_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// counted is a loop of three runs, as while_loop of Paddle 2 writes it: with carried it writes to variables of the global block.
func counted(before, carried, body, after string) string {
	return `
		var x float32 [-1,2] feed=[2,2]
		var i int64 [1]
		var n int64 [1]
		var more bool [1]
		fill_constant -> Out=i | shape=[1L] value=0.0f dtype=3
		fill_constant -> Out=n | shape=[1L] value=3.0f dtype=3
		less_than X=i Y=n -> Out=more | axis=-1
		` + before + `
		while X=i,n,x,` + carried + ` Condition=more -> Out=i,more,` + carried + ` StepScopes=scopes | sub_block=block:1 is_test=true
		` + after + `
		block 1 0
		` + body + `
		increment X=i -> Out=i | step=1.0f
		less_than X=i Y=n -> Out=more | axis=-1
		`
}

// TestLoopsCarryWhatPaddleCarries runs loops whose variables grow, are fed, are written in part, or have no value before.
func TestLoopsCarryWhatPaddleCarries(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       func(x []float32) ([]float32, []int64)
	}{
		{"a sentence that grows by a word in each run", counted(`
			var words float32 [-1,-1]
			assign X=x -> Out=words`, "words", `
			reduce_sum X=words -> Out=sum | dim=[1] keep_dim=true reduce_all=false
			concat X=words,sum -> Out=longer | axis=1
			assign X=longer -> Out=words`, `
			var out float32 [-1,-1]
			scale X=words -> Out=out | scale=1.0f bias=0.0f`),
			func(x []float32) (list []float32, dims []int64) {
				for i := 0; i < len(x); i += 2 {
					s := x[i] + x[i+1]
					list = append(list, x[i], x[i+1], s, 2*s, 4*s)
				}
				return list, []int64{int64(len(x) / 2), 5}
			}},
		{"a sentence that grows to dims which the loop computes", counted(`
			var words float32 [-1,-1]
			assign X=x -> Out=words`, "words", `
			var dims int32 [2]
			var rows int32 [1]
			var length int32 [1]
			reduce_sum X=words -> Out=sum | dim=[1] keep_dim=true reduce_all=false
			concat X=words,sum -> Out=longer | axis=1
			shape Input=longer -> Out=dims |
			slice Input=dims -> Out=rows | axes=[0] starts=[0] ends=[1]
			slice Input=dims -> Out=length | axes=[0] starts=[1] ends=[2]
			reshape2 X=longer ShapeTensor=rows,length -> Out=same XShape=xs | shape=[-1,-1]
			assign X=same -> Out=words`, `
			var out float32 [-1,-1]
			scale X=words -> Out=out | scale=1.0f bias=0.0f`),
			func(x []float32) (list []float32, dims []int64) {
				for i := 0; i < len(x); i += 2 {
					s := x[i] + x[i+1]
					list = append(list, x[i], x[i+1], s, 2*s, 4*s)
				}
				return list, []int64{int64(len(x) / 2), 5}
			}},
		{"a variable that is fed", counted("", "x", `
			scale X=x -> Out=twice | scale=2.0f bias=0.0f
			assign X=twice -> Out=x`, `
			var out float32 [-1,2]
			scale X=x -> Out=out | scale=1.0f bias=0.0f`),
			func(x []float32) (list []float32, dims []int64) {
				for _, v := range x {
					list = append(list, 8*v)
				}
				return list, []int64{int64(len(x) / 2), 2}
			}},
		{"a row of a table in each run", counted(`
			var table float32 [3,2]
			fill_constant -> Out=table | shape=[3L,2L] value=0.5f dtype=5`, "table", `
			var next int64 [1]
			scale X=i -> Out=next | scale=1.0f bias=1.0f bias_after_scale=true
			reduce_sum X=x -> Out=row | dim=[0] keep_dim=false reduce_all=false
			cast X=i -> Out=k | in_dtype=3 out_dtype=5
			elementwise_add X=row Y=k -> Out=moved | axis=-1
			set_value Input=table StartsTensorList=i EndsTensorList=next ValueTensor=moved -> Out=table | axes=[0L] starts=[] ends=[] steps=[1L] decrease_axes=[0L] none_axes=[] dtype=5 shape=[]`, `
			var out float32 [3,2]
			scale X=table -> Out=out | scale=1.0f bias=0.0f`),
			func(x []float32) (list []float32, dims []int64) {
				var a, b float32
				for i := 0; i < len(x); i += 2 {
					a, b = a+x[i], b+x[i+1]
				}
				return []float32{a, b, a + 1, b + 1, a + 2, b + 2}, []int64{3, 2}
			}},
		{"a variable that outlives the run and is set in place", counted(`
			var kept float32 [2,2] value=1`, "kept", `
			reduce_sum X=x -> Out=row | dim=[0] keep_dim=false reduce_all=false
			set_value Input=kept ValueTensor=row -> Out=kept | axes=[0L] starts=[1L] ends=[2L] steps=[1L] decrease_axes=[0L] none_axes=[] dtype=5 shape=[]`, `
			var out float32 [2,2]
			scale X=kept -> Out=out | scale=1.0f bias=0.0f`),
			func(x []float32) (list []float32, dims []int64) {
				var a, b float32
				for i := 0; i < len(x); i += 2 {
					a, b = a+x[i], b+x[i+1]
				}
				return []float32{1, 1, a, b}, []int64{2, 2}
			}},
		{"a variable without a value before", counted(`
			var undefined_var_0 float64 [1]
			assign_value -> Out=undefined_var_0 | shape=[1] dtype=5 fp32_values=[1.77113e+27f]`, "undefined_var_0", `
			var best int64 [-1]
			arg_max X=x -> Out=best | axis=1 dtype=3 keepdims=false flatten=false
			assign X=best -> Out=undefined_var_0`, `
			var out float32 [-1]
			cast X=undefined_var_0 -> Out=out | in_dtype=3 out_dtype=5`),
			func(x []float32) (list []float32, dims []int64) {
				for i := 0; i < len(x); i += 2 {
					list = append(list, map[bool]float32{true: 1}[x[i+1] > x[i]])
				}
				return list, []int64{int64(len(x) / 2)}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := fluidtext.Read(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if err := ops.Verify(m.Program, program.StageLocal); err != nil {
				t.Fatal(err)
			}
			l := executor.New()
			defer l.Close()
			for _, x := range [][]float32{{1, 2}, {3, -4, 5, 6, 0, 0.5}, {8, 0.25}, {1, 1, 2, 2, 3, 4}} {
				out, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, slices.Clone(x), int64(len(x)/2), 2)}, "out")
				if err != nil {
					t.Fatal(err)
				}
				want, dims := c.want(x)
				if !slices.Equal(out[0].Float32s(), want) || !slices.Equal(out[0].Dims(), dims) {
					t.Errorf("of %v: %v, want %v of dims %v", x, out[0], want, dims)
				}
			}
		})
	}
}

// Branches may give a variable other dims than it had.
func TestABranchChangesDims(t *testing.T) {
	m, err := fluidtext.Read(`
		var x float32 [-1,2] feed=[2,2]
		var y float32 [-1,2]
		var sum float32 [1]
		var none float32 [1]
		var more bool [1]
		reduce_sum X=x -> Out=sum | dim=[0] keep_dim=false reduce_all=true
		fill_constant -> Out=none | shape=[1L] value=0.0f dtype=5
		less_than X=none Y=sum -> Out=more | axis=-1
		assign X=x -> Out=y
		conditional_block Cond=more Input=x -> Out=y Scope=scopes | sub_block=block:1 is_scalar_condition=true
		var out float32 [-1,2]
		scale X=y -> Out=out | scale=1.0f bias=0.0f
		block 1 0
		concat X=x,x -> Out=both | axis=0
		assign X=both -> Out=y`)
	if err != nil {
		t.Fatal(err)
	}
	l := executor.New()
	defer l.Close()
	for _, c := range [][2][]float32{{{1, 2}, {1, 2, 1, 2}}, {{-1, -2}, {-1, -2}}, {{0, 3}, {0, 3, 0, 3}}} {
		out, err := l.Run(t.Context(), m.Program, executor.Feed{"x": values(t, c[0], 1, 2)}, "out")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(out[0].Float32s(), c[1]) {
			t.Errorf("of %v: %v, want %v", c[0], out[0], c[1])
		}
	}
}

// TestOpsOfOneDNNRun compares ops into which passes for oneDNN have merged others with the ops one by one.
func TestOpsOfOneDNNRun(t *testing.T) {
	for _, c := range []struct {
		name, merged string
		want         []float32
		dims         []int64
	}{
		{"a product of matrices between other orders of axes", `
			fused_matmul X=x Y=x ResidualData=x -> Out=out | trans_x=false trans_y=false matmul_alpha=0.5f fuse_activation="relu" fuse_alpha=0.0f fuse_beta=0.0f fused_output_scale=1.0f fused_reshape_X=[] fused_transpose_X=[] fused_reshape_Y=[0,2] fused_transpose_Y=[1,0] fused_reshape_Out=[] fused_transpose_Out=[] scale_x=1.0f scale_y=1.0f scale_out=1.0f scale_in_eltwise=0.0f`,
			// 0.5 * [[1,-2],[3,4]] * [[1,3],[-2,4]] = [[2.5,-2.5],[-2.5,12.5]], and x
			[]float32{3.5, 0, 0.5, 16.5}, []int64{2, 2}},
		{"a product whose result gets other dims", `
			matmul_v2 X=x Y=x -> Out=out | trans_x=false trans_y=false fused_transpose_Out=[1,0] fused_reshape_Out=[1,4] fused_reshape_X=[] use_mkldnn=true`,
			[]float32{-5, 15, -10, 10}, []int64{1, 4}},
		{"a sum", `
			elementwise_add X=x Y=x -> Out=out | axis=-1 fuse_activation="leaky_relu" fuse_alpha=0.5f fuse_beta=0.0f use_mkldnn=true`, []float32{2, -2, 6, 8}, []int64{2, 2}},
		{"a sum with another axis", `
			fused_elementwise_mul X=x Y=x -> Out=out | axis=-1 fuse_activation="relu" fused_unsqueeze2_axes=[0] fused_output_scale=0.5f`, []float32{0.5, 2, 4.5, 8}, []int64{1, 2, 2}},
		{"an order of axes", `
			fused_transpose X=x -> Out=out XShape=shape | axis=[1,0] fused_squeeze2_axes=[] fused_unsqueeze2_axes=[] fused_reshape2_shape=[4,-1] scale=1.0f shift=0.0f output_data_type=""`,
			[]float32{1, 3, -2, 4}, []int64{4, 1}},
		{"softplus", `
			scale X=x -> Out=zero | scale=0.0f bias=30.0f
			softplus X=zero -> Out=out | beta=1.0f threshold=20.0f fuse_activation_type="relu6" fuse_activation_alpha=6.0f fuse_activation_beta=0.0f fuse_activation_scale=1.0f`,
			[]float32{6, 6, 6, 6}, []int64{2, 2}},
		{"a layer", `
			fc Input=x W=x Bias=bias ResidualData=x -> Out=out | in_num_col_dims=1 activation_type="leaky_relu" fuse_alpha=0.5f`,
			// [[1,-2],[3,4]]^2 = [[-5,-10],[15,10]], and the bias of [0.5, -0.5], and x
			[]float32{-1.75, -6.25, 18.5, 13.5}, []int64{2, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := fluidtext.Read("var x float32 [2,2] feed=[2,2]\nvar bias float32 [2] feed=[2]\nvar out float32 []\n" + c.merged)
			if err != nil {
				t.Fatal(err)
			}
			l := executor.New()
			defer l.Close()
			feed := executor.Feed{"x": values(t, []float32{1, -2, 3, 4}, 2, 2), "bias": values(t, []float32{0.5, -0.5}, 2)}
			out, err := l.Run(t.Context(), m.Program, feed, "out")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out[0].Float32s(), c.want) || !slices.Equal(out[0].Dims(), c.dims) {
				t.Errorf("got %v, want %v of dims %v", out[0], c.want, c.dims)
			}
		})
	}
}

// A merged convolution with channels behind adds a bias to each channel.
func TestMergedConvolutionWithChannelsBehind(t *testing.T) {
	m, err := fluidtext.Read(`
		var x float32 [1,1,2,2] feed=[1,1,2,2]
		var w float32 [2,2,1,1] feed=[2,2,1,1]
		var bias float32 [2] feed=[2]
		var out float32 []
		conv2d_fusion Input=x Filter=w Bias=bias -> Output=out | strides=[1,1] paddings=[0,0] dilations=[1,1] groups=1 padding_algorithm="EXPLICIT" data_format="NHWC" activation="leaky_relu" fuse_alpha=0.5f`)
	if err != nil {
		t.Fatal(err)
	}
	l := executor.New()
	defer l.Close()
	feed := executor.Feed{"x": values(t, []float32{1, 2, 3, 4}, 1, 1, 2, 2), "w": values(t, []float32{1, 0, 0, -1}, 2, 2, 1, 1), "bias": values(t, []float32{10, -10}, 2)}
	out, err := l.Run(t.Context(), m.Program, feed, "out")
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{11, -6, 13, -7}; !slices.Equal(out[0].Float32s(), want) {
		t.Errorf("got %v, want %v", out[0], want)
	}
}

// A prelu with channels behind computes, and trains, what it does with channels before.
func TestPReLUWithChannelsBehind(t *testing.T) {
	m, err := fluidtext.Read(`
		var x float32 [1,1,2,2] feed=[1,1,2,2]
		var a float32 [2] param
		var out float32 []
		var g float32 [1,1,2,2] feed=[1,1,2,2]
		var x@GRAD float32 [1,1,2,2]
		var a@GRAD float32 [2]
		prelu X=x Alpha=a -> Out=out | mode="channel" data_format="NHWC"
		prelu_grad X=x Alpha=a Out@GRAD=g -> X@GRAD=x@GRAD Alpha@GRAD=a@GRAD | mode="channel" data_format="NHWC" op_role=1`)
	if err != nil {
		t.Fatal(err)
	}
	l := executor.New()
	defer l.Close()
	if err := l.Scope().Set("a", values(t, []float32{0.5, 0.25}, 2)); err != nil {
		t.Fatal(err)
	}
	feed := executor.Feed{"x": values(t, []float32{-2, -4, 3, -8}, 1, 1, 2, 2), "g": values(t, []float32{1, 2, 4, 8}, 1, 1, 2, 2)}
	out, err := l.Run(t.Context(), m.Program, feed, "out", "x@GRAD", "a@GRAD")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float32{{-1, -1, 3, -2}, {0.5, 0.5, 4, 2}, {-2, -72}} {
		if !slices.Equal(out[i].Float32s(), want) {
			t.Errorf("got %v, want %v", out[i], want)
		}
	}
}
