package optimizer

import (
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// An Optimizer appends to a model what makes it learn.
type Optimizer struct {
	rule   Rule
	rate   source
	noRate bool // the rule does not read the rate
	settings
	mistake *fault.Fault // of the construction; reported where it is used
}

// A Rule builds the update of one parameter. It is called once for each.
type Rule func(*Update)

// Custom returns an optimizer that updates every parameter by rule.
//
// Options: Regularize, ClipGradients.
func Custom[R Rate](rate R, rule Rule, opts ...Option) *Optimizer {
	return build(rate, "Custom", opts, nil, func(settings) Rule { return rule })
}

// build makes an optimizer whose rule depends on options. takes lists the options beside those that every optimizer takes.
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

// Minimize appends the backward pass of loss and the updates of the given parameters, all trainable ones when none is given.
// It returns the parameters with their gradients as the backward pass computed them.
func (o *Optimizer) Minimize(loss layers.Variable, parameters ...layers.Variable) []Pair {
	if o.mistake != nil && loss.Model() != nil {
		loss.Model().Report(o.mistake)
		return nil
	}
	pairs := AppendBackward(loss, parameters...)
	o.Apply(pairs)
	return pairs
}

// Apply appends the learning rate, clipping, regularization and the updates for gradients that exist. Use it after
// AppendBackward when the gradients are to be changed in between.
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
		if rate = o.rate.build(m, pairs[0].Param.DType()); !rate.OK() {
			return
		}
	}
	pairs = slices.Clone(pairs)
	if o.clip != nil {
		pairs = o.clip(pairs)
	}
	for _, p := range pairs {
		p = o.regularize(p)
		p.Build(func() { o.update(p, rate) })
	}
}

// regularize adds the gradient of the penalty: that of the parameter's settings, else that of the optimizer.
func (o *Optimizer) regularize(p Pair) Pair {
	penalty := p.Param.Model().Settings(p.Param.Name()).Regularizer
	if penalty == nil {
		penalty = o.penalty
	}
	if penalty != nil && p.Grad.IsSparse() {
		p.Param.Model().Report(fault.E(fault.Unsupported, fault.Var(p.Param.Name()), fault.Got("a penalty on a parameter with a sparse gradient"),
			fault.Want("a dense gradient"),
			fault.Hint("give the penalty to the other parameters alone, or look the table up without layers.Sparse"), fault.Line(userLine())))
		return p
	}
	if penalty != nil {
		p.Build(func() { p.Grad = layers.Sums([]layers.Variable{p.Grad, penalty(p.Param)}) })
	}
	return p
}

func (o *Optimizer) update(p Pair, rate layers.Variable) {
	m := p.Param.Model()
	u := &Update{Param: p.Param, Grad: p.Grad, model: m}
	if !o.noRate {
		u.Rate = rate
		if rate.DType() != p.Param.DType() {
			u.Rate = layers.Cast(u.Rate, p.Param.DType())
		}
		if factor := m.Settings(p.Param.Name()).LearningRate; factor != 1 {
			u.Rate = layers.Scale(u.Rate, factor, 0)
		}
	}
	o.rule(u)
}

func userLine() string {
	return program.CallerLine("github.com/edl-go/edl/layers", "github.com/edl-go/edl/optimizer")
}
