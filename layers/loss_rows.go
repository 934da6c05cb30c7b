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
