package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// PaddingIndex sets the id whose row is read as zeros and is not trained.
func PaddingIndex(id int64) Option {
	return Option{"PaddingIndex", func(s *settings) { s.padID = id }}
}

// Sparse makes the gradient of the table sparse: one row for each id of a batch in place of the whole table. An update then costs as
// much as the batch is large, not the table, where the optimizer leaves rows without a gradient alone: SGD, Adagrad and Adam with
// optimizer.Lazy. With the others the result is that of the dense gradient. Sparse gradients are neither clipped nor regularized, and
// are for one machine.
func Sparse() Option {
	return Option{"Sparse", func(s *settings) { s.sparse = true }}
}

// Embedding looks up rows of a table [vocabulary, width] by int64 ids [..., 1]; the result is [..., width]. Layers share a
// table when their Param names the same parameter.
//
// Options: Param (default Xavier), PaddingIndex, Sparse, DType, Name. Op: lookup_table.
func Embedding(ids Variable, vocabulary, width int64, opts ...Option) Variable {
	l := start("embedding", opts, []string{"Param", "PaddingIndex", "Sparse", "DType"}, ids)
	if l.failed {
		return l.fail()
	}
	if ids.DType() != tensor.Int64 {
		return l.mistake(fault.E(fault.TypeMismatch, fault.Var(ids.Name()), fault.Gotf("ids %v", ids), fault.Want("int64"),
			fault.Hint("declare them with layers.DType(tensor.Int64)")))
	}
	w := l.parameter("w", l.param, l.dtype, []int64{vocabulary, width}, Xavier())
	attrs := Attrs{"padding_idx": l.padID}
	if l.sparse {
		attrs["is_sparse"] = true
	}
	return l.result(l.op("lookup_table", In{"W": {w}, "Ids": {ids}}, attrs, "Out"))
}
