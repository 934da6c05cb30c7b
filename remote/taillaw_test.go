package remote_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// rowModels make the cost of a model from rows of six numbers, x, and of a label. Each has ops that its name lists.
var rowModels = map[string]func(m *layers.Model, x, label layers.Variable) layers.Variable{
	"functions": func(_ *layers.Model, x, _ layers.Variable) layers.Variable {
		p := layers.FC(x, 4, layers.Act("sigmoid"))
		h := layers.Sums([]layers.Variable{layers.LGamma(layers.Scale(p, 1, 1)), layers.Digamma(layers.Scale(p, 1, 1)), layers.Erfinv(layers.Scale(p, 0.9, 0)),
			layers.Logit(p, 0.01), layers.I0(p), layers.Trunc(layers.Scale(p, 3, 0))})
		return scored(layers.Lerp(layers.FMax(h, p), layers.FMin(h, p), p))
	},
	"lanes": func(m *layers.Model, x, label layers.Variable) layers.Variable {
		h := layers.FC(x, 6, layers.Act("tanh"))
		third, _ := layers.KthValue(h, 3)
		most, _ := layers.Mode(h)
		product := layers.CumProd(layers.Scale(h, 0.5, 1))
		column := layers.Mod(label, layers.FillConstant(m, 6, []int64{1}, layers.DType(tensor.Int64)))
		taken := layers.TakeAlongAxis(product, column, 1)
		put := layers.PutAlongAxis(h, column, taken, 1, "mul")
		found := layers.Cast(layers.SearchSorted(layers.CumSum(layers.Square(h)), layers.Square(taken)), tensor.Float32)
		return scored(layers.Concat([]layers.Variable{put, layers.Unsqueeze(third, []int{1}), layers.Unsqueeze(most, []int{1}), found}, 1))
	},
	"deformable_conv": func(_ *layers.Model, x, _ layers.Variable) layers.Variable {
		image := layers.Reshape(layers.FC(x, 32), []int64{-1, 2, 4, 4})
		offset, mask := layers.Reshape(layers.FC(x, 72, layers.Act("tanh")), []int64{-1, 8, 3, 3}), layers.Reshape(layers.FC(x, 36, layers.Act("sigmoid")), []int64{-1, 4, 3, 3})
		return scored(layers.Reshape(layers.DeformableConv(image, offset, mask, 3, 2), []int64{-1, 27}))
	},
	"yolov3_loss": func(_ *layers.Model, x, label layers.Variable) layers.Variable {
		h := layers.Reshape(layers.FC(x, 28), []int64{-1, 7, 2, 2})
		boxes := layers.Reshape(layers.Slice(layers.Scale(x, 0, 0.4), []int{1}, []int64{0}, []int64{4}), []int64{-1, 1, 4})
		return layers.Yolov3Loss(h, boxes, layers.Cast(label, tensor.Int32), []int{16, 20}, []int{0}, 2, 0.7, 32)
	},
	"partial_concat partial_sum multinomial": func(_ *layers.Model, x, _ layers.Variable) layers.Variable {
		h, g := layers.FC(x, 5, layers.Act("tanh")), layers.FC(x, 5, layers.Act("sigmoid"))
		both := []layers.Variable{h, g}
		drawn := layers.TakeAlongAxis(h, layers.Multinomial(g, 2, false), 1)
		return scored(layers.Concat([]layers.Variable{layers.PartialConcat(both, 1, 3), layers.PartialSum(both, 2, -1), drawn}, 1))
	},
	"matrices": func(_ *layers.Model, x, _ layers.Variable) layers.Variable {
		h := layers.Reshape(layers.FC(x, 9, layers.Act("tanh")), []int64{-1, 3, 3})
		regular := layers.Add(layers.Scale(h, 0.1, 0), layers.DiagEmbed(layers.Scale(layers.Diagonal(h, 0, 1, 2), 0, 1), 0, 1, 2))
		symmetric := layers.MatMul(regular, regular, layers.TransposeY())
		root := layers.MatrixPower(layers.Cholesky(symmetric), -2)
		numbers := layers.Concat([]layers.Variable{layers.Unsqueeze(layers.Trace(root, 0, 1, 2), []int{1}), layers.Unsqueeze(layers.Determinant(regular), []int{1})}, 1)
		return scored(layers.Concat([]layers.Variable{numbers, layers.Reshape(layers.Cross(h, root, 2), []int64{-1, 9})}, 1))
	},
}

// TestLawOfRowOps trains a model with each op on two trainers with two devices each and two pservers: it computes what the reference computes, bit for bit.
func TestLawOfRowOps(t *testing.T) {
	l := listener(t)
	for _, name := range slices.Sorted(maps.Keys(rowModels)) {
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			x, label := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
			loss := layers.Mean(rowModels[name](m, x, label), layers.Name("loss"))
			mustObeyTheLaw(t, l, m, loss)
		})
	}
}

// TestLawOfLikelihood trains with nll_loss, whose mean is over the labels that count.
func TestLawOfLikelihood(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x, label := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	loss := layers.NLLLoss(layers.LogSoftmax(layers.FC(x, testkit.Classes)), layers.Reshape(label, []int64{-1}), layers.IgnoreIndex(1), layers.Name("loss"))
	mustObeyTheLaw(t, listener(t), m, loss)
}

func mustObeyTheLaw(t *testing.T, l *remote.Listener, m *layers.Model, loss layers.Variable) {
	t.Helper()
	obeysTheLaw(t, l, m, loss, optimizer.Adagrad(0.1))
}

func obeysTheLaw(t *testing.T, l *remote.Listener, m *layers.Model, loss layers.Variable, o *optimizer.Optimizer) {
	t.Helper()
	o.Minimize(loss)
	s := subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
	spec := &remote.JobSpec{Trainers: 2, Devices: 2, Pservers: 2, MinBlockSize: 1, Save: t.TempDir()}
	want, err := oracleFor(s.Program, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := checkFedLaw(l, s, spec, []int64{8, 5, 13}, want); err != nil {
		t.Fatal(err)
	}
}

// TestLawOfMergedGradients trains with gradients of two steps that are merged before they are clipped.
func TestLawOfMergedGradients(t *testing.T) {
	m := layers.NewModel().Seed(3)
	x, y := layers.Data(m, "x", layers.Dims(6)), layers.Data(m, "y", layers.Dims(2))
	loss := layers.Mean(layers.SquareErrorCost(layers.FC(layers.FC(x, 5, layers.Act("tanh")), 2), y), layers.Name("loss"))
	obeysTheLaw(t, listener(t), m, loss, optimizer.GradientMerge(optimizer.Adam(0.1, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.5)), optimizer.Regularize(layers.L2(0.01))), 2))
}
