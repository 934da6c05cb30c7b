package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An Average keeps a mean of each parameter over the steps. A model often predicts better with the means than with the parameters of the last step.
type Average struct {
	means []mean
}

// A mean says how the mean of one parameter is computed.
type mean struct {
	param string
	kept  []string      // the states that it is computed from
	ops   []*program.Op // the last one writes the mean
	made  []string      // their results but the last
}

// ExponentialMovingAverage appends, after the updates of an optimizer, what keeps a decaying mean of each parameter: s = decay s + (1-decay) p. pairs are those that
// Minimize returned. The mean is s/(1 - decayᵗ) after step t, so that the zeros with which s begins do not count. (Fluid: ExponentialMovingAverage.)
func ExponentialMovingAverage(pairs []Pair, decay float64) *Average {
	a := &Average{}
	for _, p := range pairs {
		m := p.Param.Model()
		if m == nil || refuseGrown(p, "ExponentialMovingAverage") || refuseStored(p, "ExponentialMovingAverage") {
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
			weight := rest.Name() + "@WEIGHT"
			a.means = append(a.means, mean{p.Param.Name(), []string{sum.Name(), rest.Name()}, []*program.Op{
				meanOp("scale", map[string][]string{"X": {rest.Name()}}, weight, map[string]program.Attr{"scale": float32(-1), "bias": float32(1)}),
				meanOp("elementwise_div", map[string][]string{"X": {sum.Name()}, "Y": {weight}}, meanName(p.Param.Name()), nil),
			}, []string{weight}})
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
		for _, name := range append(m.kept, m.param) {
			v, ok := p.Global().Var(name)
			if !ok {
				return nil, fault.E(fault.NotFound, fault.Var(name), fault.Got("no such variable in the program"), fault.Want("the program of the model whose parameters are averaged"))
			}
			b.EnsureVar(v.Copy(""))
		}
		param, _ := b.Var(m.param)
		value := meanName(m.param)
		b.EnsureVar(program.Var{Name: value, Kind: program.LoDTensor, DType: param.DType, Dims: param.Dims})
		for _, name := range m.made {
			b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: param.DType, Dims: param.Dims}) // a hint: inference finds the dims
		}
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
		for _, op := range m.ops {
			head = append(head, op.Clone())
		}
	}
	b.Insert(0, head...)
	return c, nil
}

// meanName is the variable of the mean of a parameter in programs that Apply makes.
func meanName(param string) string { return param + "@MEAN" }

// meanOp makes an op with one output.
func meanOp(opType string, in map[string][]string, out string, attrs map[string]program.Attr) *program.Op {
	return &program.Op{Type: opType, Inputs: in, Outputs: map[string][]string{"Out": {out}}, Attrs: attrs}
}

// ModelAverage appends, after the updates of an optimizer, what keeps the mean of each parameter over a window of the last steps. The window is share of all
// steps, but at least least and at most most steps; when it is full, the next one begins, and the mean is over both. pairs are those that Minimize returned.
// (Fluid: ModelAverage. Op: average_accumulates.)
func ModelAverage(pairs []Pair, share float64, least, most int) *Average {
	a := &Average{}
	for _, p := range pairs {
		m := p.Param.Model()
		if m == nil || refuseGrown(p, "ModelAverage") || refuseStored(p, "ModelAverage") {
			continue
		}
		p.Build(func() {
			u := &Update{Param: p.Param, model: m}
			in, out := layers.In{"param": one(p.Param)}, layers.In{}
			var sums, counts []string
			for _, name := range []string{"sum_1", "sum_2", "sum_3"} {
				v := u.State(name, 0)
				in["in_"+name], out["out_"+name] = one(v), one(v)
				sums = append(sums, v.Name())
			}
			for _, name := range []string{"num_accumulates", "old_num_accumulates", "num_updates"} {
				v := m.State(m.UniqueName(p.Param.Name()+"_"+name), tensor.Int64, []int64{1}, layers.Constant(0))
				in["in_"+name], out["out_"+name] = one(v), one(v)
				counts = append(counts, v.Name())
			}
			u.Op("average_accumulates", in, layers.Attrs{"average_window": share, "min_average_window": least, "max_average_window": most}, out)
			dtype, name := int32(p.Param.DType()), p.Param.Name()
			steps := []string{counts[0] + "@FLOAT", counts[1] + "@FLOAT"}
			total, weight := name+"@SUM", name+"@WEIGHT"
			a.means = append(a.means, mean{name, append(sums, counts[:2]...), []*program.Op{
				meanOp("cast", map[string][]string{"X": {counts[0]}}, steps[0], map[string]program.Attr{"in_dtype": int32(tensor.Int64), "out_dtype": dtype}),
				meanOp("cast", map[string][]string{"X": {counts[1]}}, steps[1], map[string]program.Attr{"in_dtype": int32(tensor.Int64), "out_dtype": dtype}),
				meanOp("sum", map[string][]string{"X": steps}, weight, nil),
				meanOp("sum", map[string][]string{"X": sums}, total, nil),
				meanOp("elementwise_div", map[string][]string{"X": {total}, "Y": {weight}}, meanName(name), nil),
			}, append(steps, weight, total)})
		})
	}
	return a
}
