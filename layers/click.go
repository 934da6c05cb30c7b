package layers

import "github.com/edl-go/edl/fault"

// DataNorm normalises each column of x, [rows, columns], by sums over much data: (x - mean)*scale, then act. The sums are three parameters [columns] that are not
// trained: batch_size, the number of rows (10000 at first), batch_sum (0), and batch_square_sum, the sum of squared distances from the mean (10000).
//
// Options: Act, Epsilon, Name. Op: data_norm.
func DataNorm(x Variable, opts ...Option) Variable {
	l := start("data_norm", opts, []string{"Act", "Epsilon"}, x)
	if !l.failed && x.rank() != 2 {
		l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()), fault.Want("rows of numbers")))
	}
	if l.failed {
		return l.fail()
	}
	sums := func(suffix string, value float64) []Variable {
		return []Variable{l.parameter(suffix, ParamAttr{Frozen: true}, x.DType(), x.v.Dims[1:], Constant(value))}
	}
	in := In{"X": {x}, "BatchSize": sums("batch_size", 1e4), "BatchSum": sums("batch_sum", 0), "BatchSquareSum": sums("batch_square_sum", 1e4)}
	return l.result(l.activate(l.multi("data_norm", in, Attrs{"epsilon": l.epsilon}, "Means", "Scales", "Y")[2]))
}

// ContinuousValueModel prepares rows of an embedding [rows, D] whose first two columns count how often an item was shown and clicked: they become log(show+1) and
// log(click+1) - log(show+1), or, without useCVM, are left out. cvm [rows, 2] has show and click of the batch, one row for each row of x, or for each sequence if x
// has a LoD. It is the gradient of the two columns, so that an update counts.
//
// Options: Name. Op: cvm.
func ContinuousValueModel(x, cvm Variable, useCVM bool, opts ...Option) Variable {
	l := start("continuous_value_model", opts, nil, x, cvm)
	return l.result(l.op("cvm", In{"X": {x}, "CVM": {cvm}}, Attrs{"use_cvm": useCVM}, "Y"))
}

// FilterByInsTag keeps the rows of x whose tags have one in common with filter, int64 [tags]: tags is int64 [tags, 1], those of a row a sequence. If x has a LoD, it
// keeps sequences of rows. The rows of an instance that is kept are a sequence of kept, and weight, [instances, 1], is 1 for each. If there is none, kept is one row of
// zeros, and its weight 0: multiply the loss by it.
//
// Options: Name (of kept). Op: filter_by_instag.
func FilterByInsTag(x, tags, filter Variable, opts ...Option) (kept, weight Variable) {
	l := start("filter_by_instag", opts, nil, x, tags, filter)
	if l.failed {
		return l.fail(), l.fail()
	}
	out := l.multi("filter_by_instag", In{"Ins": {x}, "Ins_tag": {tags}, "Filter_tag": {filter}}, Attrs{"is_lod": x.LoDLevel() > 0}, "Out", "LossWeight", "IndexMap")
	return l.result(out[0]), out[1]
}
