package layers

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// FC is a fully connected layer: act(x·w + b) with w [columns of x, size] and b [size]. The leading axes of x, one
// unless NumFlattenDims says otherwise, are rows and stay; the others are flattened to columns.
//
// Options: Act, Param (default Xavier), Bias (default 0), NoBias, NumFlattenDims, Name. Ops: mul, elementwise_add, activation.
func FC(x Variable, size int64, opts ...Option) Variable { return FCs([]Variable{x}, size, opts...) }

// FCs is FC on several inputs, each with a weight of its own, whose products are summed: act(Σ xᵢ·wᵢ + b). A Param
// with a name is taken by the first weight only.
func FCs(xs []Variable, size int64, opts ...Option) Variable {
	l := start("fc", opts, []string{"Act", "Param", "Bias", "NoBias", "NumFlattenDims"}, xs...)
	if !l.failed && size < 1 {
		l.mistake(fault.E(fault.InvalidArgument, fault.Gotf("size %d", size), fault.Want("at least 1")))
	}
	var products []Variable
	for i, x := range xs {
		if l.failed {
			return l.fail()
		}
		if l.flatten < 1 || l.flatten >= x.rank() {
			return l.mistake(fault.E(fault.ShapeMismatch, fault.Var(x.Name()), fault.Got(x.String()),
				fault.Wantf("a rank above NumFlattenDims = %d, which is at least 1", l.flatten)))
		}
		attr := l.param
		if i > 0 {
			attr.Name = ""
		}
		w := l.parameter("w", attr, x.DType(), []int64{ops.Product(x.v.Dims[l.flatten:]), size}, Xavier())
		products = append(products, l.op("mul", In{"X": {x}, "Y": {w}}, Attrs{"x_num_col_dims": l.flatten, "y_num_col_dims": 1}, "Out"))
	}
	if l.failed {
		return l.fail()
	}
	sum := products[0]
	if len(products) > 1 {
		sum = l.op("sum", In{"X": products}, nil, "Out")
	}
	return l.result(l.activate(l.addBias(sum, l.flatten)))
}
