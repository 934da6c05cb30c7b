package reference

import (
	"maps"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/tensor"
)

// residualOf names the residual of one trainer for one gradient.
type residualOf struct {
	trainer  int
	gradient string
}

// beginResiduals drops the residuals where a generation begins with the round. before is how many trainers the last round had.
func (r *round) beginResiduals(before int) {
	if before != r.shared || r.begins != nil && r.begins(r.number) {
		r.residual = nil
	}
}

// keepResiduals makes the residuals after the round those of the trainers. A trainer without rows keeps its own.
func (r *round) keepResiduals() {
	if r.residual == nil {
		r.residual = map[residualOf]*tensor.Tensor{}
	}
	maps.Copy(r.residual, r.next)
}

// halves is the form of gradients that are not selected from.
func (r *round) halves() compress.Form {
	if r.grads.Selects() {
		return compress.None
	}
	return r.grads
}

// selects returns the rows of the slices of a gradient that trainers send entries of, nil for any other.
func (r *round) selects(name string, gradient *tensor.Tensor) []int64 {
	dims := gradient.Dims()
	if !r.grads.Selects() || gradient.DType() != tensor.Float32 || len(dims) == 0 || r.grads.Of(int64(gradient.Len())) == compress.None {
		return nil
	}
	if r.slices == nil {
		return dims[:1:1]
	}
	return r.slices(name)
}

// selected merges what the ranks send of the slices of a gradient into merged.
func (r *round) selected(merged *tensor.Tensor, name string, rows []int64, shares []share) error {
	if r.groups != nil {
		return fault.E(fault.Unsupported, fault.Got("groups of trainers that compress"), fault.Want("one or the other"))
	}
	left := make([]*tensor.Tensor, len(shares))
	for i, s := range shares {
		of := residualOf{s.trainer, name}
		if r.residual[of] != nil {
			left[i] = r.residual[of].Clone()
		} else {
			var err error
			if left[i], err = tensor.New(tensor.Float32, merged.Dims()...); err != nil {
				return err
			}
		}
		r.next[of] = left[i]
	}
	from := int64(0)
	for _, n := range rows {
		slice, err := merged.Rows(from, from+n)
		if err != nil {
			return err
		}
		sent := make([]merge.Share, len(shares))
		for i, s := range shares {
			residual, err := left[i].Rows(from, from+n)
			if err != nil {
				return err
			}
			gradient, err := s.values[name].Rows(from, from+n)
			if err == nil && s.void { // nothing of it is merged, and its residual stays
				residual, err = tensor.New(tensor.Float32, residual.Dims()...)
				gradient = residual
			}
			if err != nil {
				return err
			}
			sent[i].Rows, sent[i].Weight = s.rows, s.weight
			if sent[i].Value, err = compress.Selected(residual.Float32s(), gradient.Float32s(), r.grads); err != nil {
				return err
			}
		}
		if err := merge.Gradients(slice, sent, r.merge); err != nil {
			return fault.E(fault.KindOf(err), fault.Var(name), fault.Cause(err))
		}
		from += n
	}
	if dims := merged.Dims(); from != dims[0] {
		return fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("slices of %d rows", from), fault.Wantf("all of %d", dims[0]))
	}
	return nil
}
