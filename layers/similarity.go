package layers

// CosSim is the cosine of the angle between each row of x and that of y, [rows, 1]. y may have one row for all. Options: Name. Op: cos_sim.
func CosSim(x, y Variable, opts ...Option) Variable {
	l := start("cos_sim", opts, nil, x, y)
	return l.result(l.multi("cos_sim", In{"X": {x}, "Y": {y}}, nil, "Out", "XNorm", "YNorm")[0])
}

// CrossEntropy2 is CrossEntropy of the numbers of classes by the op that Fluid uses for it since 1.4. Options: IgnoreIndex, Name. Op: cross_entropy2.
func CrossEntropy2(probabilities, label Variable, opts ...Option) Variable {
	l := start("cross_entropy2", opts, []string{"IgnoreIndex"}, probabilities, label)
	return l.result(l.multi("cross_entropy2", In{"X": {probabilities}, "Label": {label}}, Attrs{"ignore_index": l.ignore}, "Y", "MatchX", "XShape")[0])
}
