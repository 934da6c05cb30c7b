// Package merge makes one value of what several trainers have computed from their parts of one batch. It is the one place for this arithmetic: the
// parameter servers merge gradients and state with it (remote/pserver), the reference executor does (executor/reference), and what trainers fetch is
// merged with it (executor.MergeFetch). So a cluster and its reference cannot differ, not even in the last bit.
//
// For trainers t in rank order, with rows[t] > 0 rows each and R rows together (of sequences, what the loss averages over in place of rows, such as tokens):
//
//	Gradients, MergeMean    sum of value[t] * (rows[t] / R)      the gradient of a mean loss; each weight is computed first
//	Gradients, MergeSum     sum of value[t]                      the gradient of a summed loss
//	Gradients, MergeFirst   value[0]                             what is the same on every trainer
//	Row gradients           value[t] * (rows[t] / R), rows after rows   fetched; of a mean loss, whose rows each trainer has divided by rows[t]
//	State, MergeMean        as Gradients                         moving statistics
//	State, MergeSum         old + sum of (value[t] - old)        counters: every trainer has added its own part
//	State, MergeFirst       value[0]
//
// Contributions to a float32 gradient may be of a half type, as package compress has rounded them. They are converted to float32 first, exactly. Or they are
// entries, as package compress has selected them: the other elements are 0. Then sums skip what is not there, and are equal to those with the zeros.
// Contributions to a sparse gradient are rows of a table, and so is what they merge into (rows.go).
//
// All arithmetic is done in the element type of the result. Each element is added up from the first share to the last, so the order of ranks decides the bits, and
// neither the order of arrival nor the slices of a parameter do. One share alone is taken as it is: rounds of one trainer give the bits of a local step.
package merge

import (
	"math"
	"slices"
	"sync"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A Share is what one trainer has computed of one variable.
type Share struct {
	Value *tensor.Tensor
	Rows  int64 // of the batch that Value was computed from, > 0
	// Weight is how many rows the loss averages over in these rows of the batch, such as the tokens of its sequences; it stands for Rows in a mean. A share
	// of weight 0 counts for nothing, unless all have weight 0: then Rows are the weights.
	Weight int64
}

// weighed returns the shares that count, with their weights as rows. It allocates only if some share has a weight.
func weighed(shares []Share) []Share {
	if !slices.ContainsFunc(shares, func(s Share) bool { return s.Weight > 0 }) {
		return shares
	}
	out := make([]Share, 0, len(shares))
	for _, s := range shares {
		if s.Weight > 0 {
			out = append(out, Share{Value: s.Value, Rows: s.Weight})
		}
	}
	return out
}

// Gradients writes into dst the merge of shares, which stand in rank order: their mean weighted by rows, their sum, or the first of them. There is at
// least one share. All values have the length of dst, and its dtype or, for a float32 dst, one half type; or they are entries of a float32 dst; or dst and
// they are rows of one table. dst is none of them. It refuses what cannot be merged, whoever has sent it.
func Gradients(dst *tensor.Tensor, shares []Share, how ops.Merge) error {
	if err := check(dst, shares); err != nil {
		return err
	}
	if how == ops.MergeFirst {
		shares = shares[:1]
	}
	if how == ops.MergeMean {
		shares = weighed(shares)
	}
	if travelsByRows(dst, how) {
		return combineRows(dst, shares, how)
	}
	if dst.DType() == tensor.Float32 && shares[0].Value.DType().IsHalf() {
		combineHalves(dst.Float32s(), shares, how)
		return nil
	}
	if dst.DType() == tensor.Float32 && shares[0].Value.DType() == tensor.Int32 {
		return combineEntries(dst.Float32s(), shares, how)
	}
	if how == ops.MergeFirst {
		return dst.CopyFrom(shares[0].Value)
	}
	switch dst.DType() {
	case tensor.Float32:
		combine[float32](dst, shares, how)
	case tensor.Float64:
		combine[float64](dst, shares, how)
	default:
		return fault.E(fault.TypeMismatch, fault.Got("contributions of "+dst.String()), fault.Want("float32 or float64"))
	}
	return nil
}

// Accumulate adds a gradient of a later batch to the sum of those before it, in the element type.
func Accumulate(sum, gradient *tensor.Tensor) error {
	if gradient.DType() != sum.DType() || gradient.Len() != sum.Len() {
		return fault.E(fault.ShapeMismatch, fault.Got(gradient.String()), fault.Want(sum.String()))
	}
	switch sum.DType() {
	case tensor.Float32:
		kernel.Accumulate(sum.Float32s(), gradient.Float32s())
	case tensor.Float64:
		kernel.Accumulate(sum.Float64s(), gradient.Float64s())
	default:
		return fault.E(fault.TypeMismatch, fault.Got("a sum of "+sum.String()), fault.Want("float32 or float64"))
	}
	return nil
}

// ScaleRows makes gradients of a trainer's rows, of a mean over these rows, what they are of the mean over all rows of the batch. A trainer that has all
// rows has them already. It refuses what is no gradient.
func ScaleRows(gradients *tensor.Tensor, rows, all int64) error {
	switch {
	case rows == all:
		return nil
	case rows < 1 || rows > all:
		return fault.E(fault.ShapeMismatch, fault.Gotf("gradients of %d rows of %d", rows, all), fault.Want("at least one row, and no more than all"))
	}
	switch gradients.DType() {
	case tensor.Float32:
		scaleRows[float32](gradients, rows, all)
	case tensor.Float64:
		scaleRows[float64](gradients, rows, all)
	default:
		return fault.E(fault.TypeMismatch, fault.Got("gradients of "+gradients.String()), fault.Want("float32 or float64"))
	}
	return nil
}

func scaleRows[T tensor.Float](gradients *tensor.Tensor, rows, all int64) {
	data := tensor.Data[T](gradients)
	none := T(math.Copysign(0, -1)) // keeps the sign of zeros, which 0 does not
	kernel.Scale(data, data, T(rows)/T(all), none, true)
}

// check refuses what cannot be merged.
func check(dst *tensor.Tensor, shares []Share) error {
	if len(shares) == 0 {
		return fault.New(fault.InvalidArgument, "a merge of nothing")
	}
	for _, s := range shares {
		if s.Value == nil || s.Rows <= 0 || !Fits(dst, s.Value) || s.Value.DType() != shares[0].Value.DType() {
			return fault.E(fault.ShapeMismatch, fault.Gotf("a share of %d rows and %s", s.Rows, s.Value),
				fault.Wantf("at least one row and %s", dst))
		}
	}
	return nil
}

// Fits reports whether contributions like value can be merged into dst.
func Fits(dst, value *tensor.Tensor) bool {
	if dst.DType() == tensor.Float32 && value.DType() == tensor.Int32 {
		_, _, ok := compress.EntriesOf(value, dst.Len())
		return ok
	}
	if (dst.DType() == tensor.Int32 || dst.DType() == tensor.Int64) && !slices.Equal(dst.Dims(), value.Dims()) {
		return false
	}
	return value.Len() == dst.Len() && (value.DType() == dst.DType() || value.DType().IsHalf() && dst.DType() == tensor.Float32)
}

// Check refuses a contribution that fits dst and cannot be merged, because its entries are of elements that dst does not have. Gradients checks the same,
// and it checks contributions that are rows (compress.RowsForm), about which Check says nothing.
func Check(dst, value *tensor.Tensor) error {
	if dst.DType() != tensor.Float32 || value.DType() != tensor.Int32 {
		return nil
	}
	indices, _, _ := compress.EntriesOf(value, dst.Len())
	return compress.CheckIndices(indices, -1, dst.Len())
}

// weights calls each with the place and the weight of every share.
func weights[T tensor.Float](shares []Share, how ops.Merge, each func(i int, weight T)) {
	var total int64
	for _, s := range shares {
		total += s.Rows
	}
	for i, s := range shares {
		if how == ops.MergeMean {
			each(i, T(s.Rows)/T(total))
		} else {
			each(i, 1)
		}
	}
}

// cached is how many elements of all shares are added up before the next: their sum stays in the cache of a core. An element has the same bits
// wherever the shares are cut.
const cached = 32 << 10

func combine[T tensor.Float](dst *tensor.Tensor, shares []Share, how ops.Merge) {
	out := tensor.Data[T](dst)
	if len(shares) == 1 {
		copy(out, tensor.Data[T](shares[0].Value))
		return
	}
	for from := 0; from < len(out); from += cached {
		part := out[from:min(from+cached, len(out))]
		weights(shares, how, func(i int, weight T) {
			x := tensor.Data[T](shares[i].Value)[from:][:len(part)]
			if i == 0 {
				kernel.Scale(part, x, weight, 0, true)
				return
			}
			kernel.Axpy(part, x, weight)
		})
	}
}

// wide is how many elements are converted at a time. They stay in the cache of a core.
const wide = 4096

var rooms = sync.Pool{New: func() any { return new([wide]float32) }}

// combineHalves is combine for shares of a half type.
func combineHalves(out []float32, shares []Share, how ops.Merge) {
	if len(shares) == 1 {
		compress.Widen(out, shares[0].Value, 0)
		return
	}
	room := rooms.Get().(*[wide]float32)
	defer rooms.Put(room)
	for from := 0; from < len(out); from += wide {
		part := out[from:min(from+wide, len(out))]
		x := room[:len(part)]
		weights(shares, how, func(i int, weight float32) {
			compress.Widen(x, shares[i].Value, from)
			if i == 0 {
				kernel.Scale(part, x, weight, 0, true)
				return
			}
			kernel.Axpy(part, x, weight)
		})
	}
}

// combineEntries is combine for shares of entries. It reads each of them once, because a peer that shares the memory may change them meanwhile.
func combineEntries(out []float32, shares []Share, how ops.Merge) (err error) {
	clear(out)
	if len(shares) == 1 {
		return eachEntries(shares[0].Value, out, func(indices []int32, x, _ []float32) {
			for j, i := range indices {
				out[i] = x[j]
			}
		})
	}
	weights(shares, how, func(i int, weight float32) {
		if err != nil {
			return
		}
		err = eachEntries(shares[i].Value, out, func(indices []int32, x, sums []float32) {
			if i == 0 {
				kernel.Scale(sums, x, weight, 0, true)
			} else {
				for j, i := range indices {
					sums[j] = out[i]
				}
				kernel.Axpy(sums, x, weight)
			}
			for j, i := range indices {
				out[i] = sums[j]
			}
		})
	})
	return err
}

// eachEntries calls do with some entries after the other: copies of their indices, which are checked, and of their elements, and room for as many sums.
func eachEntries(value *tensor.Tensor, out []float32, do func(indices []int32, x, sums []float32)) error {
	indices, bits, _ := compress.EntriesOf(value, len(out))
	room := entryRooms.Get().(*entryRoom)
	defer entryRooms.Put(room)
	after := int32(-1)
	for len(indices) > 0 {
		n := copy(room.indices[:], indices)
		if err := compress.CheckIndices(room.indices[:n], after, len(out)); err != nil {
			return err
		}
		after = room.indices[n-1]
		for j, b := range bits[:n] {
			room.x[j] = math.Float32frombits(uint32(b))
		}
		do(room.indices[:n], room.x[:n], room.sums[:n])
		indices, bits = indices[n:], bits[n:]
	}
	return nil
}

// An entryRoom is room for some entries.
type entryRoom struct {
	indices [wide]int32
	x, sums [wide]float32
}

var entryRooms = sync.Pool{New: func() any { return new(entryRoom) }}

// State writes into dst the merge of a persistable variable that each trainer has updated, all from the value old: the mean weighted by rows, old with
// the changes of all trainers, or the first value. Only ops.MergeSum reads old, which must not be dst. The rules of Gradients hold for the rest.
func State(dst, old *tensor.Tensor, shares []Share, how ops.Merge) error {
	if how != ops.MergeSum || len(shares) == 1 && dst.DType().IsFloat() {
		return Gradients(dst, shares, how)
	}
	if err := check(dst, append([]Share{{Value: old, Rows: 1}}, shares...)); err != nil {
		return err
	}
	switch dst.DType() {
	case tensor.Float32:
		addChanges[float32](dst, old, shares)
	case tensor.Float64:
		addChanges[float64](dst, old, shares)
	case tensor.Int64:
		addChanges[int64](dst, old, shares)
	case tensor.Int32:
		addChanges[int32](dst, old, shares)
	default:
		return fault.E(fault.TypeMismatch, fault.Gotf("state of %s", dst), fault.Want("a number"))
	}
	return nil
}

func addChanges[T float32 | float64 | int64 | int32](dst, old *tensor.Tensor, shares []Share) {
	out, before := tensor.Data[T](dst), tensor.Data[T](old)
	copy(out, before)
	for _, s := range shares {
		for i, x := range tensor.Data[T](s.Value) {
			out[i] += x - before[i]
		}
	}
}
