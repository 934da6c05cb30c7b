package optim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A wholeState has every operand of an update as a whole.
type wholeState map[string][]float64

func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

// wholeFormulas are the updates that need norms, written down from the papers and Fluid's documentation.
var wholeFormulas = []struct {
	name, opType string
	attrs        map[string]program.Attr
	update       func(s wholeState, step uint64)
}{
	{"lars", "lars_momentum", map[string]program.Attr{"mu": float32(0.5), "lars_coeff": float32(0.25), "lars_weight_decay": []float32{0.125}},
		func(s wholeState, _ uint64) {
			p, g := norm(s["Param"]), norm(s["Grad"])
			rate := s["LearningRate"][0] * 0.25 * p / (g + 0.125*p)
			for i := range s["Param"] {
				s["Velocity"][i] = 0.5*s["Velocity"][i] + rate*(s["Grad"][i]+0.125*s["Param"][i])
				s["Param"][i] -= s["Velocity"][i]
			}
		}},
	{"lars without decay", "lars_momentum", map[string]program.Attr{"mu": float32(0.5), "lars_weight_decay": float32(0)}, func(s wholeState, _ uint64) {
		for i := range s["Param"] {
			s["Velocity"][i] = 0.5*s["Velocity"][i] + s["LearningRate"][0]*s["Grad"][i]
			s["Param"][i] -= s["Velocity"][i]
		}
	}},
	{"lamb", "lamb", map[string]program.Attr{"beta1": float32(0.5), "beta2": float32(0.75), "epsilon": float32(0.125), "weight_decay": float32(0.25)},
		lambFormula(0.25, true)},
	{"lamb without decay", "lamb", map[string]program.Attr{"beta1": float32(0.5), "beta2": float32(0.75), "epsilon": float32(0.125),
		"weight_decay": float32(0), "always_adapt": false}, lambFormula(0, false)},
	{"dpsgd", "dpsgd", map[string]program.Attr{"clip": float32(0.5), "batch_size": float32(4), "sigma": float32(0.25), "seed": int64(7)},
		func(s wholeState, step uint64) {
			scale, z := math.Max(1, norm(s["Grad"])/0.5), make([]float64, 1)
			kernel.GaussianFill(z, 7, kernel.StreamOf("Param"), step, 0, 0.25)
			for i := range s["Param"] {
				s["Param"][i] -= s["LearningRate"][0] * (s["Grad"][i]/scale + z[0]/4)
			}
		}},
}

func lambFormula(decay float64, adapts bool) func(wholeState, uint64) {
	return func(s wholeState, _ uint64) {
		r := make([]float64, len(s["Param"]))
		for i, g := range s["Grad"] {
			s["Moment1"][i] = 0.5*s["Moment1"][i] + 0.5*g
			s["Moment2"][i] = 0.75*s["Moment2"][i] + 0.25*g*g
			r[i] = s["Moment1"][i]/(1-s["Beta1Pow"][0])/(math.Sqrt(s["Moment2"][i]/(1-s["Beta2Pow"][0]))+0.125) + decay*s["Param"][i]
		}
		ratio := 1.0
		if adapts {
			ratio = norm(s["Param"]) / norm(r)
		}
		for i := range r {
			s["Param"][i] -= s["LearningRate"][0] * ratio * r[i]
		}
		s["Beta1Pow"][0] *= 0.5
		s["Beta2Pow"][0] *= 0.75
	}
}

// The updates follow their formulas, on blocks that several workers share and on sparse gradients too.
func TestUpdatesWithNormsFollowTheirFormulas(t *testing.T) {
	covered := map[string]bool{}
	for _, f := range wholeFormulas {
		covered[f.opType] = true
		for dtype, tolerance := range map[tensor.DType]float64{tensor.Float32: 2e-4, tensor.Float64: 1e-9} {
			t.Run(fmt.Sprintf("%s/%v", f.name, dtype), func(t *testing.T) {
				u := newUpdate(t, f.opType, f.attrs, dtype, 7, 300, 33) // three blocks
				want := wholeState{}
				for slot, x := range u.in {
					want[slot] = float64sOf(x)
				}
				for step := range uint64(3) {
					f.update(want, step)
				}
				at := &ops.Step{}
				run, err := u.bind(&ops.Env{Step: at})
				if err != nil {
					t.Fatal(err)
				}
				for ; at.Round < 3; at.Round++ {
					if err := run(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				for slot, x := range u.in {
					for i, got := range float64sOf(x) {
						if w := want[slot][i]; math.Abs(got-w) > tolerance*math.Max(1, math.Abs(w)) {
							t.Fatalf("%s[%d] = %v, want %v", slot, i, got, w)
						}
					}
				}
			})
		}
	}
	for _, opType := range wholes {
		if !covered[opType] {
			t.Errorf("no formula for %s", opType)
		}
	}
}

// A sparse gradient gives the bits of the dense one, and so does any number of workers.
func TestUpdatesWithNormsHaveTheSameBitsHoweverTheyRun(t *testing.T) {
	for _, f := range wholeFormulas {
		t.Run(f.name, func(t *testing.T) {
			sparse := newUpdate(t, f.opType, f.attrs, tensor.Float32, 3, 200, 50)
			dense := sparse.sparse(t, []int64{7, 3, 199, 7, 50}, 5)
			sparse.runSparse(t)
			b, _ := dense.bindParts(t, 3)
			for _, loop := range b.Bound() {
				for part, n := 2, loop.N; part >= 0; part-- { // ranges in the opposite order
					from, to := n*part/3, n*(part+1)/3
					if from == to {
						continue
					}
					if err := loop.Run(part, from, to); err != nil {
						t.Fatal(err)
					}
				}
			}
			for slot := range sparse.in {
				if slot != gradSlot && !slices.Equal(bitsOf(sparse.in[slot]), bitsOf(dense.in[slot])) {
					t.Errorf("%s differs", slot)
				}
			}
		})
	}
}
