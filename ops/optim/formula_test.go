package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A scalarState is one element of every operand of an update, by slot name.
type scalarState map[string]float64

// formulas are the updates of one element, written down from Fluid's documentation.
var formulas = []struct {
	name   string
	opType string
	attrs  map[string]program.Attr
	update func(s scalarState)
}{
	{"sgd", "sgd", nil, func(s scalarState) {
		s["Param"] -= s["LearningRate"] * s["Grad"]
	}},
	{"momentum", "momentum", map[string]program.Attr{"mu": float32(0.5)}, func(s scalarState) {
		s["Velocity"] = 0.5*s["Velocity"] + s["Grad"]
		s["Param"] -= s["LearningRate"] * s["Velocity"]
	}},
	{"nesterov", "momentum", map[string]program.Attr{"mu": float32(0.5), "use_nesterov": true}, func(s scalarState) {
		s["Velocity"] = 0.5*s["Velocity"] + s["Grad"]
		s["Param"] -= (s["Grad"] + 0.5*s["Velocity"]) * s["LearningRate"]
	}},
	{"dgc_momentum after the first step that compresses", "dgc_momentum", map[string]program.Attr{"mu": float32(0.5), "rampup_begin_step": float32(3.5)}, func(s scalarState) {
		s["Param"] -= s["LearningRate"] * s["Grad"] // the steps are 3 and 3.5, without their fractions
	}},
	{"dgc_momentum", "dgc_momentum", map[string]program.Attr{"mu": float32(0.5), "rampup_begin_step": float32(4)}, func(s scalarState) {
		s["Velocity"] = 0.5*s["Velocity"] + s["Grad"]
		s["Param"] -= s["LearningRate"] * s["Velocity"]
	}},
	{"dgc_momentum that does nothing", "dgc_momentum", map[string]program.Attr{"mu": float32(0.5), "rampup_begin_step": float32(-1)}, func(scalarState) {}},
	{"adagrad", "adagrad", map[string]program.Attr{"epsilon": float32(0.25)}, func(s scalarState) {
		s["Moment"] += s["Grad"] * s["Grad"]
		s["Param"] -= s["LearningRate"] * s["Grad"] / (math.Sqrt(s["Moment"]) + 0.25)
	}},
	{"decayed_adagrad", "decayed_adagrad", map[string]program.Attr{"decay": float32(0.75), "epsilon": float32(0.25)}, func(s scalarState) {
		s["Moment"] = 0.75*s["Moment"] + 0.25*s["Grad"]*s["Grad"]
		s["Param"] -= s["LearningRate"] * s["Grad"] / (math.Sqrt(s["Moment"]) + 0.25)
	}},
	{"adadelta", "adadelta", map[string]program.Attr{"rho": float32(0.75), "epsilon": float32(0.125)}, func(s scalarState) {
		a := 0.75*s["AvgSquaredGrad"] + 0.25*s["Grad"]*s["Grad"]
		d := -math.Sqrt((s["AvgSquaredUpdate"]+0.125)/(a+0.125)) * s["Grad"]
		s["AvgSquaredGrad"] = a
		s["AvgSquaredUpdate"] = 0.75*s["AvgSquaredUpdate"] + 0.25*d*d
		s["Param"] += d
	}},
	{"adam", "adam", map[string]program.Attr{"beta1": float32(0.5), "beta2": float32(0.75), "epsilon": float32(0.125)}, func(s scalarState) {
		s["Moment1"] = 0.5*s["Moment1"] + 0.5*s["Grad"]
		s["Moment2"] = 0.75*s["Moment2"] + 0.25*s["Grad"]*s["Grad"]
		rate := s["LearningRate"] * math.Sqrt(1-s["Beta2Pow"]) / (1 - s["Beta1Pow"])
		s["Param"] -= rate * s["Moment1"] / (math.Sqrt(s["Moment2"]) + 0.125)
		s["Beta1Pow"] *= 0.5
		s["Beta2Pow"] *= 0.75
	}},
	{"adamw", "adamw", map[string]program.Attr{"beta1": float32(0.5), "beta2": float32(0.75), "epsilon": float32(0.125), "coeff": float32(0.5),
		"lr_ratio": float32(0.25)}, func(s scalarState) {
		s["Moment1"] = 0.5*s["Moment1"] + 0.5*s["Grad"]
		s["Moment2"] = 0.75*s["Moment2"] + 0.25*s["Grad"]*s["Grad"]
		rate := 0.25 * s["LearningRate"]
		s["Param"] -= rate * 0.5 * s["Param"]
		s["Param"] -= rate * math.Sqrt(1-s["Beta2Pow"]) / (1 - s["Beta1Pow"]) * s["Moment1"] / (math.Sqrt(s["Moment2"]) + 0.125)
		s["Beta1Pow"] *= 0.5
		s["Beta2Pow"] *= 0.75
	}},
	{"proximal_gd", "proximal_gd", map[string]program.Attr{"l1": float32(0.25), "l2": float32(0.5)}, func(s scalarState) {
		s["Param"] = shrunk(s["Param"]-s["LearningRate"]*s["Grad"], s["LearningRate"], 0.25, 0.5)
	}},
	{"proximal_adagrad", "proximal_adagrad", map[string]program.Attr{"l1": float32(0.25), "l2": float32(0.5)}, func(s scalarState) {
		s["Moment"] += s["Grad"] * s["Grad"]
		s["Param"] = shrunk(s["Param"]-s["LearningRate"]*s["Grad"]/math.Sqrt(s["Moment"]), s["LearningRate"], 0.25, 0.5)
	}},
	{"adamax", "adamax", map[string]program.Attr{"beta1": float32(0.5), "beta2": float32(0.75), "epsilon": float32(0.125)}, func(s scalarState) {
		s["Moment"] = 0.5*s["Moment"] + 0.5*s["Grad"]
		s["InfNorm"] = math.Max(math.Abs(s["Grad"]), 0.75*s["InfNorm"]+0.125)
		s["Param"] -= s["LearningRate"] / (1 - s["Beta1Pow"]) * s["Moment"] / s["InfNorm"]
	}},
	{"rmsprop", "rmsprop", map[string]program.Attr{"epsilon": float32(0.125), "decay": float32(0.75), "momentum": float32(0.5)}, func(s scalarState) {
		s["MeanSquare"] = 0.75*s["MeanSquare"] + 0.25*s["Grad"]*s["Grad"]
		s["Moment"] = 0.5*s["Moment"] + s["LearningRate"]*s["Grad"]/math.Sqrt(s["MeanSquare"]+0.125)
		s["Param"] -= s["Moment"]
	}},
	{"centered", "rmsprop", map[string]program.Attr{"epsilon": float32(0.125), "decay": float32(0.75), "momentum": float32(0.5),
		"centered": true}, func(s scalarState) {
		s["MeanSquare"] = 0.75*s["MeanSquare"] + 0.25*s["Grad"]*s["Grad"]
		s["MeanGrad"] = 0.75*s["MeanGrad"] + 0.25*s["Grad"]
		s["Moment"] = 0.5*s["Moment"] + s["LearningRate"]*s["Grad"]/math.Sqrt(s["MeanSquare"]-s["MeanGrad"]*s["MeanGrad"]+0.125)
		s["Param"] -= s["Moment"]
	}},
	{"ftrl", "ftrl", map[string]program.Attr{"l1": float32(0.5), "l2": float32(0.25)}, ftrlFormula(0.5)},
	{"ftrl with power", "ftrl", map[string]program.Attr{"l1": float32(0.5), "l2": float32(0.25), "lr_power": float32(-0.75)}, ftrlFormula(0.75)},
}

// shrunk is p after the penalties l1 and l2.
func shrunk(p, rate, l1, l2 float64) float64 {
	return math.Copysign(math.Max(0, math.Abs(p)-rate*l1), p) / (1 + rate*l2)
}

func ftrlFormula(power float64) func(scalarState) {
	return func(s scalarState) {
		n := s["SquaredAccumulator"] + s["Grad"]*s["Grad"]
		sigma := (math.Pow(n, power) - math.Pow(s["SquaredAccumulator"], power)) / s["LearningRate"]
		z := s["LinearAccumulator"] + s["Grad"] - sigma*s["Param"]
		s["SquaredAccumulator"], s["LinearAccumulator"], s["Param"] = n, z, 0
		if math.Abs(z) > 0.5 {
			s["Param"] = (math.Copysign(0.5, z) - z) / (math.Pow(n, power)/s["LearningRate"] + 2*0.25)
		}
	}
}

func TestUpdatesFollowTheirFormulas(t *testing.T) {
	const steps = 4
	covered := map[string]bool{}
	for _, f := range formulas {
		covered[f.opType] = true
		for dtype, tolerance := range map[tensor.DType]float64{tensor.Float32: 2e-4, tensor.Float64: 1e-12} {
			t.Run(fmt.Sprintf("%s/%v", f.name, dtype), func(t *testing.T) {
				u := newUpdate(t, f.opType, f.attrs, dtype, 7, 5, 3)
				want := make([]scalarState, u.in[paramSlot].Len())
				for i := range want {
					want[i] = scalarState{}
					for slot, x := range u.in {
						want[i][slot] = float64sOf(x)[i%x.Len()]
					}
					for range steps {
						f.update(want[i])
					}
				}
				u.run(t, steps)
				for slot, x := range u.in {
					for i, got := range float64sOf(x) {
						if w := want[i][slot]; math.Abs(got-w) > tolerance*math.Max(1, math.Abs(w)) {
							t.Errorf("%s[%d] = %v, want %v", slot, i, got, w)
						}
					}
				}
			})
		}
	}
	for _, opType := range all {
		if !covered[opType] && !slices.Contains(wholes, opType) {
			t.Errorf("no formula for %s", opType)
		}
	}
}

// TestDefaults runs with the defaults of Fluid written out and not written out.
func TestDefaults(t *testing.T) {
	defaults := map[string]map[string]program.Attr{
		"momentum":        {"use_nesterov": false},
		"adagrad":         {"epsilon": float32(1e-6)},
		"decayed_adagrad": {"decay": float32(0.95), "epsilon": float32(1e-6)},
		"adadelta":        {"rho": float32(0.95), "epsilon": float32(1e-6)},
		"adam":            {"beta1": float32(0.9), "beta2": float32(0.999), "epsilon": float32(1e-8)},
		"adamax":          {"beta1": float32(0.9), "beta2": float32(0.999), "epsilon": float32(1e-8)},
		"rmsprop":         {"epsilon": float32(1e-10), "decay": float32(0.9), "momentum": float32(0), "centered": false},
		"ftrl":            {"l1": float32(0), "l2": float32(0), "lr_power": float32(-0.5)},
	}
	for opType, attrs := range defaults {
		written, unwritten := newUpdate(t, opType, attrs, tensor.Float64, 3, 4), newUpdate(t, opType, nil, tensor.Float64, 3, 4)
		written.run(t, 2)
		unwritten.run(t, 2)
		for slot := range written.in {
			if w, u := float64sOf(written.in[slot]), float64sOf(unwritten.in[slot]); fmt.Sprint(w) != fmt.Sprint(u) {
				t.Errorf("%s %s: %v with the defaults written out, %v without", opType, slot, w, u)
			}
		}
	}
}

// A rate of 0, with which a warm-up begins, makes nothing infinite or NaN, and ftrl, which divides by the rate, then changes nothing.
func TestRateOfZero(t *testing.T) {
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
		for _, opType := range all {
			u := newUpdate(t, opType, nil, dtype, 7, 5, 3)
			if u.in[rateSlot] == nil {
				continue // adadelta
			}
			before := map[string][]float64{}
			for slot, x := range u.in {
				before[slot] = slices.Clone(float64sOf(x))
			}
			for _, zero := range []float64{0, math.Copysign(0, -1)} {
				setRate(u, zero)
				u.run(t, 2)
			}
			for slot, x := range u.in {
				now := float64sOf(x)
				if opType == "ftrl" && slot != rateSlot && !slices.Equal(now, before[slot]) {
					t.Errorf("%v ftrl: %s is %v, was %v", dtype, slot, now, before[slot])
				}
				if slices.ContainsFunc(now, func(f float64) bool { return math.IsNaN(f) || math.IsInf(f, 0) }) {
					t.Errorf("%v %s: %s is %v", dtype, opType, slot, now)
				}
			}
		}
	}
}

func setRate(u *update, to float64) {
	for i := range u.in[rateSlot].Float32s() {
		u.in[rateSlot].Float32s()[i] = float32(to)
	}
	for i := range u.in[rateSlot].Float64s() {
		u.in[rateSlot].Float64s()[i] = to
	}
}

// TestLazyAdam holds rows with a gradient to the bits of the dense update, and all others to what they were.
func TestLazyAdam(t *testing.T) {
	const height, width = 5000, 10
	rows := make([]int64, 1500)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range rows {
		rows[i] = int64(rng.Float64() * rng.Float64() * height)
	}
	for _, dtype := range []tensor.DType{tensor.Float32, tensor.Float64} {
		u := newUpdate(t, "adam", map[string]program.Attr{"lazy_mode": true}, dtype, 2, height, width)
		before := u.rows(t, 0, height)
		dense := u.sparse(t, rows, 3)
		u.runSparse(t)
		dense.run(t, 1)
		for out, in := range u.def.InPlace {
			if u.out[out].Len() == 1 {
				continue // a power, which has no rows
			}
			got, updated, untouched := bitsOf(u.out[out]), bitsOf(dense.out[out]), bitsOf(before.in[in])
			for row := range height {
				want := untouched
				if slices.Contains(rows, int64(row)) {
					want = updated
				}
				if a, b := row*width, (row+1)*width; !slices.Equal(got[a:b], want[a:b]) {
					t.Fatalf("%v: row %d of %s is %v, want %v", dtype, row, out, got[a:b], want[a:b])
				}
			}
		}
	}
}
