package optim

import (
	"slices"

	"github.com/edl-go/edl/ops"
)

// infer checks that gradient and accumulators have the parameter's dims, that numbers have one element, and that all
// are of one type; every output is like the input that it updates.
func (r *rule) infer(s *ops.Shapes) error {
	if !s.Wants(paramOutSlot) {
		return missing(paramOutSlot)
	}
	shaped := []string{paramSlot, gradSlot}
	for _, a := range r.accumulators {
		needed := a.needed(s)
		if needed && !s.Wants(a.out) {
			return missing(a.out)
		}
		if (needed || s.Wants(a.out)) && !s.Has(a.in) {
			return missing(a.in)
		}
		if s.Has(a.in) {
			shaped = append(shaped, a.in)
		}
	}
	numbers := r.numberSlots()
	if err := s.IsFloat(paramSlot); err != nil {
		return err
	}
	if err := s.SameType(slices.Concat(shaped, numbers)...); err != nil {
		return err
	}
	want := s.In(paramSlot).Dims
	for _, slot := range shaped {
		if !ops.Compatible(s.In(slot).Dims, want) {
			return s.Errorf(slot, "%v, the dims of Param", want)
		}
	}
	for _, slot := range numbers {
		if ops.Product(s.In(slot).Dims) != 1 {
			return s.Errorf(slot, "one element")
		}
	}
	s.Like(paramOutSlot, paramSlot)
	for _, a := range r.accumulators {
		s.Like(a.out, a.in)
	}
	return nil
}
