package layers

// ContinuousValueModel prepares rows of an embedding [rows, D] whose first two columns count how often an item was shown and clicked: they become log(show+1) and
// log(click+1) - log(show+1), or, without useCVM, are left out. cvm [rows, 2] has show and click of the batch, one row for each row of x, or for each sequence if x
// has a LoD. It is the gradient of the two columns, so that an update counts.
//
// Options: Name. Op: cvm.
func ContinuousValueModel(x, cvm Variable, useCVM bool, opts ...Option) Variable {
	l := start("continuous_value_model", opts, nil, x, cvm)
	return l.result(l.op("cvm", In{"X": {x}, "CVM": {cvm}}, Attrs{"use_cvm": useCVM}, "Y"))
}
