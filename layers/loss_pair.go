package layers

// The losses of this file have the shape of their inputs: one number for each element. End them with Mean.

// HuberLoss is r²/2 for a residual r = label - prediction of at most delta, and delta (|r| - delta/2) for a larger one. (Huber 1964.)
//
// Options: Name. Op: huber_loss.
func HuberLoss(prediction, label Variable, delta float64, opts ...Option) Variable {
	return pairLoss("huber_loss", opts, In{"X": {prediction}, "Y": {label}}, Attrs{"delta": delta}, "Out", "Residual")
}

// ModifiedHuberLoss is a smooth hinge for a score and a label 0 or 1, both [rows, 1]: with v = score (2 label - 1), -4v where v < -1, (1 - v)² up to 1, and
// then 0. (Zhang 2004.)
//
// Options: Name. Op: modified_huber_loss.
func ModifiedHuberLoss(score, label Variable, opts ...Option) Variable {
	return pairLoss("modified_huber_loss", opts, In{"X": {score}, "Y": {label}}, nil, "Out", "IntermediateVal")
}

// HingeLoss is max(0, 1 - score (2 label - 1)) for a score and a label 0 or 1, both [rows, 1].
//
// Options: Name. Op: hinge_loss.
func HingeLoss(score, label Variable, opts ...Option) Variable {
	return pairLoss("hinge_loss", opts, In{"Logits": {score}, "Labels": {label}}, nil, "Loss")
}

// RankLoss is the loss of the order of two scores, all [rows, 1]: log(1 + exp(d)) - label d with d = left - right. Label is 1 if the left one ranks higher,
// 0 if the right one, and 0.5 if neither. (RankNet, Burges et al. 2005.)
//
// Options: Name. Op: rank_loss.
func RankLoss(label, left, right Variable, opts ...Option) Variable {
	return pairLoss("rank_loss", opts, In{"Label": {label}, "Left": {left}, "Right": {right}}, nil, "Out")
}

// MarginRankLoss is max(0, margin - label (left - right)), all [rows, 1]. Label is 1 if the left one ranks higher, and -1 if the right one. Fluid's default
// for margin is 0.1.
//
// Options: Name. Op: margin_rank_loss.
func MarginRankLoss(label, left, right Variable, margin float64, opts ...Option) Variable {
	return pairLoss("margin_rank_loss", opts, In{"Label": {label}, "X1": {left}, "X2": {right}}, Attrs{"margin": margin}, "Out", "Activated")
}

// TeacherStudentSigmoidLoss is the cross entropy of a logit [rows, 1] with a click, and with the score q of a teacher model for rows that have one. The
// label [rows, 1] is -2 for no click, -1 for a click, q in [0, 1) for no click and a score, and 1 + q for a click and a score. Logits beyond 15 or -15 get
// no gradient.
//
// Options: Name. Op: teacher_student_sigmoid_loss.
func TeacherStudentSigmoidLoss(logit, label Variable, opts ...Option) Variable {
	return pairLoss("teacher_student_sigmoid_loss", opts, In{"X": {logit}, "Label": {label}}, nil, "Y")
}

// BCELoss is -y log(p) - (1 - y) log(1 - p) for a probability p of a label y from 0 to 1. Unlike LogLoss, it limits the logarithms and adds nothing to p.
//
// Options: Name. Op: bce_loss.
func BCELoss(probability, label Variable, opts ...Option) Variable {
	return pairLoss("bce_loss", opts, In{"X": {probability}, "Label": {label}}, nil, "Out")
}

// pairLoss appends an op whose first output slot is the loss. Other slots are for its gradient.
func pairLoss(opType string, opts []Option, in In, attrs Attrs, out ...string) Variable {
	var inputs []Variable
	for _, slot := range sortedSlots(in) {
		inputs = append(inputs, in[slot]...)
	}
	l := start(opType, opts, nil, inputs...)
	return l.result(l.multi(opType, in, attrs, out...)[0])
}
