package optimizer

import (
	"fmt"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A LossScaling says how the scale of a loss changes. Fields of 0 stand for what Fluid has by default.
type LossScaling struct {
	Initial   float64 // scale of the first step, above 0; default 32768
	GrowAfter int     // finite steps in a row after which the scale grows; default 1000
	Growth    float64 // what it grows by, above 1; default 2
	DropAfter int     // steps in a row that are not finite after which it shrinks; default 2
	Drop      float64 // what it shrinks by, between 0 and 1; default 0.8
}

// ScaleLoss lets inner minimize a loss times a scale, and takes the scale out of the gradients before inner clips and uses them. A step in which an element of any
// gradient is not finite counts as one whose gradients are all 0. EDL computes in float32 and needs no scale for small gradients, but such a step
// then ruins no parameter. All options are those of inner, which ScaleLoss leaves as it is. On a cluster all parameters are on one server, which sees all gradients.
// (Fluid: mixed_precision.decorate.)
func ScaleLoss(inner *Optimizer, s LossScaling) *Optimizer {
	o := *inner
	for _, d := range []struct {
		field *float64
		value float64
	}{{&s.Initial, 1 << 15}, {&s.Growth, 2}, {&s.Drop, 0.8}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if s.GrowAfter == 0 {
		s.GrowAfter = 1000
	}
	if s.DropAfter == 0 {
		s.DropAfter = 2
	}
	switch {
	case inner.scaling != nil:
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer ScaleLoss"), fault.Got("an optimizer that scales its loss already"), fault.Want("one that does not"), fault.Line(userLine()))
	case !(s.Initial > 0 && s.Initial <= math.MaxFloat32 && s.Growth > 1 && s.Growth <= math.MaxFloat32 && s.Drop > 0 && s.Drop < 1 && inInt32(s.GrowAfter) && inInt32(s.DropAfter)):
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer ScaleLoss"), fault.Got(fmt.Sprintf("%+v", s)),
			fault.Want("Initial above 0, Growth above 1, Drop between 0 and 1, and at least 1 step in GrowAfter and DropAfter"), fault.Line(userLine()))
	}
	o.scaling = &s
	return &o
}

func inInt32(n int) bool { return n >= 1 && n <= math.MaxInt32 }

// scaled is Minimize of a loss with a scale.
func (s LossScaling) scaled(loss layers.Variable, parameters []layers.Variable) []Pair {
	m := loss.Model()
	if m == nil || !loss.OK() {
		return nil
	}
	state := func(name string, dtype tensor.DType, initial float64) []layers.Variable {
		return one(m.State(m.UniqueName(name), dtype, []int64{1}, layers.Constant(initial)))
	}
	scale, good, bad := state("loss_scaling", loss.DType(), s.Initial), state("num_good_steps", tensor.Int32, 0), state("num_bad_steps", tensor.Int32, 0)
	pairs := AppendBackward(layers.Mul(loss, scale[0]), parameters...)
	if len(pairs) == 0 {
		return nil
	}
	var grads []layers.Variable
	for _, p := range pairs {
		grads = append(grads, p.Grad)
	}
	m.As(program.RoleOptimize, nil, func() {
		found := layers.NewVariables(m, "find_infinite_scale", 1)
		layers.OpInto(m, "check_finite_and_unscale", layers.In{"X": grads, "Scale": scale}, nil, layers.In{"Out": grads, "FoundInfinite": found})
		layers.OpInto(m, "update_loss_scaling", layers.In{"X": grads, "FoundInfinite": found, "PrevLossScaling": scale, "InGoodSteps": good, "InBadSteps": bad},
			layers.Attrs{"incr_every_n_steps": s.GrowAfter, "decr_every_n_nan_or_inf": s.DropAfter, "incr_ratio": s.Growth, "decr_ratio": s.Drop},
			layers.In{"Out": grads, "LossScaling": scale, "OutGoodSteps": good, "OutBadSteps": bad})
	})
	return pairs
}
