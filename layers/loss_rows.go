package layers

// ElementWeights gives SmoothL1 weights of the shape of its inputs: inside multiplies their difference, and outside the loss of each element.
func ElementWeights(inside, outside Variable) Option {
	return Option{"ElementWeights", func(s *settings) { s.inside, s.outside = &inside, &outside }}
}

// SmoothL1 is the loss of each row, [rows, 1]: the sum along the row of a loss that is square for small differences d of x and y, and linear for large ones. With
// s = sigma², it is s d²/2 where |d| < 1/s, and |d| - 1/(2s) beyond. Fluid's default for sigma is 1.
//
// Options: ElementWeights, Name. Op: smooth_l1_loss.
func SmoothL1(x, y Variable, sigma float64, opts ...Option) Variable {
	l := start("smooth_l1_loss", opts, []string{"ElementWeights"}, x, y)
	in := In{"X": {x}, "Y": {y}}
	if l.inside != nil {
		in["InsideWeight"], in["OutsideWeight"] = []Variable{*l.inside}, []Variable{*l.outside}
	}
	return l.result(l.multi("smooth_l1_loss", in, Attrs{"sigma": sigma}, "Out", "Diff")[0])
}

// BPRLoss is the loss of Bayesian personalized ranking of each row, [rows, 1]: the mean over all other items of -log(sigmoid(score of the labelled item - score of
// the other one)). scores is [rows, items], and label the int64 number of an item, [rows, 1].
//
// Options: Name. Op: bpr_loss.
func BPRLoss(scores, label Variable, opts ...Option) Variable {
	return pairLoss("bpr_loss", opts, In{"X": {scores}, "Label": {label}}, nil, "Y")
}

// KLDivLoss is the divergence of Kullback and Leibler, target (log(target) - x), of a distribution whose logarithm is x from a target of the same shape. No
// gradient flows to target. reduction says what becomes of the elements: "none" keeps them, "mean" and "sum" make one number [1], and so does "batchmean", the sum
// over the number of rows. Fluid's default is "mean".
//
// Options: Name. Op: kldiv_loss.
func KLDivLoss(x, target Variable, reduction string, opts ...Option) Variable {
	return pairLoss("kldiv_loss", opts, In{"X": {x}, "Target": {target}}, Attrs{"reduction": reduction}, "Loss")
}

// SigmoidFocalLoss is a cross entropy of logits [rows, classes] in which easy examples count little. The label, int32 [rows, 1], is 1 + the class of a row, 0 for the
// background, and -1 for a row that costs nothing. foreground, int32 [1], is the number of rows that are no background: it divides all losses. With
// p = sigmoid(logit), the class of a row costs -alpha (1-p)^gamma log(p), and each other class -(1-alpha) p^gamma log(1-p). Fluid's defaults are 2 for gamma and
// 0.25 for alpha.
//
// Options: Name. Op: sigmoid_focal_loss.
func SigmoidFocalLoss(logits, label, foreground Variable, gamma, alpha float64, opts ...Option) Variable {
	in := In{"X": {logits}, "Label": {label}, "FgNum": {foreground}}
	return pairLoss("sigmoid_focal_loss", opts, in, Attrs{"gamma": gamma, "alpha": alpha}, "Out")
}

// EditDistance counts for sequences of tokens, int64 [rows, 1], how many tokens must be inserted, deleted or replaced to make the true sequence in refs of it:
// float32 [sequences, 1]. If normalized is set, a distance is divided by the number of tokens of the true sequence, as is Fluid's default. The second result is the
// number of sequences, int64 [1].
//
// Options: Name (of distance). Op: edit_distance.
func EditDistance(hyps, refs Variable, normalized bool, opts ...Option) (distance, sequences Variable) {
	l := start("edit_distance", opts, nil, hyps, refs)
	out := l.multi("edit_distance", In{"Hyps": {hyps}, "Refs": {refs}}, Attrs{"normalized": normalized}, "SequenceNum", "Out")
	return l.result(out[1]), out[0]
}

// MeanIOU compares predicted classes of pixels with the true ones, both int64 of one shape, float32 [1]: the mean, over the classes that occur, of the pixels that both give
// to a class over those that either gives to it. wrong and correct count pixels by class, int32 [classes].
//
// Options: Name (of mean). Op: mean_iou.
func MeanIOU(found, label Variable, classes int, opts ...Option) (mean, wrong, correct Variable) {
	l := start("mean_iou", opts, nil, found, label)
	out := l.multi("mean_iou", In{"Predictions": {found}, "Labels": {label}}, Attrs{"num_classes": classes}, "OutWrong", "OutCorrect", "OutMeanIou")
	return l.result(out[2]), out[0], out[1]
}
