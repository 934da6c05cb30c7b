package executor_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Forms of ops that a program is read in otherwise than it is written compute what Paddle computes.
func TestFormsThatAreReadInParts(t *testing.T) {
	x := []float32{1, 2, 3, 4}
	for name, c := range map[string]struct {
		lines string
		want  map[string][]float32
	}{
		"transposed in place": {`transpose2 X=x -> Out=x XShape=s | axis=[1,0]
			scale X=x -> Out=y | scale=2.0f`, map[string][]float32{"y": {2, 6, 4, 8}}},
		"several times in place": {`scale X=x -> Out=y | scale=2.0f
			cumsum X=y -> Out=y | axis=1
			scale X=y -> Out=z | scale=1.0f
			flip X=y -> Out=y | axis=[0]
			elementwise_sub X=x Y=y -> Out=y | axis=-1`, map[string][]float32{"z": {2, 6, 6, 14}, "y": {-5, -12, 1, -2}}},
		"reduced as another type": {`cast X=x -> Out=n | in_dtype=5 out_dtype=3
			reduce_sum X=n -> Out=y | dim=[1] in_dtype=3 out_dtype=5`, map[string][]float32{"y": {3, 7}}},
		"cross entropy on an axis": {`reshape X=x -> Out=l | shape=[1,2,2,1]
			fill_constant -> Out=c | shape=[1L,1L,2L,1L] value=1.0f dtype=3
			softmax_with_cross_entropy Logits=l Label=c -> Loss=y Softmax=s | axis=1
			fill_constant -> Out=dy | shape=[1L,1L,2L,1L] value=1.0f dtype=5
			softmax_with_cross_entropy_grad Softmax=s Label=c Loss@GRAD=dy -> Logits@GRAD=dx | axis=1`,
			map[string][]float32{"y": {0.126928, 0.126928}, "dx": {0.1192029, 0.1192029, -0.1192029, -0.1192029}}},
		"momentum with a penalty": {`momentum Param=p Grad=x Velocity=v LearningRate=r -> ParamOut=p VelocityOut=v | mu=0.5f regularization_method="l2_decay" regularization_coeff=0.5f op_role=2`,
			map[string][]float32{"v": {1.5, 2.5, 3.5, 4.5}, "p": {-0.5, -1.5, -2.5, -3.5}}},
		"normalised and activated": {`reshape X=x -> Out=l | shape=[2,2,1,1]
			inplace_abn X=l Scale=o Bias=q Mean=m Variance=o -> Y=y MeanOut=m VarianceOut=o SavedMean=a SavedVariance=b | is_test=true activation="leaky_relu" alpha=0.5f epsilon=0.0f
			fused_bn_add_activation X=l Z=l Scale=o Bias=q Mean=m Variance=o -> Y=z MeanOut=m2 VarianceOut=o2 SavedMean=a SavedVariance=b | act_type="relu" epsilon=0.0f`,
			map[string][]float32{"y": {-0.5, -1, 1, 0}, "z": {0, 0, 4, 4}}},
		"causal softmax": {`reshape X=x -> Out=l | shape=[1,1,2,2]
			softmax_mask_fuse_upper_triangle X=l -> Out=y | op_role=0`, map[string][]float32{"y": {1, 0, 0.26894143, 0.7310586}}},
		"an empty item": {`fill_constant -> Out=i | shape=[1L] value=1.0f dtype=3
			fill_constant -> Out=k | shape=[1L] value=0.0f dtype=3
			write_to_array X=x I=i -> Out=items
			read_from_array X=items I=k X_W=x -> Out=y`, map[string][]float32{"y": {0, 0, 0, 0}}},
		"edges of Paddle 2.3": {`fill_constant -> Out=from | shape=[3L] value=1.0f dtype=2
			fill_constant -> Out=to | shape=[3L] value=0.0f dtype=2
			graph_send_recv X=x Src_index=from Dst_index=to -> Out=y Dst_count=c | pool_type="MEAN" out_size=0L
			graph_send_recv_grad X=x Src_index=from Dst_index=to Dst_count=c Out@GRAD=x -> X@GRAD=dx | pool_type="MEAN" out_size=0L op_role=1`,
			map[string][]float32{"y": {3, 4, 0, 0}, "dx": {0, 0, 1, 2}}},
		"edges to rows of a variable": {`fill_constant -> Out=from | shape=[3L] value=1.0f dtype=3
			fill_constant -> Out=to | shape=[3L] value=0.0f dtype=3
			fill_constant -> Out=rows | shape=[1L] value=1.0f dtype=2
			graph_send_recv X=x Src_index=from Dst_index=to Out_size=rows -> Out=y Dst_count=c | reduce_op="SUM" out_size=[0L]
			scale X=y -> Out=y@GRAD | scale=2.0f
			graph_send_recv_grad X=x Src_index=from Dst_index=to Out@GRAD=y@GRAD -> X@GRAD=dx | reduce_op="SUM" out_size=[0L] op_role=1`,
			map[string][]float32{"y": {9, 12}, "dx": {0, 0, 54, 72}}},
		"half": {`cast X=x -> Out=h | in_dtype=5 out_dtype=4
			cast X=h -> Out=y | in_dtype=4 out_dtype=5`, map[string][]float32{"y": x}},
	} {
		t.Run(name, func(t *testing.T) {
			p := program.New()
			for name, dims := range map[string][]int64{"p": {2, 2}, "v": {2, 2}, "r": {1}, "m": {2}, "o": {2}, "q": {2}} {
				p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: dims, Persistable: true})
			}
			p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2, 2}})
			p.Global().EnsureVar(program.Var{Name: "items", Kind: program.LoDTensorArray, DType: tensor.Float32, Dims: []int64{2, 2}})
			p.Global().EnsureVar(program.Var{Name: "h", Kind: program.LoDTensor, DType: tensor.Float16})
			for _, name := range []string{"l", "s"} {
				p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, -1, -1, -1}})
			}
			if err := fluidtext.Append(p.Global(), c.lines); err != nil {
				t.Fatal(err)
			}
			p, err := fluidtext.Again(p)
			if err != nil {
				t.Fatal(err)
			}
			l := executor.New()
			defer l.Close()
			for name, value := range map[string]*tensor.Tensor{"p": values(t, []float32{1, 1, 1, 1}, 2, 2), "v": values(t, []float32{0, 0, 0, 0}, 2, 2), "r": values(t, []float32{1}, 1),
				"m": values(t, []float32{2, 3}, 2), "o": values(t, []float32{1, 1}, 2), "q": values(t, []float32{0, -1}, 2)} {
				if err := l.Scope().Set(name, value); err != nil {
					t.Fatal(err)
				}
			}
			var fetch []string
			for name := range c.want {
				fetch = append(fetch, name)
			}
			out, err := l.Run(t.Context(), p, executor.Feed{"x": values(t, slices.Clone(x), 2, 2)}, fetch...)
			if err != nil {
				t.Fatal(err)
			}
			for i, name := range fetch {
				got, want := out[i].Float32s(), c.want[name]
				if len(got) != len(want) {
					t.Fatalf("%s = %v, want %v", name, got, want)
				}
				for k := range want {
					if d := got[k] - want[k]; d > 1e-5 || d < -1e-5 {
						t.Errorf("%s = %v, want %v", name, got, want)
						break
					}
				}
			}
		})
	}
}

// The numbers of a tensor that is fed say how large a result is, so each list of them has a plan of its own.
func TestRepetitionsThatAreFed(t *testing.T) {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 2}})
	p.Global().EnsureVar(program.Var{Name: "n", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{2}})
	if err := fluidtext.Append(p.Global(), "repeat_interleave X=x RepeatsTensor=n -> Out=y | dim=1 Repeats=0"); err != nil {
		t.Fatal(err)
	}
	l := executor.New()
	defer l.Close()
	for _, c := range []struct {
		n    []int64
		want []float32
	}{{[]int64{1, 2}, []float32{1, 2, 2, 3, 4, 4}}, {[]int64{2, 1}, []float32{1, 1, 2, 3, 3, 4}}, {[]int64{0, 1}, []float32{2, 4}}} {
		n, err := tensor.FromSlice(c.n, 2)
		if err != nil {
			t.Fatal(err)
		}
		out, err := l.Run(t.Context(), p, executor.Feed{"x": values(t, []float32{1, 2, 3, 4}, 2, 2), "n": n}, "y")
		if err != nil || !slices.Equal(out[0].Float32s(), c.want) {
			t.Errorf("%v: %v, %v, want %v", c.n, out, err, c.want)
		}
	}
}
