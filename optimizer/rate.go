package optimizer

import (
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A source is where a learning rate comes from.
type source struct {
	constant float64
	schedule Schedule // nil for a constant
}

// Rate is what a learning rate may be: a number or a Schedule.
type Rate interface{ float64 | int | Schedule }

func sourceOf[R Rate](rate R) source {
	switch r := any(rate).(type) {
	case float64:
		return source{constant: r}
	case int:
		return source{constant: float64(r)}
	case Schedule:
		if r == nil {
			return source{constant: math.NaN()} // build refuses it
		}
		return source{schedule: r}
	}
	return source{}
}

// build returns the variable of the learning rate, [1]. A constant is a persistable variable with an initial value, so
// that it can be changed by feeding or loading.
func (s source) build(m *layers.Model, dtype tensor.DType) layers.Variable {
	if s.schedule == nil && (math.IsNaN(s.constant) || math.IsInf(s.constant, 0)) {
		m.Report(fault.E(fault.InvalidArgument, fault.Gotf("a learning rate %v", s.constant),
			fault.Want("a finite number, or a schedule that is not nil")))
		return layers.Variable{}
	}
	if s.schedule == nil {
		return m.State(m.UniqueName("learning_rate"), dtype, []int64{1}, layers.Constant(s.constant))
	}
	var rate layers.Variable
	m.As(program.RoleLRSched, nil, func() { rate = s.schedule(step(m, dtype)) })
	if rate.OK() && !slices.Equal(rate.Dims(), []int64{1}) {
		m.Report(fault.E(fault.ShapeMismatch, fault.Var(rate.Name()), fault.Gotf("a learning rate %v", rate), fault.Want("dims [1]")))
		return layers.Variable{}
	}
	return rate
}
