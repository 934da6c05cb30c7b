package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
)

// An Average keeps a mean of each parameter over the steps. A model often predicts better with the means than with the parameters of the last step.
type Average struct {
	means []mean
}

// A mean names the variables of one parameter.
type mean struct{ param, sum, share string }

// ExponentialMovingAverage appends, after the updates of an optimizer, what keeps a decaying mean of each parameter: s = decay s + (1-decay) p. pairs are those that
// Minimize returned. The mean is s/(1 - decayᵗ) after step t, so that the zeros with which s begins do not count. (Fluid: ExponentialMovingAverage.)
func ExponentialMovingAverage(pairs []Pair, decay float64) *Average {
	a := &Average{}
	for _, p := range pairs {
		m := p.Param.Model()
		if m == nil {
			continue
		}
		if !(decay >= 0 && decay < 1) {
			m.Report(fault.E(fault.InvalidArgument, fault.At("ExponentialMovingAverage"), fault.Gotf("decay %v", decay), fault.Want("at least 0 and below 1"),
				fault.Line(userLine())))
			return a
		}
		p.Build(func() {
			u := &Update{Param: p.Param, model: m}
			sum, rest := u.State("ema", 0), u.Number("ema_rest", 1)
			u.Set(sum, layers.Sums([]layers.Variable{layers.Scale(sum, decay, 0), layers.Scale(p.Param, 1-decay, 0)}))
			u.Op("scale", layers.In{"X": one(rest)}, layers.Attrs{"scale": decay}, layers.In{"Out": one(rest)})
			a.means = append(a.means, mean{p.Param.Name(), sum.Name(), rest.Name()})
		})
	}
	return a
}

// Apply returns the test form of a program that the model has made (Program.CloneForTest), which computes with the means in place of the parameters. An executor
// runs it after steps of the program, and changes neither. Before the first step there is no mean: the results are NaN.
func (a *Average) Apply(p *program.Program) (*program.Program, error) {
	c := p.CloneForTest()
	b := c.Global()
	var head []*program.Op
	for _, m := range a.means {
		for _, name := range []string{m.param, m.sum, m.share} {
			v, ok := p.Global().Var(name)
			if !ok {
				return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no such variable in the program"), fault.Want("the program of the model whose parameters are averaged"))
			}
			b.EnsureVar(v.Copy(""))
		}
		param, _ := b.Var(m.param)
		value, weight := m.param+"@MEAN", m.share+"@WEIGHT"
		b.EnsureVar(program.Var{Name: value, Kind: program.LoDTensor, DType: param.DType, Dims: param.Dims})
		b.EnsureVar(program.Var{Name: weight, Kind: program.LoDTensor, DType: param.DType, Dims: []int64{1}})
		for _, block := range c.Blocks {
			for _, op := range block.Ops {
				for _, names := range op.Inputs {
					for i, name := range names {
						if name == m.param {
							names[i] = value
						}
					}
				}
			}
		}
		head = append(head,
			meanOp("scale", map[string]string{"X": m.share}, weight, map[string]program.Attr{"scale": float32(-1), "bias": float32(1)}),
			meanOp("elementwise_div", map[string]string{"X": m.sum, "Y": weight}, value, nil))
	}
	b.Insert(0, head...)
	return c, nil
}

// meanOp makes an op of one variable a slot.
func meanOp(opType string, in map[string]string, out string, attrs map[string]program.Attr) *program.Op {
	op := &program.Op{Type: opType, Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {out}}, Attrs: attrs}
	for slot, name := range in {
		op.Inputs[slot] = []string{name}
	}
	return op
}
