package optimizer

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
)

// Lookahead lets inner take k steps and then goes only the share alpha of the way: slow += alpha (p - slow); p = slow. slow begins as the parameter does. All
// options are those of inner, which Lookahead leaves as it is. (Zhang et al. 2019; Fluid: LookaheadOptimizer.)
//
// Every step computes both cases and chooses by a factor that is exactly 0 or 1, so no control flow is needed, and parameters stay sliceable.
func Lookahead(inner *Optimizer, alpha float64, k int) *Optimizer {
	o := *inner
	if !(alpha >= 0 && alpha <= 1) || k < 1 || k >= 1<<24 || math.IsNaN(alpha) {
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer Lookahead"), fault.Gotf("alpha %v and k %d", alpha, k),
			fault.Want("alpha from 0 to 1, and k from 1 to 2^24"), fault.Line(userLine()))
		return &o
	}
	o.rule = func(u *Update) {
		if refuseStored(Pair{Param: u.Param}, "Lookahead") {
			return
		}
		slow, fresh, count := u.State("slow", 0), u.Number("slow_fresh", 1), u.Number("slow_count", 0)
		u.Set(slow, choose(fresh, u.Param, slow))
		u.Set(fresh, layers.Scale(fresh, 0, 0))
		inner.rule(u)
		next := layers.Scale(count, 1, 1)
		due := layers.Scale(indicator(next, float64(k)), -1, 1)
		u.Set(count, layers.Mul(next, layers.Scale(due, -1, 1)))
		ahead := layers.Sums([]layers.Variable{layers.Scale(slow, 1-alpha, 0), layers.Scale(u.Param, alpha, 0)})
		u.Set(slow, choose(due, ahead, slow))
		u.Set(u.Param, choose(due, slow, u.Param))
	}
	return &o
}

// choose is a where factor [1] is 1, and b where it is 0.
func choose(factor, a, b layers.Variable) layers.Variable {
	return layers.Sums([]layers.Variable{layers.Mul(a, factor), layers.Mul(b, layers.Scale(factor, -1, 1))})
}
