package remote_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/tensor"
)

// A publicModel is a model as its public code for Fluid built it in 2018 to 2020, op for op, with narrow layers. It returns the loss.
type publicModel struct {
	build     func(m *layers.Model) layers.Variable
	optimizer *optimizer.Optimizer
}

var publicModels = map[string]publicModel{
	"simnet": {bagOfWords, optimizer.Adam(0.01, optimizer.ClipGradients(globalNorm))},
	"lac":    {lac, optimizer.Custom(0.1, plainSGD, optimizer.Regularize(layers.L2(0.01)))},
	"crnn":   {crnn, optimizer.Momentum(0.01, 0.9, optimizer.Regularize(layers.L2(0.0004)))},
	"din":    {din, optimizer.SGD(optimizer.Piecewise([]int{2}, []float64{0.5, 0.1}))},
	"ernie":  {encoder, optimizer.Adam(optimizer.LinearWarmup(0.01, 2, 0, 0.01), optimizer.ClipGradients(globalNorm))},
	"ssd":    {twoMaps, optimizer.RMSProp(0.01, optimizer.Regularize(layers.L2(0.0005)))},
}

func plainSGD(u *optimizer.Update) {
	u.Op("sgd", layers.In{"Param": {u.Param}, "Grad": {u.Grad}, "LearningRate": {u.Rate}}, nil, layers.In{"ParamOut": {u.Param}})
}

// globalNorm clips by the ops that GradientClipByGlobalNorm of Fluid appends: those for sparse gradients merge their rows.
func globalNorm(pairs []optimizer.Pair) []optimizer.Pair {
	var squares []layers.Variable
	for _, p := range pairs {
		p.Build(func() {
			grad := p.Grad
			if grad.IsSparse() {
				grad = layers.Op(grad.Model(), "merge_selected_rows", layers.In{"X": {grad}}, nil).One("Out")
				grad = layers.Op(grad.Model(), "get_tensor_from_selected_rows", layers.In{"X": {grad}}, nil).One("Out")
			}
			squares = append(squares, layers.ReduceSum(layers.Square(grad)))
		})
	}
	var factor layers.Variable
	pairs[0].Build(func() {
		m := pairs[0].Param.Model()
		limit := layers.FillConstant(m, 0.5, []int64{1})
		factor = layers.Div(limit, layers.Max(limit, layers.Sqrt(layers.Sums(squares))))
	})
	for i, p := range pairs {
		p.Build(func() { pairs[i].Grad = layers.Mul(p.Grad, factor) })
	}
	return pairs
}

func idsOf(m *layers.Model, name string, levels int, dims ...int64) layers.Variable {
	return layers.Data(m, name, layers.Dims(append(dims, 1)...), layers.DType(tensor.Int64), layers.LoD(levels))
}

// bagOfWords is the bag of words of SimNet: three towers that share a table, cosines, and a hinge.
func bagOfWords(m *layers.Model) layers.Variable {
	tower := func(name string) layers.Variable {
		words := layers.Embedding(idsOf(m, name, 1), 5, 4, layers.Sparse(), layers.Param(layers.ParamAttr{Name: "emb", LearningRate: 0.5}))
		return layers.FC(layers.Softsign(layers.SequencePool(words, "sum")), 3, layers.Param(layers.ParamAttr{Name: "fc.w"}), layers.Bias(layers.ParamAttr{Name: "fc.b"}))
	}
	query, title, other := tower("query"), tower("title"), tower("other")
	difference := layers.Sub(layers.CosSim(query, other), layers.CosSim(query, title))
	hinge := layers.Max(layers.FillLike(difference, 0), layers.Scale(difference, 1, 0.1))
	return layers.Mean(layers.Print(hinge, "hinge"), layers.Name("loss"))
}

// lac tags words: two recurrent networks in each direction and a conditional random field. Its metrics train nothing.
func lac(m *layers.Model) layers.Variable {
	tags := idsOf(m, "targets", 1)
	h := layers.Embedding(idsOf(m, "words", 1), 5, 4, layers.Param(layers.ParamAttr{LearningRate: 2, Initializer: layers.Uniform(-0.1, 0.1)}))
	for range 2 {
		forward := layers.DynamicGRU(layers.FC(h, 9), 3)
		backward := layers.DynamicGRU(layers.FC(h, 9), 3, layers.Reverse())
		h = layers.Concat([]layers.Variable{forward, backward}, 1)
	}
	emission := layers.FC(h, testkit.Classes)
	cost := layers.LinearChainCRF(emission, tags, layers.Param(layers.ParamAttr{Name: "crfw", LearningRate: 0.2}))
	layers.ChunkEval(layers.CRFDecoding(emission, layers.Param(layers.ParamAttr{Name: "crfw"})), tags, "IOB", 1)
	return layers.Mean(cost, layers.Name("loss"))
}

// crnn reads text in images: columns of a feature map are the steps of recurrent networks, whose labels are not aligned.
func crnn(m *layers.Model) layers.Variable {
	image := layers.Data(m, "pixel", layers.Dims(1, 8, 8))
	text := layers.Cast(layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)), tensor.Int32)
	h := image
	for _, filters := range []int64{2, 3} {
		h = layers.Conv2D(h, filters, 3, layers.Padding(1, 1), layers.NoBias(), layers.Param(layers.ParamAttr{Initializer: layers.Normal(0, 0.1)}))
		h = layers.Pool2D(layers.BatchNorm(h, layers.Act("relu")), 2, layers.Stride(2, 2))
	}
	h = layers.Im2Sequence(h, 2, 1)
	forward := layers.DynamicGRU(layers.FC(h, 9), 3)
	backward := layers.DynamicGRU(layers.FC(h, 9), 3, layers.Reverse())
	scores := layers.FCs([]layers.Variable{forward, backward}, testkit.Classes+1)
	cost := layers.WarpCTC(scores, text, testkit.Classes, layers.NormByTimes())
	return layers.ReduceSum(cost, layers.Name("loss"))
}

// din weighs what a user has clicked on by how much it is like a target (Zhou et al. 2018).
func din(m *layers.Model) layers.Variable {
	const steps, width = 4, 3
	item := func(name string, dims ...int64) layers.Variable {
		return layers.Reshape(layers.Embedding(idsOf(m, name, 0, dims...), 5, width, layers.Param(layers.ParamAttr{Name: "item"})), append(append([]int64{-1}, dims...), width))
	}
	clicked, target := item("hist_item_seq", steps), item("target_item")
	mask := layers.Scale(layers.Data(m, "mask", layers.Dims(steps, 1)), 0, 0)
	label := layers.Cast(layers.ReduceSum(layers.Scale(mask, 0, 0.25), layers.Axes(1)), tensor.Float32)
	repeated := layers.Expand(layers.Reshape(target, []int64{-1, 1, width}), []int{1, steps, 1})
	together := layers.Concat([]layers.Variable{clicked, repeated, layers.Sub(clicked, repeated), layers.Mul(clicked, repeated)}, 2)
	weight := layers.FC(layers.FC(together, 4, layers.NumFlattenDims(2), layers.Act("sigmoid")), 1, layers.NumFlattenDims(2))
	weight = layers.Scale(layers.Transpose(layers.Add(weight, mask), []int{0, 2, 1}), 0.5, 0)
	history := layers.Reshape(layers.MatMul(layers.Softmax(weight), clicked), []int64{0, width})
	logit := layers.FC(layers.FC(layers.Concat([]layers.Variable{layers.FC(history, width), target}, 1), 4, layers.Act("sigmoid")), 1)
	bias := layers.Embedding(idsOf(m, "bias_item", 0), 5, 1, layers.Param(layers.ParamAttr{Initializer: layers.Constant(0)}))
	return layers.Mean(layers.SigmoidCrossEntropyWithLogits(layers.Add(logit, layers.Reshape(bias, []int64{-1, 1})), label), layers.Name("loss"))
}

// encoder is ERNIE of one layer under a classifier.
func encoder(m *layers.Model) layers.Variable {
	const steps, width, heads = 4, 6, 2
	var embedded []layers.Variable
	for _, name := range []string{"src_ids", "pos_ids", "sent_ids"} {
		embedded = append(embedded, layers.Reshape(layers.Embedding(idsOf(m, name, 0, steps), 5, width, layers.Param(layers.ParamAttr{Name: name + "_embedding", Initializer: layers.TruncatedNormal(0, 0.02)})),
			[]int64{-1, steps, width}))
	}
	h := layers.Dropout(layers.LayerNorm(layers.Add(layers.Add(embedded[0], embedded[1]), embedded[2]), layers.BeginNormAxis(2)), 0.1, layers.UpscaleInTrain())
	valid := layers.Scale(layers.Data(m, "input_mask", layers.Dims(steps, 1)), 0, 1)
	mask := layers.Scale(layers.Scale(layers.MatMul(valid, valid, layers.TransposeY()), 1, -1), 10000, 0)
	mask = layers.Stack([]layers.Variable{mask, mask}, 1).StopGradient()
	split := func(x layers.Variable) layers.Variable {
		return layers.Transpose(layers.Reshape(layers.FC(x, width, layers.NumFlattenDims(2)), []int64{0, 0, heads, width / heads}), []int{0, 2, 1, 3})
	}
	q, k, v := split(h), split(h), split(h)
	weights := layers.Softmax(layers.Add(layers.MatMul(layers.Scale(q, 0.577, 0), k, layers.TransposeY()), mask))
	mixed := layers.MatMul(layers.Dropout(weights, 0.1, layers.UpscaleInTrain()), v)
	mixed = layers.FC(layers.Reshape(layers.Transpose(mixed, []int{0, 2, 1, 3}), []int64{0, 0, width}), width, layers.NumFlattenDims(2))
	h = layers.LayerNorm(layers.Add(mixed, h), layers.BeginNormAxis(2))
	inner := layers.FC(layers.FC(h, 8, layers.NumFlattenDims(2), layers.Act("gelu")), width, layers.NumFlattenDims(2))
	h = layers.LayerNorm(layers.Add(inner, h), layers.BeginNormAxis(2))
	first := layers.Reshape(layers.Slice(h, []int{1}, []int64{0}, []int64{1}), []int64{-1, width})
	cost, _ := layers.SoftmaxWithCrossEntropy(layers.FC(layers.FC(first, width, layers.Act("tanh")), testkit.Classes), idsOf(m, "labels", 0))
	return layers.Mean(cost, layers.Name("loss"))
}

// twoMaps finds objects in images by two feature maps.
func twoMaps(m *layers.Model) layers.Variable {
	image := layers.Data(m, "image", layers.Dims(1, 8, 8))
	corner := layers.Scale(layers.Sigmoid(layers.Data(m, "gt_box", layers.Dims(2), layers.LoD(1))), 0.5, 0)
	boxes := layers.Concat([]layers.Variable{corner, layers.Scale(corner, 1, 0.4)}, 1)
	labels := layers.Cast(layers.Data(m, "gt_label", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1)), tensor.Int32)
	small := layers.Conv2D(image, 2, 3, layers.Stride(2, 2), layers.Padding(1, 1), layers.Act("relu"))
	var codes, scores, priors, variances []layers.Variable
	for i, h := range []layers.Variable{small, layers.Conv2D(small, 2, 3, layers.Stride(2, 2), layers.Padding(1, 1), layers.Act("relu"))} {
		box, variance := layers.PriorBox(h, image, layers.PriorBoxes{MinSizes: []float64{float64(3 + 2*i)}, AspectRatios: []float64{2}, Clip: true})
		flat := func(x layers.Variable, width int64) layers.Variable {
			return layers.Reshape(layers.Transpose(x, []int{0, 2, 3, 1}), []int64{0, -1, width})
		}
		codes, scores = append(codes, flat(layers.Conv2D(h, 8, 3, layers.Padding(1, 1)), 4)), append(scores, flat(layers.Conv2D(h, 2*testkit.Classes, 3, layers.Padding(1, 1)), testkit.Classes))
		priors, variances = append(priors, layers.Reshape(box, []int64{-1, 4})), append(variances, layers.Reshape(variance, []int64{-1, 4}))
	}
	of := layers.DefaultSSD
	loss := layers.SSDLoss(layers.Concat(codes, 1), layers.Concat(scores, 1), boxes, labels, layers.Concat(priors, 0), layers.Concat(variances, 0), of)
	return layers.ReduceSum(loss, layers.Name("loss"))
}

// TestLawOfPublicModels trains each model on two trainers and two pservers, read from a file: it computes what the reference computes, bit for bit.
func TestLawOfPublicModels(t *testing.T) {
	l := listener(t)
	for i, name := range slices.Sorted(maps.Keys(publicModels)) {
		if testing.Short() && i > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			model := publicModels[name]
			loss := model.build(m)
			model.optimizer.Minimize(loss)
			s := subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
			data, err := s.Program.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if s.Program, err = program.Decode(data, program.Limits{}); err != nil {
				t.Fatal(err)
			}
			spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4, Save: t.TempDir()}
			want, err := oracleFor(s.Program, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(l, s, spec, []int64{5, 2, 8}, want); err != nil {
				t.Fatal(err)
			}
		})
	}
}
