// Package merge makes one value out of the contributions of several trainers. The parameter server and the reference
// executor both call it, so that they cannot differ: contributions are taken in rank order, and all arithmetic is done in the
// element type.
package merge

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A Share is one trainer's contribution.
type Share struct {
	Value *tensor.Tensor
	Rows  int64 // rows of the batch that it was computed from, > 0
}

// Gradients writes into dst the mean of the shares weighted by rows (ops.MergeMean), their sum (ops.MergeSum) or the first of them
// (ops.MergeFirst). All values have the dtype and length of dst; there is at least one share, and each has rows. With one share the result is that
// share, bit for bit.
func Gradients(dst *tensor.Tensor, shares []Share, how ops.Merge) error {
	if err := check(dst, shares); err != nil {
		return err
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

// check refuses what could not be merged, whoever sent it.
func check(dst *tensor.Tensor, shares []Share) error {
	if len(shares) == 0 {
		return fault.New(fault.InvalidArgument, "a merge of nothing")
	}
	for _, s := range shares {
		if s.Value == nil || s.Rows <= 0 || s.Value.DType() != dst.DType() || s.Value.Len() != dst.Len() {
			return fault.E(fault.ShapeMismatch, fault.Gotf("a share of %d rows and %v", s.Rows, s.Value),
				fault.Wantf("at least one row and %v", dst))
		}
	}
	return nil
}

func combine[T tensor.Float](dst *tensor.Tensor, shares []Share, how ops.Merge) {
	var total int64
	for _, s := range shares {
		total += s.Rows
	}
	out := tensor.Data[T](dst)
	if len(shares) == 1 {
		copy(out, tensor.Data[T](shares[0].Value))
		return
	}
	for i, s := range shares {
		weight := T(1)
		if how == ops.MergeMean {
			weight = T(s.Rows) / T(total)
		}
		if i == 0 {
			kernel.Scale(out, tensor.Data[T](s.Value), weight, 0, true)
			continue
		}
		kernel.Axpy(out, tensor.Data[T](s.Value), weight)
	}
}

// State merges values of persistable state that each trainer computed from the same old value: their mean weighted by rows, the old
// value plus every trainer's change, or the first of them. old, which only the sum reads, is not dst. With one share the result is that
// share, bit for bit.
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
		return fault.E(fault.TypeMismatch, fault.Gotf("state of %v", dst), fault.Want("a number"))
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
