package layers_test

import (
	"slices"
	"strings"
	"testing"

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
