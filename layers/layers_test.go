package layers_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestLayersAppendFluidsOpsWithTheirShapes(t *testing.T) {
	one := func(v layers.Variable) []layers.Variable { return []layers.Variable{v} }
	two := func(v, w layers.Variable) []layers.Variable { return []layers.Variable{v, w} }
	cases := []struct {
		name  string
		build func(in inputs) []layers.Variable
		ops   string
		dims  string
	}{
		{"fc", func(in inputs) []layers.Variable { return one(layers.FC(in.rows, 3, layers.Act("relu"))) }, "mul elementwise_add relu", "[-1 3]"},
		{"fc without bias", func(in inputs) []layers.Variable { return one(layers.FC(in.rows, 3, layers.NoBias())) }, "mul", "[-1 3]"},
		{"fc of an image", func(in inputs) []layers.Variable { return one(layers.FC(in.image, 3)) }, "mul elementwise_add", "[-1 3]"},
		{"fc of two flatten dims", func(in inputs) []layers.Variable { return one(layers.FC(in.image, 3, layers.NumFlattenDims(2))) },
			"mul elementwise_add", "[-1 4 3]"},
		{"fc of two inputs", func(in inputs) []layers.Variable {
			return one(layers.FCs([]layers.Variable{in.rows, in.columns}, 3))
		}, "mul mul sum elementwise_add", "[-1 3]"},
		{"embedding", func(in inputs) []layers.Variable { return one(layers.Embedding(in.label, 10, 5)) }, "lookup_table", "[-1 5]"},
		{"embedding of sums", func(in inputs) []layers.Variable { return one(layers.Embedding(in.ids, 10, 5, layers.Combine("sum"))) },
			"lookup_table reduce_sum", "[-1 5]"},
		{"embedding of means", func(in inputs) []layers.Variable { return one(layers.Embedding(in.ids, 10, 5, layers.Combine("mean"))) },
			"lookup_table reduce_mean", "[-1 5]"},
		{"embedding of sums over a root", func(in inputs) []layers.Variable { return one(layers.Embedding(in.ids, 10, 5, layers.Combine("sqrt"))) },
			"lookup_table reduce_sum scale", "[-1 5]"},
		{"embedding of sequences", func(in inputs) []layers.Variable {
			return one(layers.Embedding(in.words, 10, 5, layers.Combine("mean")))
		},
			"lookup_table sequence_pool", "[-1 5]"},
		{"sums of sequences", func(in inputs) []layers.Variable { return one(layers.FusedEmbeddingSeqPool(in.words, 10, 5)) },
			"fused_embedding_seq_pool", "[-1 5]"},
		{"conv2d", func(in inputs) []layers.Variable {
			return one(layers.Conv2D(in.image, 6, 3, layers.Stride(2, 2), layers.Padding(1, 1), layers.Groups(2), layers.Act("relu")))
		}, "conv2d elementwise_add relu", "[-1 6 4 4]"},
		{"conv2d with a flat window", func(in inputs) []layers.Variable {
			return one(layers.Conv2D(in.image, 2, 0, layers.WindowSize(1, 3), layers.NoBias()))
		}, "conv2d", "[-1 2 8 6]"},
		{"pool2d", func(in inputs) []layers.Variable {
			return one(layers.Pool2D(in.image, 2, layers.Stride(2, 2), layers.AvgPool()))
		}, "pool2d", "[-1 4 4 4]"},
		{"global pooling", func(in inputs) []layers.Variable { return one(layers.Pool2D(in.image, 2, layers.GlobalPooling())) }, "pool2d", "[-1 4 1 1]"},
		{"simple_img_conv_pool", func(in inputs) []layers.Variable {
			return one(layers.SimpleImgConvPool(in.image, 5, 3, 2, 2, layers.Act("tanh")))
		}, "conv2d elementwise_add tanh pool2d", "[-1 5 3 3]"},
		{"batch_norm", func(in inputs) []layers.Variable { return one(layers.BatchNorm(in.image)) }, "batch_norm", "[-1 4 8 8]"},
		{"layer_norm", func(in inputs) []layers.Variable { return one(layers.LayerNorm(in.image)) }, "layer_norm", "[-1 4 8 8]"},
		{"layer_norm without bias", func(in inputs) []layers.Variable {
			return one(layers.LayerNorm(in.image, layers.NoBias(), layers.BeginNormAxis(2)))
		}, "layer_norm", "[-1 4 8 8]"},
		{"dropout", func(in inputs) []layers.Variable { return one(layers.Dropout(in.rows, 0.3)) }, "dropout", "[-1 6]"},
		{"softmax", func(in inputs) []layers.Variable { return one(layers.Softmax(in.rows)) }, "softmax", "[-1 6]"},
		{"cross_entropy", func(in inputs) []layers.Variable { return one(layers.CrossEntropy(in.rows, in.label)) }, "cross_entropy", "[-1 1]"},
		{"softmax_with_cross_entropy", func(in inputs) []layers.Variable {
			return two(layers.SoftmaxWithCrossEntropy(in.rows, in.label))
		}, "softmax_with_cross_entropy", "[-1 1] [-1 6]"},
		{"square_error_cost", func(in inputs) []layers.Variable { return one(layers.SquareErrorCost(in.rows, in.columns)) },
			"elementwise_sub square", "[-1 6]"},
		{"log_loss", func(in inputs) []layers.Variable {
			p := layers.FC(in.rows, 1, layers.Act("sigmoid"))
			return one(layers.LogLoss(p, layers.Cast(in.label, tensor.Float32)))
		}, "mul elementwise_add sigmoid cast log_loss", "[-1 1]"},
		{"sigmoid_cross_entropy_with_logits", func(in inputs) []layers.Variable {
			return one(layers.SigmoidCrossEntropyWithLogits(in.rows, in.columns))
		}, "sigmoid_cross_entropy_with_logits", "[-1 6]"},
		{"mean", func(in inputs) []layers.Variable { return one(layers.Mean(in.rows)) }, "mean", "[1]"},
		{"accuracy", func(in inputs) []layers.Variable { return one(layers.Accuracy(in.rows, in.label, layers.K(2))) }, "top_k accuracy", "[1]"},
		{"auc", func(in inputs) []layers.Variable { return one(layers.AUC(layers.Sigmoid(in.rows), in.label)) }, "sigmoid auc", "[1]"},
		{"top_k", func(in inputs) []layers.Variable { return two(layers.TopK(in.rows, 2)) }, "top_k", "[-1 2] [-1 2]"},
		{"concat", func(in inputs) []layers.Variable {
			return one(layers.Concat([]layers.Variable{in.rows, in.columns}, -1))
		}, "concat", "[-1 12]"},
		{"split", func(in inputs) []layers.Variable { return layers.Split(in.rows, 3, 1) }, "split", "[-1 2] [-1 2] [-1 2]"},
		{"split sections", func(in inputs) []layers.Variable { return layers.SplitSections(in.rows, []int64{4, 2}, -1) }, "split", "[-1 4] [-1 2]"},
		{"reshape", func(in inputs) []layers.Variable { return one(layers.Reshape(in.rows, []int64{0, 2, -1})) }, "reshape2", "[-1 2 3]"},
		{"transpose", func(in inputs) []layers.Variable { return one(layers.Transpose(in.matrix, []int{1, 0})) }, "transpose2", "[3 6]"},
		{"matmul", func(in inputs) []layers.Variable {
			return one(layers.MatMul(in.matrix, in.matrix, layers.TransposeX(), layers.Alpha(0.5)))
		}, "matmul", "[3 3]"},
		{"broadcast", func(in inputs) []layers.Variable {
			row := layers.FillConstant(in.m, 2, []int64{4})
			return one(layers.Mul(in.image, row, layers.Axis(1)))
		}, "fill_constant elementwise_mul", "[-1 4 8 8]"},
		{"arithmetic", func(in inputs) []layers.Variable {
			x := layers.Div(layers.Sub(in.rows, in.columns), layers.Max(in.rows, layers.Min(in.rows, in.columns)))
			return one(layers.Pow(x, layers.Add(x, x, layers.Act("relu"))))
		}, "elementwise_sub elementwise_min elementwise_max elementwise_div elementwise_add relu elementwise_pow", "[-1 6]"},
		{"sums", func(in inputs) []layers.Variable {
			return one(layers.Sums([]layers.Variable{in.rows, in.columns, in.rows}))
		}, "sum", "[-1 6]"},
		{"unary", func(in inputs) []layers.Variable {
			x := layers.Sign(layers.Abs(layers.Square(layers.Sqrt(layers.Log(layers.Exp(in.rows))))))
			return one(layers.Cos(layers.Ceil(layers.Floor(layers.Softsign(layers.Tanh(layers.Sigmoid(layers.Relu(x))))))))
		}, "exp log sqrt square abs sign relu sigmoid tanh softsign floor ceil cos", "[-1 6]"},
		{"limits", func(in inputs) []layers.Variable {
			return one(layers.ClipByNorm(layers.Clip(layers.Scale(in.rows, 2, 1), -1, 1), 5))
		}, "scale clip clip_by_norm", "[-1 6]"},
		{"copies", func(in inputs) []layers.Variable { return one(layers.ZerosLike(layers.Assign(in.rows))) }, "assign fill_zeros_like", "[-1 6]"},
		{"norm", func(in inputs) []layers.Variable { return one(layers.SquaredNorm(in.rows)) }, "squared_l2_norm", "[1]"},
		{"compare", func(in inputs) []layers.Variable { return one(layers.LessThan(in.rows, in.columns)) }, "less_than", "[-1 6]"},
		{"counter", func(in inputs) []layers.Variable {
			return one(layers.Increment(layers.FillConstant(in.m, 1, []int64{1}, layers.DType(tensor.Int64)), 2))
		}, "fill_constant increment", "[1]"},
		{"reductions", func(in inputs) []layers.Variable {
			return []layers.Variable{layers.ReduceSum(in.image, layers.Axes(1, -1)), layers.ReduceMean(in.image, layers.Axes(2), layers.KeepDims()),
				layers.ReduceMax(in.image)}
		}, "reduce_sum reduce_mean reduce_max", "[-1 8] [-1 4 1 8] [1]"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			in := newInputs()
			var dims []string
			for _, v := range c.build(in) {
				_, shape, _ := strings.Cut(v.String(), "[")
				dims = append(dims, "["+shape)
			}
			if got := opTypes(finish(t, in.m)); got != c.ops {
				t.Errorf("ops: got %s, want %s", got, c.ops)
			}
			if got := strings.Join(dims, " "); got != c.dims {
				t.Errorf("dims: got %s, want %s", got, c.dims)
			}
		})
	}
}

func TestEveryOpHasRoleAndLine(t *testing.T) {
	m := layers.NewModel()
	layers.FC(layers.Data(m, "x", layers.Dims(4)), 3, layers.Act("softmax"))
	p := finish(t, m)
	for _, op := range slices.Concat(p.Global().Ops, p.Startup.Global().Ops) {
		if op.Role() != program.RoleForward || !strings.HasPrefix(op.Line(), "layers/layers_test.go:") {
			t.Errorf("%s: role %d, line %q", op.Type, op.Role(), op.Line())
		}
	}
}

func TestNamesAreFluids(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(4))
	layers.FC(layers.FC(x, 3, layers.Act("tanh")), 2, layers.Name("out"), layers.Bias(layers.ParamAttr{Name: "offset"}))
	want := []string{"x", "fc_0.w_0", "fc_0.tmp_0", "fc_0.b_0", "fc_0.tmp_1", "fc_0.tmp_2", "out.w_0", "out.tmp_0", "offset", "out"}
	if got := variableNames(finish(t, m).Global()); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestNamesAvoidThoseThatTheUserGave(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "fc_0.tmp_0", layers.Dims(4))
	y := layers.FC(x, 3, layers.NoBias())
	finish(t, m)
	if y.Name() == x.Name() || !y.OK() {
		t.Errorf("the result is called %s", y.Name())
	}
}

func TestOpConvertsAttributesToTheirDeclaredTypes(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	layers.Op(m, "scale", layers.In{"X": {x}}, layers.Attrs{"scale": 2, "bias": 0.5})
	layers.Op(m, "transpose2", layers.In{"X": {x}}, layers.Attrs{"axis": []int{1, 0}})
	layers.Op(m, "fill_constant", nil, layers.Attrs{"shape": []int32{2, 3}, "dtype": tensor.Float64, "value": int64(7)})
	want := []map[string]program.Attr{
		{"scale": float32(2), "bias": float32(0.5)},
		{"axis": []int32{1, 0}},
		{"shape": []int64{2, 3}, "dtype": int32(tensor.Float64), "value": float32(7)},
	}
	for i, op := range finish(t, m).Global().Ops {
		for name, value := range want[i] {
			if got := op.Attrs[name]; !reflect.DeepEqual(got, value) {
				t.Errorf("%s of %s is %T %v, want %T %v", name, op.Type, got, got, value, value)
			}
		}
	}
}

func TestOpIntoWritesToTheGivenVariables(t *testing.T) {
	m := layers.NewModel()
	x := layers.Data(m, "x", layers.Dims(6))
	parts := layers.NewVariables(m, "parts", 2)
	out := layers.OpInto(m, "split", layers.In{"X": {x}}, layers.Attrs{"num": 2, "axis": 1}, layers.In{"Out": parts})
	finish(t, m)
	if got := out.All("Out"); len(got) != 2 || got[1].String() != "parts_0.tmp_1 float32[-1 3]" {
		t.Errorf("got %v", got)
	}
	if missing := out.One("Indices"); missing.OK() || missing.Model() != m {
		t.Errorf("a slot that the op does not have holds %v", missing)
	}
}

func TestOpRefusesVariablesOfAnotherModel(t *testing.T) {
	m, other := layers.NewModel(), layers.NewModel()
	x := layers.Data(other, "x", layers.Dims(6))
	if out := layers.Op(m, "relu", layers.In{"X": {x}}, nil).One("Out"); out.OK() {
		t.Errorf("got %v", out)
	}
	if _, err := m.Program(); err == nil {
		t.Error("the mistake is not reported")
	}
}

// Each option sets the attribute of Fluid that it stands for, and what follows from it.
func TestOptionsSetAttributes(t *testing.T) {
	for name, c := range map[string]struct {
		build func(in inputs) layers.Variable
		attr  string
		want  program.Attr
		dims  []int64
	}{
		"Dilation": {func(in inputs) layers.Variable {
			return layers.Conv2D(in.image, 2, 3, layers.Dilation(2, 3), layers.NoBias())
		},
			"dilations", []int32{2, 3}, []int64{-1, 2, 4, 2}},
		"CeilMode": {func(in inputs) layers.Variable {
			return layers.Pool2D(in.image, 3, layers.Stride(3, 3), layers.CeilMode())
		},
			"ceil_mode", true, []int64{-1, 4, 3, 3}},
		"CountPadding": {func(in inputs) layers.Variable {
			return layers.Pool2D(in.image, 2, layers.AvgPool(), layers.CountPadding())
		},
			"exclusive", false, []int64{-1, 4, 7, 7}},
		"SoftLabel": {func(in inputs) layers.Variable { return layers.CrossEntropy(in.rows, in.columns, layers.SoftLabel()) },
			"soft_label", true, []int64{-1, 1}},
		"IgnoreIndex": {func(in inputs) layers.Variable { return layers.CrossEntropy(in.rows, in.label, layers.IgnoreIndex(5)) },
			"ignore_index", int32(5), []int64{-1, 1}},
	} {
		in := newInputs()
		out := c.build(in)
		p := finish(t, in.m)
		op := p.Global().Ops[len(p.Global().Ops)-1]
		if got := op.Attrs[c.attr]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %s of %s is %#v, want %#v", name, c.attr, op.Type, got, c.want)
		}
		if v, _ := p.Global().Var(out.Name()); !slices.Equal(v.Dims, c.dims) {
			t.Errorf("%s: dims %v, want %v", name, v.Dims, c.dims)
		}
	}
}

// words is a model with sequences for DynamicLSTM, and what it begins with.
func words() (m *layers.Model, x, hidden, cell layers.Variable) {
	m = layers.NewModel()
	return m, layers.Data(m, "words", layers.Dims(8), layers.LoD(1)), layers.Data(m, "hidden", layers.Dims(2)), layers.Data(m, "cell", layers.Dims(2))
}

func TestDynamicLSTMBeginsWithItsInitialState(t *testing.T) {
	m, x, hidden, cell := words()
	layers.DynamicLSTM(x, 8, layers.InitialState(hidden, cell), layers.Reverse())
	ops := finish(t, m).Global().Ops
	op := ops[len(ops)-1]
	if op.In("H0") != "hidden" || op.In("C0") != "cell" {
		t.Errorf("begins with %q and %q", op.In("H0"), op.In("C0"))
	}
	if reverse, _ := op.Bool("is_reverse"); !reverse {
		t.Error("reads forwards")
	}
	m, x, _, _ = words()
	other := layers.NewModel()
	foreign := layers.Data(other, "foreign", layers.Dims(2), layers.DType(tensor.Float32))
	layers.DynamicLSTM(x, 8, layers.InitialState(foreign, foreign))
	if _, err := m.Program(); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `"foreign"`) {
		t.Errorf("a state of another model: %v", err)
	}
}
