package merge

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Totals are sums and means over a batch that trainers make between the forward and the backward pass (ops.ShareTotals). For trainers t in rank order, with rows[t]
// rows and over[t] elements that the total reduces, R and W of all of them together:
//
//	mean    sum of value[t] * (over[t] / W)    trainers without an element have no mean, and are left out
//	sum     sum of value[t]
//
// A trainer multiplies the gradient of a total by a scale before it goes on to its own rows. It is what its part weighs in the total, divided by what its rows
// weigh in the mean of gradients that pservers make:
//
//	mean    (over[t] / W) / (rows[t] / R)
//	sum     R / rows[t]
//
// Devices of a trainer add theirs up first (JoinTotals), and the trainer's stands for them. Each has a scale of its own: rows[t] and over[t] are those of the device then,
// since the gradients of devices are weighted by records, too.
//
// Quotients are computed in float64 and converted to the element type once. With one trainer a total is its own value, and the scale is 1.

// Totals writes the totals of all parts, which stand in rank order, and the scales of own, which is one of them or of a device that one of them stands for. means says of
// each total whether it is a mean. It refuses parts that do not have all totals, whoever has sent them.
func Totals(totals, scales []*tensor.Tensor, means []bool, own ops.Totals, parts []ops.Totals) error {
	n := 0
	for _, t := range totals {
		n += t.Len()
	}
	if len(parts) == 0 || len(scales) != len(totals) || len(means) != len(totals) {
		return fault.E(fault.InvalidArgument, fault.Gotf("%d parts, %d scales and %d kinds of %d totals", len(parts), len(scales), len(means), len(totals)),
			fault.Want("at least one part, and a scale and a kind for each total"))
	}
	check := func(p *ops.Totals) error {
		if p.Rows < 1 || len(p.Over) != len(totals) || len(p.Values) != n || slices.ContainsFunc(p.Over, func(n int64) bool { return n < 0 }) {
			return fault.E(fault.ShapeMismatch, fault.Gotf("a part of %d rows with %d totals of %d numbers", p.Rows, len(p.Over), len(p.Values)),
				fault.Wantf("at least one row, and %d totals of %d numbers", len(totals), n))
		}
		return nil
	}
	for i := range parts {
		if err := check(&parts[i]); err != nil {
			return err
		}
	}
	if err := check(&own); err != nil {
		return err
	}
	first := 0
	for i, t := range totals {
		switch {
		case t.DType() != scales[i].DType() || scales[i].Len() != 1:
			return fault.E(fault.TypeMismatch, fault.Gotf("the scale %s of a total %s", scales[i], t), fault.Want("one number of its type"))
		case t.DType() == tensor.Float32:
			total[float32](t, scales[i], means[i], &own, parts, i, first)
		case t.DType() == tensor.Float64:
			total[float64](t, scales[i], means[i], &own, parts, i, first)
		default:
			return fault.E(fault.TypeMismatch, fault.Got("a total "+t.String()), fault.Want("float32 or float64"))
		}
		first += t.Len()
	}
	return nil
}

// total makes the total with the place i, whose values begin at first.
func total[T tensor.Float](out, scale *tensor.Tensor, mean bool, own *ops.Totals, parts []ops.Totals, i, first int) {
	var rows, over int64
	for _, p := range parts {
		rows, over = rows+p.Rows, over+p.Over[i]
	}
	sum, begun := tensor.Data[T](out), false
	for _, p := range parts {
		weight := T(1)
		if mean && over > 0 {
			if p.Over[i] == 0 {
				continue
			}
			weight = T(float64(p.Over[i]) / float64(over))
		}
		for k := range sum {
			x := T(p.Values[first+k]) * weight
			if begun {
				x = sum[k] + x
			}
			sum[k] = x
		}
		if begun = true; mean && over == 0 {
			break // of nothing there is no mean: what the first says of that is as good as any
		}
	}
	factor := float64(rows) / float64(own.Rows)
	if mean && over > 0 {
		factor = (float64(own.Over[i]) / float64(over)) / (float64(own.Rows) / float64(rows))
	}
	tensor.Data[T](scale)[0] = T(factor)
}

// JoinTotals makes the totals of a trainer of those of its devices, which stand in their order. It overwrites totals and scales, which are like those that Totals writes.
func JoinTotals(totals, scales []*tensor.Tensor, means []bool, parts []ops.Totals) (joined ops.Totals, err error) {
	if len(parts) == 1 {
		return parts[0], nil
	}
	if len(parts) == 0 {
		return joined, fault.E(fault.InvalidArgument, fault.Got("totals of no device"), fault.Want("those of at least one"))
	}
	if err := Totals(totals, scales, means, parts[0], parts); err != nil {
		return joined, err
	}
	joined.Over = make([]int64, len(totals))
	for _, p := range parts {
		joined.Rows += p.Rows
		for i, n := range p.Over {
			joined.Over[i] += n
		}
	}
	for _, t := range totals {
		if joined.Values, err = AppendNumbers(joined.Values, t); err != nil {
			return joined, err
		}
	}
	return joined, nil
}

// Reduced returns how many elements a total reduces, of what share_totals reads: they are its elements, or it is their number (int64 [1]).
func Reduced(over *tensor.Tensor) int64 {
	if over.DType() == tensor.Int64 && over.Len() == 1 {
		return over.Int64s()[0]
	}
	return int64(over.Len())
}

// AppendNumbers appends the elements of a tensor of float32 or float64, as ops.Totals has them.
func AppendNumbers(list []float64, t *tensor.Tensor) ([]float64, error) {
	switch t.DType() {
	case tensor.Float64:
		return append(list, t.Float64s()...), nil
	case tensor.Float32:
		for _, v := range t.Float32s() {
			list = append(list, float64(v))
		}
		return list, nil
	}
	return nil, fault.E(fault.TypeMismatch, fault.Got("a total "+t.String()), fault.Want("float32 or float64"))
}
