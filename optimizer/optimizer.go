package optimizer

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// An Optimizer appends the ops that train a model.
type Optimizer struct {
	rule   Rule
	rate   source
	noRate bool // the rule does not read the learning rate
	settings
	every   int          // steps whose gradients make one update; below 2 for each (merge.go)
	scaling *LossScaling // nil for a loss without a scale (scaling.go)
	mistake *fault.Fault // of the constructor call; Minimize and Apply report it
}

// A Rule builds the update of one parameter. The optimizer calls it once for each.
type Rule func(*Update)

// Custom returns an optimizer that updates every parameter by rule.
//
// Options: Regularize, ClipGradients.
func Custom[R Rate](rate R, rule Rule, opts ...Option) *Optimizer {
	return build(rate, "Custom", opts, nil, func(settings) Rule { return rule })
}

// build makes an optimizer whose rule depends on options. takes lists the options besides those of every optimizer.
func build[R Rate](rate R, name string, opts []Option, takes []string, rule func(settings) Rule) *Optimizer {
	o := &Optimizer{rate: sourceOf(rate), settings: defaults()}
	takes = append([]string{"Regularize", "ClipGradients"}, takes...)
	for _, opt := range opts {
		if !slices.Contains(takes, opt.name) {
			o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer "+name), fault.Got("option "+opt.name),
				fault.Want("one of "+strings.Join(takes, ", ")), fault.Line(userLine()))
			continue
		}
		opt.set(&o.settings)
	}
	o.rule = rule(o.settings)
	if o.rule == nil {
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer "+name), fault.Got("no rule"),
			fault.Want("a function that builds an update"), fault.Line(userLine()))
	}
	return o
}

// Minimize appends the backward pass of loss and the updates of the given parameters. Without parameters it takes all trainable ones. It returns
// the parameters with the gradients that the backward pass computes.
func (o *Optimizer) Minimize(loss layers.Variable, parameters ...layers.Variable) []Pair {
	if o.mistake != nil && loss.Model() != nil {
		loss.Model().Report(o.mistake)
		return nil
	}
	var pairs []Pair
	if o.scaling != nil {
		pairs = o.scaling.scaled(loss, parameters)
	} else {
		pairs = AppendBackward(loss, parameters...)
	}
	o.Apply(pairs)
	return pairs
}

// Apply appends the learning rate, clipping, regularization and the updates for existing gradients. Use it after AppendBackward if you change
// gradients in between.
func (o *Optimizer) Apply(pairs []Pair) {
	if len(pairs) == 0 || !pairs[0].Param.OK() {
		return
	}
	m := pairs[0].Param.Model()
	if o.mistake != nil {
		m.Report(o.mistake)
		return
	}
	var rate layers.Variable
	if !o.noRate {
		if rate = o.rate.build(m, computedAs(pairs[0].Param)); !rate.OK() {
			return
		}
	}
	pairs = slices.Clone(pairs)
	tables := map[string]*grown{}
	for i, p := range pairs {
		pairs[i], tables[p.Param.Name()] = insertKeys(p)
	}
	var gates map[string]merging
	if o.every > 1 {
		pairs, gates = o.merge(pairs)
	}
	if o.clip != nil {
		pairs = o.clip(pairs)
	}
	for _, p := range pairs {
		p = o.regularize(p)
		p.Build(func() {
			u := o.update(p, rate, gates[p.Param.Name()])
			if t := tables[p.Param.Name()]; t != nil {
				t.end(u)
			}
		})
	}
}

// regularize adds the gradient of the penalty. The regularizer of the parameter comes before that of the optimizer. The penalty is on all rows of a table,
// so a sparse gradient becomes dense, as in Fluid since 1.2. (Before, Fluid's penalty was on rows of the gradient, which is no penalty on the parameter.)
func (o *Optimizer) regularize(p Pair) Pair {
	penalty := p.Param.Model().Settings(p.Param.Name()).Regularizer
	if penalty == nil {
		penalty = o.penalty
	}
	if penalty != nil {
		p.Build(func() {
			param := p.Param
			if as := computedAs(param); as != param.DType() {
				param = layers.Cast(param, as)
			}
			p.Grad = layers.Sums([]layers.Variable{p.Grad, penalty(param)})
		})
	}
	return p
}

func (o *Optimizer) update(p Pair, rate layers.Variable, gate merging) *Update {
	m := p.Param.Model()
	u := &Update{Param: p.Param, Grad: p.Grad, model: m}
	if !o.noRate {
		u.Rate = rate
		if as := computedAs(p.Param); rate.DType() != as {
			u.Rate = layers.Cast(u.Rate, as)
		}
		if factor := m.Settings(p.Param.Name()).LearningRate; factor != 1 {
			u.Rate = layers.Scale(u.Rate, factor, 0)
		}
	}
	gate.gated(o.rule, u)
	return u
}

func userLine() string {
	return program.CallerLine("github.com/edl-go/edl/layers", "github.com/edl-go/edl/optimizer")
}

// A Pair is a parameter with its gradient. Clipping and regularization replace the gradient.
type Pair struct {
	Param layers.Variable
	Grad  layers.Variable
}

// Build runs build. The ops that build appends get the role of an update of the pair's parameter.
func (p Pair) Build(build func()) { buildFor([]Pair{p}, build) }

// buildFor is Build for ops that serve several parameters. It builds nothing without pairs of a model.
func buildFor(pairs []Pair, build func()) {
	if len(pairs) == 0 || pairs[0].Param.Model() == nil {
		return
	}
	var vars []string
	for _, p := range pairs {
		vars = append(vars, p.Param.Name(), program.GradName(p.Param.Name()))
	}
	pairs[0].Param.Model().As(program.RoleOptimize, vars, build)
}

func asFault(err error) *fault.Fault {
	var f *fault.Fault
	if errors.As(err, &f) {
		return f
	}
	return fault.E(fault.Internal, fault.Cause(err))
}

// An Update is the update of one parameter while a Rule builds it. The ops of the rule run once per step, after the backward pass. In a distributed
// job they run on the pserver that keeps the parameter.
type Update struct {
	Param layers.Variable
	Grad  layers.Variable // of the shape of Param, clipped and regularized
	Rate  layers.Variable // learning rate [1], times the factor in the settings of the parameter

	model   *layers.Model
	states  []layers.Variable
	initial []float64             // of states
	created func(layers.Variable) // told of each state before the rule uses it; nil if nobody asks
}

// State returns a new variable of the shape of Param that keeps its value from step to step, of float32 for a table that is stored as bfloat16. It starts with one value. It is called
// <parameter>_<name>_0, as in Fluid. If a parameter is sliced over servers, so is its state.
func (u *Update) State(name string, initial float64) layers.Variable {
	return u.state(name, u.Param.Dims(), initial)
}

// Number is State with one element, [1].
func (u *Update) Number(name string, initial float64) layers.Variable {
	return u.state(name, []int64{1}, initial)
}

func (u *Update) state(name string, dims []int64, initial float64) layers.Variable {
	v := u.model.State(u.model.UniqueName(u.Param.Name()+"_"+name), computedAs(u.Param), dims, layers.Constant(initial))
	u.states, u.initial = append(u.states, v), append(u.initial, initial)
	if u.created != nil {
		u.created(v)
	}
	return v
}

// Set gives Param or a state its new value.
func (u *Update) Set(variable, value layers.Variable) { layers.AssignTo(variable, value) }

// Op appends an op that writes to existing variables, such as Param and states.
func (u *Update) Op(opType string, in layers.In, attrs layers.Attrs, out layers.In) {
	layers.OpInto(u.model, opType, in, attrs, out)
}

// one is a slot of one variable.
func one(v layers.Variable) []layers.Variable { return []layers.Variable{v} }

// step appends an update op of Fluid's form: inputs Param, Grad and LearningRate, output ParamOut, and states with the given slots as inputs and
// outputs.
func (u *Update) step(opType string, attrs layers.Attrs, states ...state) {
	in := layers.In{"Param": one(u.Param), "Grad": one(u.Grad)}
	if u.Rate.OK() {
		in["LearningRate"] = one(u.Rate)
	}
	out := layers.In{"ParamOut": one(u.Param)}
	if isStored(u.Param) {
		attrs = maps.Clone(attrs)
		if attrs == nil {
			attrs = layers.Attrs{}
		}
		attrs["rounding_seed"] = u.model.SeedOf("rounding", u.Param.Name())
	}
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

// power keeps beta to the power of the step. It starts at beta. next multiplies it after the update.
func (u *Update) power(name string, beta float64) (power state, next func()) {
	v := u.Number(name, beta)
	return state{variable: v}, func() {
		u.Op("scale", layers.In{"X": one(v)}, layers.Attrs{"scale": beta}, layers.In{"Out": one(v)})
	}
}
