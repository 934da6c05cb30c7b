package layers

import "github.com/edl-go/edl/fault"

// Mean is the average of all elements, [1].
func Mean(x Variable, opts ...Option) Variable { return unary("mean", x, opts) }

// SquareErrorCost is (prediction - label)², element by element. Ops: elementwise_sub, square.
func SquareErrorCost(prediction, label Variable, opts ...Option) Variable {
	l := start("square_error_cost", opts, nil, prediction, label)
	difference := l.op("elementwise_sub", In{"X": {prediction}, "Y": {label}}, nil, "Out")
	return l.result(l.op("square", In{"X": {difference}}, nil, "Out"))
}

// SoftLabel says that the labels are probabilities of all classes, not the number of one class.
func SoftLabel() Option { return Option{"SoftLabel", func(s *settings) { s.softLabel = true }} }

// IgnoreIndex sets the class number of records that do not count. The default is -100.
func IgnoreIndex(class int64) Option {
	return Option{"IgnoreIndex", func(s *settings) { s.ignore = class }}
}

// CrossEntropy is -log of the probability [rows, classes] of the label [rows, 1], for each row. Labels are int64.
//
// Options: SoftLabel, IgnoreIndex, Name.
func CrossEntropy(probabilities, label Variable, opts ...Option) Variable {
	l := start("cross_entropy", opts, []string{"SoftLabel", "IgnoreIndex"}, probabilities, label)
	return l.result(l.op("cross_entropy", In{"X": {probabilities}, "Label": {label}}, Attrs{"soft_label": l.softLabel, "ignore_index": l.ignore}, "Y"))
}

// LabelSmooth makes distributions of labels less certain: (1 - epsilon)*label + epsilon/classes. They are on the last axis, as OneHot makes them.
//
// Options: Name. Op: label_smooth.
func LabelSmooth(label Variable, epsilon float64, opts ...Option) Variable {
	l := start("label_smooth", opts, nil, label)
	return l.result(l.op("label_smooth", In{"X": {label}}, Attrs{"epsilon": epsilon}, "Out"))
}

// SoftmaxWithCrossEntropy is CrossEntropy(Softmax(logits), label) in one op that does not lose precision. The second result is the softmax.
//
// Options: SoftLabel, IgnoreIndex, Name (of the loss).
func SoftmaxWithCrossEntropy(logits, label Variable, opts ...Option) (loss, probabilities Variable) {
	l := start("softmax_with_cross_entropy", opts, []string{"SoftLabel", "IgnoreIndex"}, logits, label)
	out := l.multi("softmax_with_cross_entropy", In{"Logits": {logits}, "Label": {label}},
		Attrs{"soft_label": l.softLabel, "ignore_index": l.ignore}, "Softmax", "Loss")
	return l.result(out[1]), out[0]
}

// LogLoss is -y log(p + ε) - (1 - y) log(1 - p + ε) for the probability p of a label y that is 0 or 1, both [rows, 1]. ε is 1e-4.
//
// Options: Epsilon, Name.
func LogLoss(probability, label Variable, opts ...Option) Variable {
	l := start("log_loss", append([]Option{Epsilon(1e-4)}, opts...), []string{"Epsilon"}, probability, label)
	return l.result(l.op("log_loss", In{"Predicted": {probability}, "Labels": {label}}, Attrs{"epsilon": l.epsilon}, "Loss"))
}

// SigmoidCrossEntropyWithLogits is -y log(p) - (1 - y) log(1 - p) with p = sigmoid(logit), in one op that does not lose precision. The label y has
// the shape of the logit and values from 0 to 1. Elements with the label IgnoreIndex do not count.
//
// Options: IgnoreIndex, Name.
func SigmoidCrossEntropyWithLogits(logit, label Variable, opts ...Option) Variable {
	l := start("sigmoid_cross_entropy_with_logits", opts, []string{"IgnoreIndex"}, logit, label)
	return l.result(l.op("sigmoid_cross_entropy_with_logits", In{"X": {logit}, "Label": {label}}, Attrs{"ignore_index": l.ignore}, "Out"))
}

// Softmax turns the last axis into probabilities: exp(xᵢ) / Σ exp(xⱼ).
func Softmax(x Variable, opts ...Option) Variable { return unary("softmax", x, opts) }

// TopK returns the k largest values of the last axis in falling order, and their int64 indices. For equal values, the smaller index comes first. No
// gradient flows through it.
func TopK(x Variable, k int, opts ...Option) (values, indices Variable) {
	l := start("top_k", opts, nil, x)
	if !l.failed && k < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Got("k below 1"), fault.Want("at least 1")))
	}
	out := l.multi("top_k", In{"X": {x}}, Attrs{"k": k}, "Out", "Indices")
	return l.result(out[0]), out[1]
}

// Accuracy is the share of rows whose label [rows, 1] is among the k most probable classes, [1]. k is 1 unless K says
// otherwise. Ops: top_k, accuracy.
//
// Options: K, Name.
func Accuracy(probabilities, label Variable, opts ...Option) Variable {
	l := start("accuracy", opts, []string{"K"}, probabilities, label)
	top := l.multi("top_k", In{"X": {probabilities}}, Attrs{"k": l.k}, "Out", "Indices")
	out := l.multi("accuracy", In{"Out": {top[0]}, "Indices": {top[1]}, "Label": {label}}, nil, "Accuracy", "Correct", "Total")
	return l.result(out[0])
}

// K sets how many of the most probable classes count.
func K(k int) Option { return Option{"K", func(s *settings) { s.k = k }} }

// AUC is the area under the receiver operating characteristic of a batch, float64 [1]: how probable it is that a record of label 1 has a larger
// probability than one of label 0. Label is int64 [rows, 1], 0 or 1. The last column of probability is that of label 1. It is 0 if all labels of the
// batch are equal. The mean over batches is not the AUC of a dataset, but close to it for large batches; on a cluster each trainer contributes
// the AUC of its rows. Op: auc.
//
// Options: Name.
func AUC(probability, label Variable, opts ...Option) Variable {
	l := start("auc", opts, nil, probability, label)
	return l.result(l.op("auc", In{"Predict": {probability}, "Label": {label}}, nil, "AUC"))
}

// CrossEntropy2 is CrossEntropy of the numbers of classes by the op that Fluid uses for it since 1.4. Options: IgnoreIndex, Name. Op: cross_entropy2.
func CrossEntropy2(probabilities, label Variable, opts ...Option) Variable {
	l := start("cross_entropy2", opts, []string{"IgnoreIndex"}, probabilities, label)
	return l.result(l.multi("cross_entropy2", In{"X": {probabilities}, "Label": {label}}, Attrs{"ignore_index": l.ignore}, "Y", "MatchX", "XShape")[0])
}
