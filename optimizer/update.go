package optimizer

import "github.com/edl-go/edl/layers"

// An Update is the update of one parameter while a Rule builds it. What the rule appends runs once per step, after the
// backward pass; in a distributed job it runs where the parameter lives.
type Update struct {
	Param layers.Variable
	Grad  layers.Variable // of Param's shape, clipped and regularized
	Rate  layers.Variable // learning rate [1], times the factor that the parameter's settings ask for

	model *layers.Model
}

// State returns a new variable of Param's shape that lives from step to step and starts with one value. It is called
// <parameter>_<name>_0, as in Fluid. When a parameter is sliced over servers, so is its state.
func (u *Update) State(name string, initial float64) layers.Variable {
	return u.state(name, u.Param.Dims(), initial)
}

// Number is State with one element, [1].
func (u *Update) Number(name string, initial float64) layers.Variable {
	return u.state(name, []int64{1}, initial)
}

func (u *Update) state(name string, dims []int64, initial float64) layers.Variable {
	return u.model.State(u.model.UniqueName(u.Param.Name()+"_"+name), u.Param.DType(), dims, layers.Constant(initial))
}

// Set gives Param or a state its new value.
func (u *Update) Set(variable, value layers.Variable) { layers.AssignTo(variable, value) }

// Op appends an op that writes to variables that exist, such as Param and states.
func (u *Update) Op(opType string, in layers.In, attrs layers.Attrs, out layers.In) {
	layers.OpInto(u.model, opType, in, attrs, out)
}

// one is a slot of one variable.
func one(v layers.Variable) []layers.Variable { return []layers.Variable{v} }

// step appends an update op of Fluid's form: Param, Grad and LearningRate in, ParamOut out, and states that go in and come out under the
// given slots.
func (u *Update) step(opType string, attrs layers.Attrs, states ...state) {
	in := layers.In{"Param": one(u.Param), "Grad": one(u.Grad)}
	if u.Rate.OK() {
		in["LearningRate"] = one(u.Rate)
	}
	out := layers.In{"ParamOut": one(u.Param)}
	for _, s := range states {
		in[s.in] = one(s.variable)
		if s.out != "" {
			out[s.out] = one(s.variable)
		}
	}
	u.Op(opType, in, attrs, out)
}

// A state is a variable with the slots of an update op that read and write it.
type state struct {
	in, out  string
	variable layers.Variable
}

// power keeps beta to the power of the step: it starts at beta and next multiplies it after the update.
func (u *Update) power(name string, beta float64) (power state, next func()) {
	v := u.Number(name, beta)
	return state{variable: v}, func() {
		u.Op("scale", layers.In{"X": one(v)}, layers.Attrs{"scale": beta}, layers.In{"Out": one(v)})
	}
}
