package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// TreePaths gives HSigmoid a tree of its own: table, int64 [rows, L], has the nodes from the root to the class of each row, ended by -1, and code, likewise, is 1
// where the path goes right.
func TreePaths(table, code Variable) Option {
	return Option{"TreePaths", func(s *settings) { s.pathTable, s.pathCode = &table, &code }}
}

// HSigmoid is the hierarchical sigmoid loss of each row, [rows, 1]: classes are the leaves of a binary tree, and x [rows, D] is scored at each inner node on the path
// to its label, int64 [rows, 1]. A step costs as many products as the tree has levels, not as there are classes. The tree is complete, but with TreePaths. Parameters:
// w_0 [nodes, D] and b_0 [nodes, 1], with classes-1 nodes for the complete tree, else classes.
//
// Options: Param (default Xavier), Bias, NoBias, TreePaths, Sparse, Name. Op: hierarchical_sigmoid.
func HSigmoid(x, label Variable, classes int64, opts ...Option) Variable {
	l := start("hsigmoid", opts, []string{"Param", "Bias", "NoBias", "TreePaths", "Sparse"}, x, label)
	nodes := classes - 1
	in := In{"X": {x}, "Label": {label}}
	if l.pathTable != nil {
		nodes = classes
		in["PathTable"], in["PathCode"] = []Variable{*l.pathTable}, []Variable{*l.pathCode}
	}
	in["W"], in["Bias"] = scorers(l, x, nodes)
	return l.result(l.multi("hierarchical_sigmoid", in, Attrs{"num_classes": classes, "is_sparse": l.sparse}, "Out", "PreOut")[0])
}

// scorers are parameters that score rows of x: [n, D], and a bias [n, 1] unless the layer has none.
func scorers(l *layer, x Variable, n int64) (weight, bias []Variable) {
	if !l.failed && x.rank() != 2 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("rows of numbers")))
	}
	if l.failed {
		return nil, nil
	}
	weight = []Variable{l.parameter("w", l.param, x.DType(), []int64{n, x.Dims()[1]}, Xavier())}
	if !l.noBias {
		bias = []Variable{l.parameter("b", l.bias, x.DType(), []int64{n, 1}, Constant(0))}
	}
	return weight, bias
}

// Samples sets how many classes NCE draws for a row. The default is 10.
func Samples(n int) Option { return Option{"Samples", func(s *settings) { s.samples = n }} }

// LogUniform lets NCE draw class c with the probability log((c+2)/(c+1))/log(classes), for classes that are sorted by how often they occur. By default all classes
// are equally likely.
func LogUniform() Option { return Option{"LogUniform", func(s *settings) { s.logUniform = true }} }

// SampleWeights weighs the rows of NCE, [rows, 1].
func SampleWeights(weights Variable) Option {
	return Option{"SampleWeights", func(s *settings) { s.weights = &weights }}
}

// NCE is the loss of noise contrastive estimation of each row, [rows, 1], which tells the classes in label, int64 [rows, n], from some that are drawn, new ones for each
// row and step. So a step costs as many products as there are samples, not as there are classes. Parameters: w_0 [classes, D] and b_0 [classes, 1].
//
// Options: Param (default Xavier), Bias, NoBias, Samples, LogUniform, SampleWeights, Sparse, Name. Op: nce.
func NCE(x, label Variable, classes int64, opts ...Option) Variable {
	l := start("nce", opts, []string{"Param", "Bias", "NoBias", "Samples", "LogUniform", "SampleWeights", "Sparse"}, x, label)
	in := In{"Input": {x}, "Label": {label}}
	in["Weight"], in["Bias"] = scorers(l, x, classes)
	if l.failed {
		return l.fail()
	}
	if l.weights != nil {
		in["SampleWeight"] = []Variable{*l.weights}
	}
	attrs := Attrs{"num_total_classes": classes, "num_neg_samples": l.samples, "is_sparse": l.sparse, "seed": l.model.seed}
	if l.logUniform {
		attrs["sampler"] = 1
	}
	return l.result(l.multi("nce", in, attrs, "Cost", "SampleLogits", "SampleLabels")[0])
}

// KeepAccidentalHits lets SampledSoftmaxWithCrossEntropy count a drawn class as wrong for a row whose label it is.
func KeepAccidentalHits() Option {
	return Option{"KeepAccidentalHits", func(s *settings) { s.keepHits = true }}
}

// SampledSoftmaxWithCrossEntropy is the cross entropy of each row, [rows, 1], of a softmax over its label and over so many other classes that are drawn, the same for all
// rows of a step: different ones, and those with small numbers often. logits is [rows, classes], and label int64 [rows, 1].
//
// Options: KeepAccidentalHits, Name. Ops: sample_logits, one_hot, softmax_with_cross_entropy.
func SampledSoftmaxWithCrossEntropy(logits, label Variable, samples int, opts ...Option) Variable {
	l := start("sampled_softmax_with_cross_entropy", opts, []string{"KeepAccidentalHits"}, logits, label)
	if l.failed {
		return l.fail()
	}
	out := l.multi("sample_logits", In{"Logits": {logits}, "Labels": {label}},
		Attrs{"num_samples": samples, "remove_accidental_hits": !l.keepHits, "seed": l.model.seed},
		"SampledLogits", "SampledLabels", "Samples", "Probabilities", "LogitsDim", "LabelsDim")
	places := l.op("one_hot", In{"X": {out[1]}}, Attrs{"depth": samples + 1}, "Out")
	return l.result(l.multi("softmax_with_cross_entropy", In{"Logits": {out[0]}, "Label": {places}}, Attrs{"soft_label": true}, "Loss", "Softmax")[0])
}

// SamplingID draws a class for each row of probabilities [rows, classes], int64 [rows], a new one in each step.
//
// Options: Name. Op: sampling_id.
func SamplingID(probabilities Variable, opts ...Option) Variable {
	l := start("sampling_id", opts, nil, probabilities)
	if l.failed {
		return l.fail()
	}
	return l.result(l.op("sampling_id", In{"X": {probabilities}}, Attrs{"seed": l.model.seed}, "Out"))
}

// CenterLoss is half the squared distance of each row of x, [rows, D], from the center of its label, int64 [rows, 1]: [rows, 1]. The centers w_0 [classes, D] get no
// gradient: in each step they move by rate towards the rows of their class. On a cluster they are the mean of what trainers make of them, weighted by rows.
//
// Options: Param (the centers, default Xavier), IsTest (they rest), Name. Op: center_loss.
func CenterLoss(x, label Variable, classes int64, rate float64, opts ...Option) Variable {
	l := start("center_loss", opts, []string{"Param", "IsTest"}, x, label)
	l.noBias, l.param.Frozen = true, true
	centers, _ := scorers(l, x, classes)
	if l.failed {
		return l.fail()
	}
	speed := FillConstant(l.model, rate, []int64{1}, DType(x.DType()))
	loss, diff := l.temporary(), l.temporary()
	l.write("center_loss", In{"X": {x}, "Label": {label}, "Centers": centers, "CenterUpdateRate": {speed}},
		Attrs{"cluster_num": classes, "need_update": !l.isTest}, In{"CentersOut": centers, "SampleCenterDiff": {diff}, "Loss": {loss}})
	return l.result(loss)
}

// PrecisionRecall compares predicted classes with the true ones, both int32 [rows, 1]. The result, float64 [6], has the means over classes of precision and recall and
// the F1 of these, and then precision, recall and F1 of all rows. See the op precision_recall for the counts of many steps.
//
// Options: Name. Op: precision_recall.
func PrecisionRecall(found, label Variable, classes int, opts ...Option) Variable {
	l := start("precision_recall", opts, nil, found, label)
	if l.failed {
		return l.fail()
	}
	certain := Cast(found, tensor.Float32)
	return l.result(l.multi("precision_recall", In{"MaxProbs": {certain}, "Indices": {found}, "Labels": {label}}, Attrs{"class_number": classes},
		"BatchMetrics", "AccumMetrics", "AccumStatesInfo")[0])
}

// PositiveNegativePair counts the pairs of items of a query, of different labels, that score puts in the order of their labels: score and label are [batch, 1], query is
// int64 [batch, 1]. The results are the numbers of pairs that are in order, of those that are not, and of those among them whose scores are equal, each [1].
//
// Options: Name (of positive). Op: positive_negative_pair.
func PositiveNegativePair(score, label, query Variable, opts ...Option) (positive, negative, neutral Variable) {
	l := start("positive_negative_pair", opts, nil, score, label, query)
	out := l.multi("positive_negative_pair", In{"Score": {score}, "Label": {label}, "QueryID": {query}}, nil, "PositivePair", "NegativePair", "NeutralPair")
	return l.result(out[0]), out[1], out[2]
}
