package layers

import (
	"cmp"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// FC is a fully connected layer: act(x·w + b) with w [columns of x, size] and b [size]. The leading axes of x are rows and stay: one axis, or
// NumFlattenDims axes. The other axes are flattened to columns.
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, NumFlattenDims, Name. Ops: mul, elementwise_add, activation.
func FC(x Variable, size int64, opts ...Option) Variable { return FCs([]Variable{x}, size, opts...) }

// FCs is FC on several inputs. Each input has a weight of its own, and the products are summed: act(Σ xᵢ·wᵢ + b). If Param has a name, only the
// first weight takes it.
func FCs(xs []Variable, size int64, opts ...Option) Variable {
	l := start("fc", opts, []string{"Act", "Param", "Bias", "NoBias", "NumFlattenDims"}, xs...)
	if !l.failed && size < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("size %d", size), fault.Want("at least 1")))
	}
	var products []Variable
	for i, x := range xs {
		if l.failed {
			return l.fail()
		}
		if l.flatten < 1 || l.flatten >= x.rank() {
			return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()),
				fault.Wantf("a rank above NumFlattenDims = %d, which is at least 1", l.flatten)))
		}
		if !x.DType().IsFloat() {
			return l.mistake(fault.E(fault.TypeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("numbers of floats, which weights multiply"),
				fault.Hint("layers.Cast makes floats of numbers, and layers.Embedding vectors of ids")))
		}
		attr := l.param
		if i > 0 {
			attr.Name = ""
		}
		w := l.parameter("w", attr, x.DType(), []int64{ops.Product(x.v.Dims[l.flatten:]), size}, Xavier())
		products = append(products, l.op("mul", In{"X": {x}, "Y": {w}}, Attrs{"x_num_col_dims": l.flatten, "y_num_col_dims": 1}, "Out"))
	}
	if l.failed {
		return l.fail()
	}
	sum := products[0]
	if len(products) > 1 {
		sum = l.op("sum", In{"X": products}, nil, "Out")
	}
	return l.result(l.activate(l.addBias(sum, l.flatten)))
}

// TransposeX swaps the last two axes of the first operand of MatMul.
func TransposeX() Option { return Option{"TransposeX", func(s *settings) { s.transposeX = true }} }

// TransposeY swaps the last two axes of the second operand of MatMul.
func TransposeY() Option { return Option{"TransposeY", func(s *settings) { s.transposeY = true }} }

// Alpha multiplies the result of MatMul. The default is 1.
func Alpha(factor float64) Option { return Option{"Alpha", func(s *settings) { s.alpha = factor }} }

// MatMul is the matrix product of the last two axes of x and y. Leading axes are batches.
//
// Options: TransposeX, TransposeY, Alpha, Name. Op: matmul.
func MatMul(x, y Variable, opts ...Option) Variable {
	l := start("matmul", opts, []string{"TransposeX", "TransposeY", "Alpha"}, x, y)
	return l.result(l.op("matmul", In{"X": {x}, "Y": {y}}, Attrs{"transpose_X": l.transposeX, "transpose_Y": l.transposeY, "alpha": l.alpha}, "Out"))
}

// PaddingIndex sets an id whose row reads as zeros and is not trained.
func PaddingIndex(id int64) Option {
	return Option{"PaddingIndex", func(s *settings) { s.padID = id }}
}

// Sparse makes the gradient of the table sparse: it has one row for each id of a batch, and not every row of the table. With SGD, Adagrad, or Adam
// with optimizer.Lazy, the cost of an update then grows with the batch and not with the table. With other optimizers, and
// with a penalty, cost and result are those of a dense gradient. On a cluster the table must be of float32, and only those rows travel. In a loop or a branch the gradient is dense, and
// trainers hold the table: look the rows of a large one up before.
func Sparse() Option {
	return Option{"Sparse", func(s *settings) { s.sparse = true }}
}

// Distributed keeps the table on pservers alone, where it has Sparse too: a trainer of a cluster asks for the rows that its batch looks up. It holds no
// other row, so a table may be larger than the memory of a machine. It counts where all lookups in the table say so, and the optimizer trains the table. On
// one machine it changes nothing.
func Distributed() Option {
	return Option{"Distributed", func(s *settings) { s.distributed = true }}
}

// Combine makes Embedding give one row for several ids: for each k ids of [..., k, 1], or for each sequence of ids of layers.LoD. kind is sum, mean, or
// sqrt: the sum divided by the square root of the number of ids. A padding id reads as zeros and counts. For k ids the lookup and the sum run over the same
// few rows at a time, so that the rows are in the cache when they are added. For sequences FusedEmbeddingSeqPool does both in one op.
func Combine(kind string) Option {
	return Option{"Combine", func(s *settings) { s.combine = kind }}
}

// StoreBFloat16 stores the table of Embedding or SparseEmbedding as bfloat16, in half the bytes: in memory, in checkpoints and files, and on the way to trainers. Rows that
// are looked up, gradients, and what an optimizer keeps are float32. An update rounds the rows that it changes up or down by chance, so that on average small
// updates are not lost; chance follows from the seed of the model, the name of the table, the step, and the place of the element. Embedding needs Sparse for it. Not
// for GradientMerge, Lookahead, ModelAverage, ExponentialMovingAverage, and optimizers with norms of the parameter such as Lamb.
func StoreBFloat16() Option {
	return Option{"StoreBFloat16", func(s *settings) { s.halves = true }}
}

// storedAs is the type of a table.
func storedAs(dtype tensor.DType, halves bool) tensor.DType {
	if halves {
		return tensor.BFloat16
	}
	return dtype
}

// halvesOf is the mistake of a table that cannot be stored as bfloat16.
func halvesOf(dtype tensor.DType) *fault.Fault {
	return fault.E(fault.InvalidArgument, fault.Gotf("StoreBFloat16 for a table of %v", dtype), fault.Want("StoreBFloat16 and Sparse, for a table of float32"))
}

// Embedding looks up rows of a table [vocabulary, width] by int64 ids [..., 1]. The result is [..., width]. Layers whose Param names the same
// parameter share a table.
//
// Options: Param (default Xavier), PaddingIndex, Sparse, Distributed, StoreBFloat16, Combine, DType, Name. Ops: lookup_table; with Combine one of reduce_sum, reduce_mean and
// sequence_pool, and for sqrt scale.
func Embedding(ids Variable, vocabulary, width int64, opts ...Option) Variable {
	l := start("embedding", opts, []string{"Param", "PaddingIndex", "Sparse", "Distributed", "StoreBFloat16", "Combine", "DType"}, ids)
	if l.failed {
		return l.fail()
	}
	if ids.DType() != tensor.Int64 {
		return l.mistake(fault.E(fault.TypeMismatch, fault.Var(ids.Name()), fault.Gotf("ids %v", ids), fault.Want("int64"),
			fault.Hint("declare them with layers.DType(tensor.Int64)")))
	}
	if l.halves && (!l.sparse || l.dtype != tensor.Float32) {
		return l.mistake(halvesOf(l.dtype))
	}
	w := l.parameter("w", l.param, storedAs(l.dtype, l.halves), []int64{vocabulary, width}, Xavier())
	attrs := Attrs{"padding_idx": l.padID}
	if l.distributed {
		attrs["is_distributed"] = true
	}
	if l.sparse {
		attrs["is_sparse"] = true
	}
	rows := l.op("lookup_table", In{"W": {w}, "Ids": {ids}}, attrs, "Out")
	if l.combine != "" && !l.failed {
		rows = l.combined(rows)
	}
	return l.result(rows)
}

// FusedEmbeddingSeqPool is Embedding with Combine for sequences of ids, in one op: no rows lie between the lookup and the sum, mean or root mean. The default is
// Combine("sum"), the only one that Fluid knows. Of tables that grow, SparseEmbedding does the same with Combine.
//
// Options: Param (default Xavier), PaddingIndex, Sparse, Distributed, StoreBFloat16, Combine, DType, Name. Op: fused_embedding_seq_pool.
func FusedEmbeddingSeqPool(ids Variable, vocabulary, width int64, opts ...Option) Variable {
	l := start("fused_embedding_seq_pool", opts, []string{"Param", "PaddingIndex", "Sparse", "Distributed", "StoreBFloat16", "Combine", "DType"}, ids)
	if l.failed {
		return l.fail()
	}
	if l.halves && (!l.sparse || l.dtype != tensor.Float32) {
		return l.mistake(halvesOf(l.dtype))
	}
	w := l.parameter("w", l.param, storedAs(l.dtype, l.halves), []int64{vocabulary, width}, Xavier())
	attrs := Attrs{"padding_idx": l.padID, "combiner": cmp.Or(l.combine, "sum")}
	if l.distributed {
		attrs["is_distributed"] = true
	}
	if l.sparse {
		attrs["is_sparse"] = true
	}
	return l.result(l.op("fused_embedding_seq_pool", In{"W": {w}, "Ids": {ids}}, attrs, "Out"))
}

// combined appends the sum, mean or root mean of rows [..., k, width] over k, or over each sequence.
func (l *layer) combined(rows Variable) Variable {
	sequences := map[string]string{"sum": "SUM", "mean": "AVERAGE", "sqrt": "SQRT"}[l.combine]
	dims := rows.Dims()
	switch k := len(dims) - 2; {
	case sequences == "":
		return l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("combine %q", l.combine), fault.Want("sum, mean or sqrt")))
	case rows.v.LoDLevel > 0:
		return l.op("sequence_pool", In{"X": {rows}}, Attrs{"pooltype": sequences}, "Out")
	case k < 1 || dims[k] < 1:
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Gotf("rows %v of ids that are to be combined", rows), fault.Want("ids [..., k, 1] with a fixed k, or sequences"),
			fault.Hint("declare the ids with layers.Dims(k, 1), or with layers.LoD(1)")))
	default:
		opType := "reduce_sum"
		if l.combine == "mean" {
			opType = "reduce_mean"
		}
		sum := l.op(opType, In{"X": {rows}}, Attrs{"dim": []int{k}}, "Out")
		if l.combine == "sqrt" {
			sum = l.op("scale", In{"X": {sum}}, Attrs{"scale": 1 / math.Sqrt(float64(dims[k]))}, "Out")
		}
		return sum
	}
}

// UpscaleInTrain makes dropout divide the kept values by the share of kept values in training, and keep values unchanged in testing. By default
// dropout multiplies by that share in testing.
func UpscaleInTrain() Option { return Option{"UpscaleInTrain", func(s *settings) { s.upscale = true }} }

// Dropout sets each element to 0 with a probability. The choice follows from the model's seed, the op, the step and the position in the global
// batch. So a batch that is split over machines loses the same elements.
//
// Options: UpscaleInTrain, IsTest, Name. Op: dropout.
func Dropout(x Variable, probability float64, opts ...Option) Variable {
	l := start("dropout", opts, []string{"UpscaleInTrain", "IsTest"}, x)
	if l.failed {
		return l.fail()
	}
	implementation := "downgrade_in_infer"
	if l.upscale {
		implementation = "upscale_in_train"
	}
	out := l.multi("dropout", In{"X": {x}}, Attrs{"dropout_prob": probability, "is_test": l.isTest, "seed": l.model.seed, "fix_seed": true,
		"dropout_implementation": implementation}, "Out", "Mask")
	return l.result(out[0])
}

// KeepStatistics sets how much of the moving mean and variance of BatchNorm stays from step to step. The default is 0.9.
func KeepStatistics(share float64) Option {
	return Option{"KeepStatistics", func(s *settings) { s.momentum = share }}
}

// BatchNorm gives each channel (axis 1) of a batch mean 0 and variance 1, and then applies a learned scale and bias. It keeps moving statistics for
// use after training. Parameters: w_0 is the scale, b_0 the bias. w_1 and w_2 are the moving mean and variance, which are saved but not trained.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), Epsilon, KeepStatistics, IsTest, UseGlobalStats, ChannelsLast, Name. Op: batch_norm.
func BatchNorm(x Variable, opts ...Option) Variable {
	l := start("batch_norm", opts, []string{"Act", "Param", "Bias", "Epsilon", "KeepStatistics", "IsTest", "ChannelsLast", "UseGlobalStats"}, x)
	if !l.failed && x.rank() < 2 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("a batch axis and a channel axis")))
	}
	if l.failed {
		return l.fail()
	}
	axis, layout := l.channelAxis(x), "NCHW"
	if l.channelsLast {
		layout = "NHWC"
	}
	channels := x.v.Dims[axis : axis+1]
	scale := l.parameter("w", l.param, x.DType(), channels, Constant(1))
	bias := l.parameter("b", l.bias, x.DType(), channels, Constant(0))
	mean := l.parameter("w", ParamAttr{Frozen: true}, x.DType(), channels, Constant(0))
	variance := l.parameter("w", ParamAttr{Frozen: true}, x.DType(), channels, Constant(1))
	savedMean, savedVariance, y := l.temporary(), l.temporary(), l.temporary()
	attrs := Attrs{"epsilon": l.epsilon, "momentum": l.momentum, "is_test": l.isTest, "data_layout": layout}
	if l.globalStats {
		attrs["use_global_stats"] = true
	}
	l.write("batch_norm", In{"X": {x}, "Scale": {scale}, "Bias": {bias}, "Mean": {mean}, "Variance": {variance}}, attrs,
		In{"Y": {y}, "MeanOut": {mean}, "VarianceOut": {variance}, "SavedMean": {savedMean}, "SavedVariance": {savedVariance}})
	return l.result(l.activate(y))
}

// BeginNormAxis sets the first axis that LayerNorm normalizes over. The default is 1.
func BeginNormAxis(axis int) Option {
	return Option{"BeginNormAxis", func(s *settings) { s.beginNorm = axis }}
}

// LayerNorm gives each record mean 0 and variance 1 over the axes from BeginNormAxis on, and then applies a learned scale and bias to each element.
//
// Options: Act, Param (the scale, default 1), Bias (default 0), NoBias, Epsilon, BeginNormAxis, Name. Op: layer_norm.
func LayerNorm(x Variable, opts ...Option) Variable {
	l := start("layer_norm", opts, []string{"Act", "Param", "Bias", "NoBias", "Epsilon", "BeginNormAxis"}, x)
	if l.failed {
		return l.fail()
	}
	if l.beginNorm < 1 || l.beginNorm >= x.rank() {
		return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()),
			fault.Wantf("a rank above BeginNormAxis = %d, which is at least 1", l.beginNorm)))
	}
	size := []int64{ops.Product(x.v.Dims[l.beginNorm:])}
	in := In{"X": {x}, "Scale": {l.parameter("w", l.param, x.DType(), size, Constant(1))}}
	if !l.noBias {
		in["Bias"] = []Variable{l.parameter("b", l.bias, x.DType(), size, Constant(0))}
	}
	out := l.multi("layer_norm", in, Attrs{"epsilon": l.epsilon, "begin_norm_axis": l.beginNorm}, "Mean", "Variance", "Y")
	return l.result(l.activate(out[2]))
}
