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

// sequenceModels make the cost of a model from the words of sentences, [rows, 4]. Each has the ops that its name lists.
var sequenceModels = map[string]func(m *layers.Model, words layers.Variable) layers.Variable{
	"sequence_conv": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.SequenceConvPool(words, 3, 3, "max", layers.Act("tanh")))
	},
	"sequence_softmax": func(_ *layers.Model, words layers.Variable) layers.Variable {
		weight := layers.SequenceSoftmax(layers.FC(words, 1))
		return scored(layers.SequencePool(layers.Mul(words, layers.Reshape(weight, []int64{-1}), layers.Axis(0)), "sum"))
	},
	"gru": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.DynamicGRU(layers.DynamicGRU(layers.FC(words, 9), 3), 1, layers.Reverse(), layers.OriginMode()))
	},
	"lstmp": func(_ *layers.Model, words layers.Variable) layers.Variable {
		projected, cell := layers.DynamicLSTMP(layers.FC(words, 12), 12, 2, layers.CellClip(0.5), layers.Reverse())
		return scored(layers.Concat([]layers.Variable{projected, cell}, 1))
	},
	"match_matrix_tensor var_conv_2d sequence_topk_avg_pooling spp": func(_ *layers.Model, words layers.Variable) layers.Variable {
		x, y := layers.FC(words, 3, layers.Act("tanh")), layers.FC(layers.SequenceReverse(words), 2)
		grids := layers.VarConv2D(layers.MatchMatrixTensor(x, y, 2), x, y, 2, 3, 3, layers.Act("tanh"))
		best := layers.SequenceTopKAvgPooling(grids, x, y, []int{1, 3}, 3)
		return scored(layers.SPP(layers.Reshape(best, []int64{-1, 1, 2, 3}), 2))
	},
	"tree_conv frame overlap_add eigh": func(_ *layers.Model, words layers.Variable) layers.Variable {
		ones := layers.Scale(words, 0, 1)
		edges := layers.Reshape(layers.Cast(layers.CumSum(ones, layers.Axis(1)), tensor.Int32), []int64{-1, 2, 2}) // 1 to 2, and 3 to 4
		nodes := layers.Reshape(layers.FC(words, 10), []int64{-1, 5, 2})
		trees := layers.Reshape(layers.TreeConv(nodes, edges, 2, 1, 2, layers.Act("tanh")), []int64{-1, 10})
		signal := layers.OverlapAdd(layers.Square(layers.Frame(trees, 4, 3)), 2)
		values, _ := layers.Eigh(layers.Reshape(layers.FC(words, 4), []int64{-1, 2, 2}))
		return scored(layers.Concat([]layers.Variable{signal, values}, 1))
	},
	"linear_chain_crf": tagged,
	"fused_embedding_seq_pool": func(m *layers.Model, words layers.Variable) layers.Variable {
		tags := layers.Data(m, "tags", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
		sparse := layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3, layers.Sparse(), layers.PaddingIndex(1))
		dense := layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3)
		return scored(layers.Sums([]layers.Variable{sparse, dense, layers.SequencePool(layers.FC(words, 3), "sum")}))
	},
	"fused_embedding_seq_pool of tables of servers": func(m *layers.Model, words layers.Variable) layers.Variable {
		tags := layers.Data(m, "tags", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
		table := func(name string, options ...layers.Option) []layers.Option {
			return append(options, layers.Sparse(), layers.Distributed(), layers.Param(layers.ParamAttr{Name: name}))
		}
		return scored(layers.Sums([]layers.Variable{
			layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3, table("shared", layers.Combine("mean"), layers.PaddingIndex(1))...),
			layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3, table("shared", layers.Combine("sqrt"))...),
			layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3, table("halves", layers.Combine("sum"), layers.StoreBFloat16())...),
			layers.FusedEmbeddingSeqPool(tags, testkit.Classes, 3, layers.Sparse(), layers.Combine("mean"), layers.StoreBFloat16()),
			layers.SequencePool(layers.FC(words, 3), "sum")}))
	},
	"lookup_sparse_table with a combiner": func(m *layers.Model, words layers.Variable) layers.Variable {
		tags := layers.Data(m, "tags", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
		shared := layers.Param(layers.ParamAttr{Name: "shared"})
		return scored(layers.Sums([]layers.Variable{
			layers.SparseEmbedding(tags, 500, 3, shared, layers.Combine("mean"), layers.PaddingIndex(1)),
			layers.SparseEmbedding(tags, 500, 3, shared, layers.Combine("sqrt")),
			layers.SparseEmbedding(tags, 500, 3, layers.Combine("sum"), layers.StoreBFloat16()),
			layers.SequencePool(layers.FC(words, 3), "sum")}))
	},
	"gru_unit lstm_unit": func(_ *layers.Model, words layers.Variable) layers.Variable {
		hidden, _, _ := layers.GRUUnit(layers.FC(words, 9), layers.FC(words, 3), 3)
		hidden, cell := layers.LSTMUnit(words, hidden, hidden, layers.ForgetBias(1))
		return scored(layers.Add(hidden, cell))
	},
	"sequence_expand sequence_expand_as": func(_ *layers.Model, words layers.Variable) layers.Variable {
		best := layers.FC(layers.SequencePool(words, "max"), 3)
		return scored(layers.Add(layers.SequenceExpand(best, words), layers.SequenceExpandAs(layers.Square(best), words)))
	},
	"sequence_expand of sequences": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.SequenceExpand(layers.FC(words, 3), words))
	},
	"sequence_concat sequence_reverse": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.SequencePool(layers.SequenceConcat([]layers.Variable{layers.FC(words, 3), layers.SequenceReverse(layers.FC(words, 3))}), "sqrt"))
	},
	"sequence_reshape": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.SequenceReshape(words, 2))
	},
	"sequence_pad sequence_unpad": func(m *layers.Model, words layers.Variable) layers.Variable {
		padded, lengths := layers.SequencePad(layers.FC(words, 3), layers.FillConstant(m, 0.5, []int64{1}))
		return scored(layers.SequenceUnpad(layers.FC(layers.Tanh(padded), 2, layers.NumFlattenDims(2)), lengths))
	},
	"sequence_slice of computed lengths": func(_ *layers.Model, words layers.Variable) layers.Variable {
		n := atMost(words, 2)
		return scored(layers.SequenceSlice(layers.FC(words, 3, layers.Act("tanh")), layers.Scale(n, 0, 0), n))
	},
	"sequence_slice of computed lengths, sequence_pool": func(_ *layers.Model, words layers.Variable) layers.Variable {
		n := atMost(words, 2)
		return scored(layers.SequencePool(layers.SequenceSlice(layers.FC(words, 3, layers.Act("tanh")), layers.Scale(n, 0, 0), n), "sum"))
	},
	"sequence_unpad of computed lengths": func(m *layers.Model, words layers.Variable) layers.Variable {
		padded, _ := layers.SequencePad(layers.FC(words, 3, layers.Act("tanh")), layers.FillConstant(m, 0, []int64{1}))
		return scored(layers.SequenceUnpad(padded, atMost(words, 2)))
	},
	"sequence_erase of computed words": func(m *layers.Model, words layers.Variable) layers.Variable {
		ids := layers.Cast(layers.Scale(layers.Sigmoid(layers.Scale(layers.ReduceSum(words, layers.Axes(1), layers.KeepDims()), 40, 0)), 4, 0), tensor.Int64)
		return scored(layers.Embedding(layers.SequenceErase(ids, []int{1, 3}), 5, 3))
	},
	"lod_reset row_conv add_position_encoding": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.SequencePool(layers.LoDReset(layers.AddPositionEncoding(layers.RowConv(words, 2), 1, 0.5), words), "sum"))
	},
	"cos_sim cross_entropy2": func(m *layers.Model, words layers.Variable) layers.Variable {
		a, b := layers.FC(words, 3), layers.FC(words, 3, layers.Act("tanh"))
		label := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 1), layers.Axes(1), layers.KeepDims()), tensor.Int64) // the number of columns, 4
		return layers.Add(layers.Square(layers.CosSim(a, b)), layers.CrossEntropy2(layers.Softmax(layers.FC(words, 6)), label))
	},
	"dynamic_rnn": func(m *layers.Model, words layers.Variable) layers.Variable {
		first := layers.FC(layers.SequencePool(words, "last"), 3, layers.Act("tanh"))
		rnn := layers.NewDynamicRNN(m)
		rnn.Block(func() {
			word := rnn.StepInput(words)
			before, sum := rnn.InitialMemory(first), rnn.Memory([]int64{3}, 0)
			now := layers.FCs([]layers.Variable{word, before, rnn.StaticInput(first)}, 3, layers.Act("tanh"))
			rnn.UpdateMemory(before, now)
			rnn.UpdateMemory(sum, layers.Add(sum, now))
			rnn.Output(layers.Mul(now, sum))
		})
		return scored(rnn.Result())
	},
	"while conditional_block": func(m *layers.Model, words layers.Variable) layers.Variable {
		h := layers.FC(words, 3)
		i, limit := layers.Counter(m, 0), layers.Counter(m, 3)
		more := layers.LessThan(i, limit)
		layers.While(more, func() {
			layers.Switch(m,
				layers.SwitchCase{If: layers.Equal(i, layers.Counter(m, 1)), Then: func() { layers.AssignTo(h, layers.FC(h, 3, layers.Act("tanh"))) }},
				layers.SwitchCase{Then: func() { layers.AssignTo(h, layers.FC(h, 3, layers.Act("sigmoid"))) }})
			layers.Increment(i, 1)
			layers.AssignTo(more, layers.LessThan(i, limit))
		})
		return scored(h)
	},
	"while of a sentence that grows": func(m *layers.Model, words layers.Variable) layers.Variable {
		text, _ := layers.SequencePad(layers.FC(words, 3, layers.Act("tanh")), layers.FillConstant(m, 0, []int64{1}))
		weight := layers.CreateParameter(m, []int64{3, 3}, tensor.Float32, layers.ParamAttr{Name: "next"})
		thrice(m, func(layers.Variable) {
			next := layers.Tanh(layers.MatMul(layers.ReduceSum(text, layers.Axes(1)), weight))
			layers.AssignTo(text, layers.Concat([]layers.Variable{text, layers.Unsqueeze(next, []int{1})}, 1))
		})
		return scored(layers.ReduceSum(text, layers.Axes(1)))
	},
	"while that sets a column in each run": func(m *layers.Model, words layers.Variable) layers.Variable {
		table := layers.Tanh(layers.FC(words, 4))
		thrice(m, func(i layers.Variable) {
			column := layers.Sin(layers.ReduceSum(table, layers.Axes(1), layers.KeepDims()))
			set := layers.Op(m, "set_value", layers.In{"Input": {table}, "ValueTensor": {column}, "StartsTensorList": {i}, "EndsTensorList": {layers.Scale(i, 1, 1)}},
				layers.Attrs{"axes": []int64{1}, "starts": []int64{0}, "ends": []int64{0}, "steps": []int64{1}, "dtype": int32(tensor.Float32)}).One("Out")
			layers.AssignTo(table, set)
		})
		return scored(table)
	},
	"data_norm": func(_ *layers.Model, words layers.Variable) layers.Variable {
		return scored(layers.DataNorm(words, layers.Act("tanh")))
	},
	"cvm": func(_ *layers.Model, words layers.Variable) layers.Variable {
		counts := layers.Slice(layers.SequencePool(words, "sum"), []int{1}, []int64{0}, []int64{2})
		return scored(layers.ContinuousValueModel(layers.Square(words), layers.Square(counts), true))
	},
	"smooth_l1_loss bpr_loss": func(_ *layers.Model, words layers.Variable) layers.Variable {
		h := layers.FC(words, 3)
		item := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 0.5), layers.Axes(1), layers.KeepDims()), tensor.Int64) // half the number of columns, 2
		ranked := layers.BPRLoss(layers.FC(words, 3, layers.Act("tanh")), item)
		weight := layers.Square(layers.FC(words, 3, layers.Param(layers.ParamAttr{Frozen: true})))
		return layers.Add(layers.SmoothL1(h, layers.Scale(h, -1, 1), 2, layers.ElementWeights(weight, weight)), ranked)
	},
	"sigmoid_focal_loss": func(m *layers.Model, words layers.Variable) layers.Variable {
		label := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 0.5), layers.Axes(1), layers.KeepDims()), tensor.Int32)
		return layers.SigmoidFocalLoss(layers.FC(words, 3), label, layers.FillConstant(m, 2, []int64{1}, layers.DType(tensor.Int32)), 2, 0.25)
	},
	"hierarchical_sigmoid nce": func(_ *layers.Model, words layers.Variable) layers.Variable {
		item := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 1), layers.Axes(1), layers.KeepDims()), tensor.Int64) // the number of columns, 4
		return layers.Add(layers.HSigmoid(words, item, 6), layers.NCE(words, item, 7, layers.Samples(3), layers.LogUniform(), layers.Sparse()))
	},
	"sampled softmax": func(_ *layers.Model, words layers.Variable) layers.Variable {
		item := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 1), layers.Axes(1), layers.KeepDims()), tensor.Int64)
		return layers.SampledSoftmaxWithCrossEntropy(layers.FC(words, 9), item, 4)
	},
	"center_loss": func(_ *layers.Model, words layers.Variable) layers.Variable {
		kind := layers.Cast(layers.ReduceSum(layers.Scale(words, 0, 0.25), layers.Axes(1), layers.KeepDims()), tensor.Int64) // 1
		return layers.CenterLoss(layers.FC(words, 3), kind, 2, 0.5)
	},
	"regions": func(_ *layers.Model, words layers.Variable) layers.Variable {
		image := layers.Reshape(layers.FC(layers.SequencePool(words, "sum"), 128, layers.Act("tanh")), []int64{-1, 8, 4, 4})
		regions := layers.Scale(layers.FC(words, 4, layers.Act("sigmoid")), 3, 0)
		precise, shared := layers.PRRoiPool(image, regions, 2, 2, 1), layers.PSRoiPool(image, regions, 2, 2, 2, 1)
		moved := layers.DeformableRoiPool(image, regions, layers.Reshape(layers.FC(words, 8), []int64{-1, 2, 2, 2}), layers.Deformation{Height: 2, Width: 2, Points: 2})
		h := layers.FC(words, 8, layers.Act("sigmoid"))
		column := func(from, to int64, shift float64) layers.Variable {
			return layers.Scale(layers.Slice(h, []int{1}, []int64{from}, []int64{to}), 1, shift)
		}
		corners := layers.Concat([]layers.Variable{column(0, 2, 0), column(2, 3, 2), column(3, 4, 0), column(4, 6, 2), column(6, 7, 0), column(7, 8, 2)}, 1)
		turned, _, _ := layers.RoiPerspectiveTransform(image, corners, 2, 2, 1)
		chosen := layers.GumbelSoftmax(layers.Reshape(layers.Add(moved, turned), []int64{-1, 32}), 0.5, true)
		return layers.Add(layers.Add(scored(layers.Reshape(precise, []int64{-1, 32})), scored(layers.Reshape(shared, []int64{-1, 8}))), scored(chosen))
	},
	"warpctc": func(m *layers.Model, words layers.Variable) layers.Variable {
		text := layers.Data(m, "text", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
		return layers.WarpCTC(layers.FC(words, testkit.Classes+1), layers.Cast(text, tensor.Int32), testkit.Classes)
	},
	"addmm atan2 celu bernoulli": func(m *layers.Model, words layers.Variable) layers.Variable {
		h := layers.Celu(layers.FC(words, 4), 0.5)
		angle := layers.Atan2(layers.AddMM(h, words, m.Parameters()[1], 0.5, 2), layers.Scale(layers.Square(h), 1, 1))
		return scored(layers.Mul(angle, layers.Bernoulli(layers.FillLike(h, 0.5))))
	},
	"kldiv_loss by elements": func(_ *layers.Model, words layers.Variable) layers.Variable {
		h := layers.Softmax(layers.FC(words, 3))
		return layers.KLDivLoss(layers.Log(h), layers.Scale(h, 0.5, 0.1), "none")
	},
	"kldiv_loss": func(_ *layers.Model, words layers.Variable) layers.Variable {
		h := layers.Softmax(layers.FC(words, 3))
		return layers.KLDivLoss(layers.Log(h), layers.Scale(h, 0.5, 0.1), "batchmean")
	},
}

// thrice runs body three times, with the number of the run.
func thrice(m *layers.Model, body func(i layers.Variable)) {
	i, limit := layers.Counter(m, 0), layers.Counter(m, 3)
	more := layers.LessThan(i, limit)
	layers.While(more, func() {
		body(i)
		layers.Increment(i, 1)
		layers.AssignTo(more, layers.LessThan(i, limit))
	})
}

// atMost are the numbers of words of sentences, at most n. The program computes them from the words, so nobody knows them before a run.
func atMost(words layers.Variable, n float64) layers.Variable {
	ones := layers.Scale(layers.ReduceSum(words, layers.Axes(1), layers.KeepDims()), 0, 1)
	lengths := layers.Cast(layers.SequencePool(ones, "sum"), tensor.Int64)
	return layers.Min(lengths, layers.FillConstant(lengths.Model(), n, []int64{1}, layers.DType(tensor.Int64)))
}

// tagged is the cost of the tags of words in a conditional random field.
func tagged(m *layers.Model, words layers.Variable) layers.Variable {
	tags := layers.Data(m, "tags", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
	return layers.LinearChainCRF(layers.FC(words, testkit.Classes), tags)
}

// scored is the cost of rows.
func scored(rows layers.Variable) layers.Variable {
	return layers.Square(layers.FC(rows, 2))
}

// TestLawOfSequenceOps trains a model with each op on two trainers and two pservers: it computes what the reference computes, bit for bit.
func TestLawOfSequenceOps(t *testing.T) {
	l := listener(t)
	for i, name := range slices.Sorted(maps.Keys(sequenceModels)) {
		if testing.Short() && i%3 != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			m := layers.NewModel().Seed(3)
			ids := layers.Data(m, "words", layers.Dims(1), layers.DType(tensor.Int64), layers.LoD(1))
			loss := layers.Mean(sequenceModels[name](m, layers.Embedding(ids, testkit.Classes, 4)), layers.Name("loss"))
			optimizer.Adagrad(0.1).Minimize(loss)
			s := subject{Model: testkit.Built(t, m, loss), fetch: []string{"loss", m.Parameters()[0].Name()}}
			spec := &remote.JobSpec{Trainers: 2, Devices: 2, Pservers: 2, MinBlockSize: 1, Save: t.TempDir()}
			want, err := oracleFor(s.Program, spec)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			if err := checkFedLaw(l, s, spec, []int64{5, 1, 8, 3}, want); err != nil {
				t.Fatal(err)
			}
		})
	}
}
