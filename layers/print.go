package layers

// Print hands x on and writes its first 20 elements to the log of the run, after a message, in each step: edl run shows them, and edl logs those of a cluster, where
// each trainer has a part of the batch. The gradient of x is written, too. Use what Print returns in place of x, or not at all.
//
// Options: Name. Op: print.
func Print(x Variable, message string, opts ...Option) Variable {
	l := start("print", opts, nil, x)
	return l.result(l.op("print", In{"In": {x}}, Attrs{"message": message}, "Out"))
}

// Assert ends a step with an error unless condition, a bool of one element, is true. The error shows the first 20 elements of each of data.
//
// Op: assert.
func Assert(condition Variable, data ...Variable) {
	l := start("assert", nil, nil, append([]Variable{condition}, data...)...)
	l.write("assert", In{"Cond": {condition}, "Data": data}, Attrs{"summarize": 20}, nil)
}
