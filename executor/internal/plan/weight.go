package plan

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// A weight is what a run weighs in means over the parts of a batch; see ops.WeightOf.
type weight struct {
	name string
	rows int64          // known when the plan is compiled; 0 for none
	sum  *tensor.Tensor // a scalar that the steps before the update compute; nil for none
	late *tensor.Tensor // whose rows are known when the steps before the update have run; nil for none
}

// newWeight weighs by the value of a variable or by its rows. v may be nil.
func newWeight(v *variable, value bool) weight {
	switch {
	case v == nil:
		return weight{}
	case value:
		return weight{name: v.name, sum: v.tensor}
	case v.place == dynamic:
		return weight{name: v.name, late: v.tensor}
	case len(v.meta.Dims) > 0:
		return weight{name: v.name, rows: v.meta.Dims[0]}
	}
	return weight{}
}

// largestWeight is the largest sum of weights: a float32 holds every whole number up to it.
const largestWeight = 1 << 24

// Weight returns what the last run weighs.
func (p *Plan) Weight() (int64, error) { return p.weight.value(&p.step) }

// value returns what a step weighs. It is a whole number, because trainers add up weights, and the sum must not depend on their order.
func (w *weight) value(step *ops.Step) (int64, error) {
	switch {
	case w.late != nil && len(w.late.Dims()) > 0:
		return w.late.Dims()[0], nil
	case w.sum == nil:
		return w.rows, nil
	}
	var sum float64
	switch t := w.sum; t.DType() {
	case tensor.Float32:
		sum = float64(t.Float32s()[0])
	case tensor.Float64:
		sum = t.Float64s()[0]
	case tensor.Int64:
		sum = float64(t.Int64s()[0])
	}
	if sum != math.Trunc(sum) || sum < 0 || sum > largestWeight {
		return 0, fault.E(fault.Unsupported, fault.Var(w.name), fault.At(fmt.Sprintf("step %d", step.Round)),
			fault.Got(fmt.Sprintf("weights of rows that add up to %g", sum)),
			fault.Wantf("a whole number of at most %d, by which a trainer weighs its part of the batch", largestWeight),
			fault.Hint("use whole weights, such as 0 for padding and 1 for the rest, or train on one machine"))
	}
	return int64(sum), nil
}

// tell puts the weight of a run that has come to its update into its step, for what it exchanges with other machines.
func (w *weight) tell(step, caller *ops.Step) (err error) {
	if w.sum != nil || w.late != nil {
		caller.Weight, err = w.value(step)
		caller.Void = w.isVoid(step)
		step.Weight, step.Void = caller.Weight, caller.Void
	}
	return err
}

// isVoid reports whether the weights of a part of a batch add up to 0. What has been divided by them is no number, and the part counts for nothing.
func (w *weight) isVoid(step *ops.Step) bool { return step.Part && w.isZero(step) }

// lacksMean reports whether the weights of a whole batch add up to 0. Nothing can be made of it, whether numbers must be finite or not.
func (w *weight) lacksMean(step *ops.Step) bool { return !step.Part && w.isZero(step) }

func (w *weight) isZero(step *ops.Step) bool {
	if w.sum == nil {
		return false
	}
	sum, err := w.value(step)
	return err == nil && sum == 0
}
