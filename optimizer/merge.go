package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
)

// GradientMerge lets inner take one step for every k: it adds up the gradients of k steps, and inner updates the parameters with their mean. So k batches train as one that is k
// times as large, up to the grouping of sums, where the loss is a mean over the batch. inner clips and regularizes the mean. Schedules and what the forward pass
// updates, such as moving statistics, count every step. All options are those of inner, which GradientMerge leaves as it is. (Fluid: GradientMergeOptimizer.)
//
// Every step computes the update and keeps or drops it by a factor that is exactly 0 or 1, so no control flow is needed, and parameters stay sliceable.
func GradientMerge(inner *Optimizer, k int) *Optimizer {
	o := *inner
	if k < 1 || k >= 1<<24 {
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer GradientMerge"), fault.Gotf("k %d", k), fault.Want("1 to 2^24"), fault.Line(userLine()))
		return &o
	}
	if o.every = k * max(1, inner.every); o.every >= 1<<24 {
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer GradientMerge"), fault.Gotf("k %d of steps that are merged already", k), fault.Want("up to 2^24 in all"), fault.Line(userLine()))
	}
	return &o
}

// A merging knows of one parameter whether its update counts in this step: due is 1 or 0.
type merging struct{ due layers.Variable }

// merge replaces gradients by the means over the steps since the last update. They mean nothing in steps whose update does not count.
func (o *Optimizer) merge(pairs []Pair) ([]Pair, map[string]merging) {
	gates := map[string]merging{}
	for i, p := range pairs {
		if refuseStored(p, "GradientMerge") {
			continue
		}
		p.Build(func() {
			m, dtype := p.Param.Model(), p.Param.DType()
			state := func(name string, dims []int64) layers.Variable {
				return m.State(m.UniqueName(p.Param.Name()+"_"+name), dtype, dims, layers.Constant(0))
			}
			sum, count := state("gradient_merge", p.Param.Dims()), state("gradient_merge_count", []int64{1})
			next := layers.Scale(count, 1, 1)
			early := indicator(next, float64(o.every)) // 1 in steps whose update does not count
			total := layers.Sums([]layers.Variable{sum, p.Grad})
			layers.AssignTo(sum, layers.Mul(total, early))
			layers.AssignTo(count, layers.Mul(next, early))
			pairs[i].Grad = layers.Scale(total, 1/float64(o.every), 0)
			gates[p.Param.Name()] = merging{layers.Scale(early, -1, 1)}
		})
	}
	return pairs, gates
}

// gated builds an update that counts only where it is due: it keeps the parameter and each state as they were before, and brings them back elsewhere.
func (g merging) gated(rule Rule, u *Update) {
	if !g.due.OK() {
		rule(u)
		return
	}
	type kept struct{ variable, before layers.Variable }
	var all []kept
	keep := func(v layers.Variable) { all = append(all, kept{v, layers.Assign(v)}) }
	keep(u.Param)
	u.created = keep
	rule(u)
	for _, k := range all {
		u.Set(k.variable, choose(g.due, k.variable, k.before))
	}
}
