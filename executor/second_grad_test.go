package executor_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/fluidtext"
	"github.com/edl-go/edl/tensor"
)

// Each case is a program in the form in which Paddle writes a gradient and the gradient of it. The second one gets the variation vA of a gradient gA, and writes dB, the derivative by B
// of the sum of all vA*gA.
var secondGradients = map[string]struct {
	vars  string // NAME[DIMS] of what is fed: variables, and gradients that arrive
	first string
	then  string
}{
	"mul": {"x[2,3] y[3,2] g[2,2] vx[2,3] vy[3,2]",
		"mul_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | x_num_col_dims=1 y_num_col_dims=1",
		"mul_grad_grad X=x Y=y DOut=g DDX=vx DDY=vy -> DX=dx DY=dy DDOut=dg | x_num_col_dims=1 y_num_col_dims=1"},
	"mul without ddY": {"x[2,3] y[3,2] g[2,2] vx[2,3]",
		"mul_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx | x_num_col_dims=1 y_num_col_dims=1",
		"mul_grad_grad X=x Y=y DOut=g DDX=vx -> DX=dx DY=dy DDOut=dg | x_num_col_dims=1 y_num_col_dims=1"},
	"matmul": {"x[2,2,3] y[2,4,3] g[2,2,4] vx[2,2,3] vy[2,4,3]",
		"matmul_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | transpose_X=false transpose_Y=true alpha=0.5f",
		"matmul_grad_grad X=x Y=y DOut=g DDX=vx DDY=vy -> DX=dx DY=dy DDOut=dg | transpose_X=false transpose_Y=true alpha=0.5f"},
	"matmul_v2": {"x[2,2,3] y[3,4] g[2,2,4] vy[3,4]",
		"matmul_v2_grad X=x Y=y Out@GRAD=g -> Y@GRAD=gy | trans_x=false trans_y=false",
		"matmul_v2_grad_grad X=x Y=y DOut=g DDY=vy -> DX=dx DY=dy DDOut=dg | trans_x=false trans_y=false"},
	"elementwise_mul": {"x[2,3,2] y[3] g[2,3,2] vx[2,3,2] vy[3]",
		"elementwise_mul_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | axis=1",
		"elementwise_mul_grad_grad X=x Y=y DOut=g DDX=vx DDY=vy -> X@GRAD=dx Y@GRAD=dy DDOut=dg | axis=1"},
	"elementwise_add": {"x[2,3,2] y[3] g[2,3,2] vx[2,3,2] vy[3]",
		"elementwise_add_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | axis=1",
		"elementwise_add_grad_grad Y=y DOut=g DDX=vx DDY=vy -> DDOut=dg | axis=1"},
	"elementwise_add of 1.5": {"x[2,3,2] y[3] g[2,3,2] vy[3]",
		"elementwise_add_grad X=x Y=y Out@GRAD=g -> Y@GRAD=gy | axis=1",
		"elementwise_add_grad_grad X=x Y=y DOut=g DDY=vy -> X@GRAD=dx Y@GRAD=dy DDOut=dg | axis=1"},
	"elementwise_sub": {"x[2,3] y[2,3] g[2,3] vx[2,3] vy[2,3]",
		"elementwise_sub_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | axis=-1",
		"elementwise_sub_grad_grad Y=y DOut=g DDX=vx DDY=vy -> DDOut=dg | axis=-1"},
	"elementwise_sub without ddY": {"x[2,3] y[2,3] g[2,3] vx[2,3]",
		"elementwise_sub_grad X=x Y=y Out@GRAD=g -> X@GRAD=gx | axis=-1",
		"elementwise_sub_grad_grad Y=y DOut=g DDX=vx -> DDOut=dg | axis=-1"},
	"elementwise_div": {"x[2,3,2] y[3] g[2,3,2] vx[2,3,2] vy[3]",
		"elementwise_div X=x Y=y -> Out=o | axis=1\nelementwise_div_grad Y=y Out=o Out@GRAD=g -> X@GRAD=gx Y@GRAD=gy | axis=1",
		"elementwise_div_grad_grad Y=y Out=o DX=gx DDX=vx DDY=vy -> Y@GRAD=part DOut=do DDOut=dg | axis=1\nelementwise_div_grad Y=y Out=o Out@GRAD=do -> X@GRAD=dx Y@GRAD=rest | axis=1\nsum X=part,rest -> Out=dy"},
	"elementwise_div without ddY": {"x[2,3] y[2,3] g[2,3] vx[2,3]",
		"elementwise_div X=x Y=y -> Out=o | axis=-1\nelementwise_div_grad Y=y Out=o Out@GRAD=g -> X@GRAD=gx | axis=-1",
		"elementwise_div_grad_grad Y=y Out=o DX=gx DDX=vx -> Y@GRAD=dy DOut=do DDOut=dg | axis=-1"},
	"conv2d": {"x[2,2,4,4] w[4,1,3,3] g[2,4,2,2] vx[2,2,4,4] vw[4,1,3,3]",
		"conv2d_grad Input=x Filter=w Output@GRAD=g -> Input@GRAD=gx Filter@GRAD=gw | strides=[2,2] paddings=[1,1] dilations=[1,1] groups=2",
		"conv2d_grad_grad Input=x Filter=w DOutput=g DDInput=vx DDFilter=vw -> DInput=dx DFilter=dw DDOutput=dg | strides=[2,2] paddings=[1,1] dilations=[1,1] groups=2"},
	"depthwise_conv2d": {"x[1,2,3,3] w[2,1,2,2] g[1,2,2,2] vx[1,2,3,3]",
		"depthwise_conv2d_grad Input=x Filter=w Output@GRAD=g -> Input@GRAD=gx | strides=[1,1] paddings=[0,0] dilations=[1,1] groups=2",
		"depthwise_conv2d_grad_grad Input=x Filter=w DOutput=g DDInput=vx -> DFilter=dw DDOutput=dg | strides=[1,1] paddings=[0,0] dilations=[1,1] groups=2"},
	"conv3d": {"x[1,1,2,3,3] w[2,1,2,2,2] g[1,2,1,2,2] vx[1,1,2,3,3] vw[2,1,2,2,2]",
		"conv3d_grad Input=x Filter=w Output@GRAD=g -> Input@GRAD=gx Filter@GRAD=gw | strides=[1,1,1] paddings=[0,0,0] dilations=[1,1,1] groups=1",
		"conv3d_grad_grad Input=x Filter=w DOutput=g DDInput=vx DDFilter=vw -> DInput=dx DFilter=dw DDOutput=dg | strides=[1,1,1] paddings=[0,0,0] dilations=[1,1,1] groups=1"},
	"conv2d_transpose": {"x[1,2,2,2] w[2,3,2,2] g[1,3,4,4] vx[1,2,2,2] vw[2,3,2,2]",
		"conv2d_transpose_grad Input=x Filter=w Output@GRAD=g -> Input@GRAD=gx Filter@GRAD=gw | strides=[2,2] paddings=[0,0] dilations=[1,1] groups=1",
		"conv2d_transpose_grad_grad Input=x Filter=w DOutput=g DDInput=vx DDFilter=vw -> DInput=dx DFilter=dw DDOutput=dg | strides=[2,2] paddings=[0,0] dilations=[1,1] groups=1"},
	"relu": {"x[2,3] g[2,3] vx[2,3]",
		"relu X=x -> Out=o\nrelu_grad Out=o Out@GRAD=g -> X@GRAD=gx",
		"relu_grad_grad Out=o DDX=vx -> DDOut=dg"},
	"leaky_relu": {"x[2,3] g[2,3] vx[2,3]",
		"leaky_relu_grad X=x Out@GRAD=g -> X@GRAD=gx | alpha=0.2f",
		"leaky_relu_grad_grad X=x DDX=vx -> DDOut=dg | alpha=0.2f"},
	"leaky_relu of 1.6": {"x[2,3] g[2,3] vx[2,3]",
		"leaky_relu X=x -> Out=o | alpha=0.2f\nleaky_relu_grad X=x Out@GRAD=g -> X@GRAD=gx | alpha=0.2f",
		"leaky_relu_grad_grad Out=o DDX=vx -> DDOut=dg | alpha=0.2f"},
	"abs":    {"x[2,3] g[2,3] vx[2,3]", "abs_grad X=x Out@GRAD=g -> X@GRAD=gx", "abs_double_grad X=x DDX=vx -> DDOut=dg"},
	"square": {"x[2,3] g[2,3] vx[2,3]", "square_grad X=x Out@GRAD=g -> X@GRAD=gx", "square_grad_grad X=x DOut=g DDX=vx -> DX=dx DDOut=dg"},
	"log":    {"p[2,3] g[2,3] vp[2,3]", "log_grad X=p Out@GRAD=g -> X@GRAD=gp", "log_grad_grad X=p DOut=g DDX=vp -> DX=dp DDOut=dg"},
	"elu": {"x[2,3] g[2,3] vx[2,3]", "elu_grad X=x Out@GRAD=g -> X@GRAD=gx | alpha=0.7f",
		"elu_grad_grad X=x DOut=g DDX=vx -> DX=dx DDOut=dg | alpha=0.7f"},
	"sqrt":    {"p[2,3] g[2,3] vp[2,3]", "sqrt_grad Out=p Out@GRAD=g -> X@GRAD=gp", "sqrt_grad_grad Out=p DX=gp DDX=vp -> DOut=dp DDOut=dg"},
	"rsqrt":   {"p[2,3] g[2,3] vp[2,3]", "rsqrt_grad Out=p Out@GRAD=g -> X@GRAD=gp", "rsqrt_grad_grad Out=p DX=gp DDX=vp -> DOut=dp DDOut=dg"},
	"tanh":    {"x[2,3] g[2,3] vx[2,3]", "tanh_grad Out=x Out@GRAD=g -> X@GRAD=gx", "tanh_grad_grad Out=x DOut=g DDX=vx -> DOutNew=dx DDOut=dg"},
	"sigmoid": {"x[2,3] g[2,3] vx[2,3]", "sigmoid_grad Out=x Out@GRAD=g -> X@GRAD=gx", "sigmoid_grad_grad Out=x DOut=g DDX=vx -> DOutNew=dx DDOut=dg"},
	"reshape2": {"x[2,3] g[6] vx[2,3]", "reshape2 X=x -> Out=o XShape=s | shape=[-1]\nreshape2_grad XShape=s Out@GRAD=g -> X@GRAD=gx | shape=[-1]",
		"reshape2_grad_grad DOut=g DDX=vx -> DDOut=dg | shape=[-1]"},
	"pool2d": {"x[1,1,4,4] g[1,1,2,2] vx[1,1,4,4]",
		"pool2d X=x -> Out=o | pooling_type=\"avg\" ksize=[2,2] strides=[2,2] paddings=[0,0]\npool2d_grad X=x Out=o Out@GRAD=g -> X@GRAD=gx | pooling_type=\"avg\" ksize=[2,2] strides=[2,2] paddings=[0,0]",
		"pool2d_double_grad X=vx -> Out=dg | pooling_type=\"avg\" ksize=[2,2] strides=[2,2] paddings=[0,0]"},
	"instance_norm": {"x[2,3,2,2] s[3] b[3] g[2,3,2,2] vx[2,3,2,2] vs[3] vb[3]",
		"instance_norm X=x Scale=s Bias=b -> Y=y SavedMean=m SavedVariance=r | epsilon=0.00001f\ninstance_norm_grad X=x Scale=s SavedMean=m SavedVariance=r Y@GRAD=g -> X@GRAD=gx Scale@GRAD=gs Bias@GRAD=gb | epsilon=0.00001f",
		"instance_norm_grad_grad X=x Scale=s SavedMean=m SavedVariance=r DDX=vx DDScale=vs DDBias=vb DY=g -> DX=dx DScale=ds DDY=dg | epsilon=0.00001f"},
	"instance_norm of a penalty": {"x[2,3,4] s[3] b[3] g[2,3,4] vx[2,3,4]",
		"instance_norm X=x Scale=s Bias=b -> Y=y SavedMean=m SavedVariance=r | epsilon=0.00001f\ninstance_norm_grad X=x Scale=s SavedMean=m SavedVariance=r Y@GRAD=g -> X@GRAD=gx | epsilon=0.00001f",
		"instance_norm_grad_grad X=x Scale=s SavedMean=m SavedVariance=r DDX=vx DY=g -> DX=dx DScale=ds DDY=dg | epsilon=0.00001f"},
	"batch_norm": {"x[2,3,2,2] s[3] b[3] g[2,3,2,2] vx[2,3,2,2] vs[3] vb[3] n[3] p[3]",
		"batch_norm X=x Scale=s Bias=b Mean=n Variance=p -> Y=y MeanOut=nn VarianceOut=pp SavedMean=m SavedVariance=r | momentum=0.9f epsilon=0.00001f is_test=false data_layout=\"NCHW\" use_global_stats=false\n" +
			"batch_norm_grad X=x Scale=s SavedMean=m SavedVariance=r Y@GRAD=g -> X@GRAD=gx Scale@GRAD=gs Bias@GRAD=gb | momentum=0.9f epsilon=0.00001f is_test=false data_layout=\"NCHW\" use_global_stats=false",
		"batch_norm_grad_grad X=x Scale=s SavedMean=m SavedVariance=r DDX=vx DDScale=vs DDBias=vb DY=g -> DX=dx DScale=ds DDY=dg | momentum=0.9f epsilon=0.00001f is_test=false data_layout=\"NCHW\" use_global_stats=false"},
}

// Gradients of gradients are derivatives: they agree with central differences in float64.
func TestGradientsOfGradientsAreDerivatives(t *testing.T) {
	for name, c := range secondGradients {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			feeds := executor.Feed{}
			var sums, derivatives []string
			for i, word := range strings.Fields(c.vars) {
				at := strings.Index(word, "[")
				text.WriteString("var " + word[:at] + " float64 " + word[at:] + " feed=" + word[at:] + "\n")
				feeds[word[:at]] = spread(t, word, int64(i))
				if word[0] == 'v' {
					sums = append(sums, word[1:at])
				}
			}
			declared := map[string]bool{}
			for _, v := range strings.Fields(strings.NewReplacer(",", " ", "=", " ", "\n", " ").Replace(c.first + " " + c.then)) {
				if len(v) == 2 && (v[0] == 'd' || v[0] == 'g') && !declared[v] {
					declared[v] = true
					text.WriteString("var " + v + " float64 []\n") // what is fetched has its type
				}
				if len(v) == 2 && v[0] == 'd' && v != "do" && feeds[v[1:]] != nil {
					derivatives = append(derivatives, v)
				}
			}
			gradients := []string{}
			for _, of := range sums {
				gradients = append(gradients, "g"+of)
			}
			whole := readText(t, text.String()+c.first+"\n"+c.then+"\nfetch "+strings.Join(derivatives, ",")+"\n")
			first := readText(t, text.String()+c.first+"\nfetch "+strings.Join(gradients, ",")+"\n")
			l := executor.New()
			defer l.Close()
			only := func(m *fluidtext.Model) executor.Feed {
				out := executor.Feed{}
				for name, value := range feeds {
					if v, ok := m.Program.Global().Var(name); ok && !v.Persistable {
						out[name] = value
					}
				}
				return out
			}
			results, err := l.Run(t.Context(), whole.Program, only(whole), derivatives...)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]float64{}
			for i, name := range derivatives {
				got[name] = append([]float64(nil), results[i].Float64s()...)
			}
			sum := func() (all float64) {
				out, err := l.Run(t.Context(), first.Program, only(first), gradients...)
				if err != nil {
					t.Fatal(err)
				}
				for i, of := range sums {
					for k, x := range out[i].Float64s() {
						all += x * feeds["v"+of].Float64s()[k]
					}
				}
				return all
			}
			if len(derivatives) == 0 {
				t.Fatal("nothing is compared")
			}
			for _, name := range derivatives {
				x := feeds[name[1:]].Float64s()
				for i := range x {
					const h = 1e-5
					was := x[i]
					x[i] = was + h
					above := sum()
					x[i] = was - h
					want := (above - sum()) / (2 * h)
					x[i] = was
					if math.Abs(got[name][i]-want) > 1e-6*(1+math.Abs(want)) {
						t.Errorf("%s[%d] is %g, want %g", name, i, got[name][i], want)
					}
				}
			}
		})
	}
}

// spread has different numbers away from 0, those of the variable p positive.
func spread(t *testing.T, word string, salt int64) *tensor.Tensor {
	t.Helper()
	m := readText(t, "var v float64 "+word[strings.Index(word, "["):]+" feed="+word[strings.Index(word, "["):]+"\nfetch v\n")
	x, err := tensor.New(tensor.Float64, m.Feeds["v"].Dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Float64s() {
		n := math.Sin(float64(int64(i)*7+salt*3+1) * 1.3)
		if word[0] == 'p' {
			n = math.Abs(n)
		}
		x.Float64s()[i] = n + math.Copysign(0.3, n)
	}
	return x
}

func readText(t *testing.T, text string) *fluidtext.Model {
	t.Helper()
	m, err := fluidtext.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
