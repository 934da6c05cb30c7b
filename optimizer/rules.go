package optimizer

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/tensor"
)

// SGD is stochastic gradient descent: p -= rate g.
func SGD[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "SGD", opts, nil, func(settings) Rule {
		return func(u *Update) { u.step("sgd", nil) }
	})
}

// Momentum adds a share mu of the last velocity: v = mu v + g; p -= rate v. With Nesterov, p -= rate (g + mu v).
//
// Options: Nesterov and those of every optimizer.
func Momentum[R Rate](rate R, mu float64, opts ...Option) *Optimizer {
	return build(rate, "Momentum", opts, []string{"Nesterov"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("momentum", layers.Attrs{"mu": mu, "use_nesterov": s.nesterov}, state{"Velocity", "VelocityOut", u.State("velocity", 0)})
		}
	})
}

// Adagrad divides by the root of the sum of squared gradients: m += g²; p -= rate g / (√m + ε). ε is 1e-6.
//
// Options: Epsilon and those of every optimizer.
func Adagrad[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "Adagrad", opts, []string{"Epsilon"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("adagrad", layers.Attrs{"epsilon": s.epsilonOr(1e-6)}, state{"Moment", "MomentOut", u.State("moment", 0)})
		}
	})
}

// DecayedAdagrad is Adagrad with a decaying mean in place of the sum: m = d m + (1-d) g². ε is 1e-6.
//
// Options: Decay, Epsilon and those of every optimizer.
func DecayedAdagrad[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "DecayedAdagrad", opts, []string{"Decay", "Epsilon"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("decayed_adagrad", layers.Attrs{"decay": s.decay, "epsilon": s.epsilonOr(1e-6)}, state{"Moment", "MomentOut", u.State("moment", 0)})
		}
	})
}

// Adam scales each step by estimates of the first two moments of the gradient: m₁ = β₁m₁ + (1-β₁)g; m₂ = β₂m₂ + (1-β₂)g²;
// p -= rate √(1-β₂ᵗ)/(1-β₁ᵗ) m₁/(√m₂ + ε). ε is 1e-8. (Kingma and Ba 2014.)
//
// Options: Betas, Epsilon, Lazy and those of every optimizer.
func Adam[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "Adam", opts, []string{"Betas", "Epsilon", "Lazy"}, func(s settings) Rule {
		return func(u *Update) {
			moment1, moment2 := u.State("moment1", 0), u.State("moment2", 0)
			power1, next1 := u.power("beta1_pow_acc", s.beta1)
			power2, next2 := u.power("beta2_pow_acc", s.beta2)
			power1.in, power2.in = "Beta1Pow", "Beta2Pow"
			attrs := layers.Attrs{"beta1": s.beta1, "beta2": s.beta2, "epsilon": s.epsilonOr(1e-8)}
			if s.lazy {
				attrs["lazy_mode"] = true
			}
			u.step("adam", attrs,
				state{"Moment1", "Moment1Out", moment1}, state{"Moment2", "Moment2Out", moment2}, power1, power2)
			next1()
			next2()
		}
	})
}

// Adamax is Adam with the largest gradient in place of the second moment: u = max(|g|, β₂u + ε); p -= rate/(1-β₁ᵗ) m/u. ε is 1e-8.
//
// Options: Betas, Epsilon and those of every optimizer.
func Adamax[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "Adamax", opts, []string{"Betas", "Epsilon"}, func(s settings) Rule {
		return func(u *Update) {
			moment, norm := u.State("moment", 0), u.State("inf_norm", 0)
			power, next := u.power("beta1_pow_acc", s.beta1)
			power.in = "Beta1Pow"
			u.step("adamax", layers.Attrs{"beta1": s.beta1, "beta2": s.beta2, "epsilon": s.epsilonOr(1e-8)},
				state{"Moment", "MomentOut", moment}, state{"InfNorm", "InfNormOut", norm}, power)
			next()
		}
	})
}

// Adadelta has no rate: it steps in the units of its earlier steps. a = ρa + (1-ρ)g²; d = -√((b+ε)/(a+ε)) g; b = ρb + (1-ρ)d²; p += d.
// ρ is Decay, ε is 1e-6. (Zeiler 2012.)
//
// Options: Decay, Epsilon and those of every optimizer.
func Adadelta(opts ...Option) *Optimizer {
	o := build(1, "Adadelta", opts, []string{"Decay", "Epsilon"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("adadelta", layers.Attrs{"rho": s.decay, "epsilon": s.epsilonOr(1e-6)},
				state{"AvgSquaredGrad", "AvgSquaredGradOut", u.State("avg_squared_grad", 0)},
				state{"AvgSquaredUpdate", "AvgSquaredUpdateOut", u.State("avg_squared_update", 0)})
		}
	})
	o.noRate = true
	return o
}

// RMSProp divides the step by the root of the mean of squared gradients: s = ρs + (1-ρ)g²; m = µm + rate g/√(s + ε); p -= m. ρ is Decay, µ is
// WithMomentum, ε is 1e-6. Centered subtracts the square of the mean gradient from s.
//
// Options: Decay, Epsilon, WithMomentum, Centered and those of every optimizer.
func RMSProp[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "RMSProp", opts, []string{"Decay", "Epsilon", "WithMomentum", "Centered"}, func(s settings) Rule {
		return func(u *Update) {
			states := []state{{"Moment", "MomentOut", u.State("momentum", 0)}, {"MeanSquare", "MeanSquareOut", u.State("mean_square", 0)}}
			if s.centered {
				states = append(states, state{"MeanGrad", "MeanGradOut", u.State("mean_grad", 0)})
			}
			u.step("rmsprop", layers.Attrs{"decay": s.decay, "epsilon": s.epsilonOr(1e-6), "momentum": s.momentum, "centered": s.centered}, states...)
		}
	})
}

// Ftrl follows the regularized leader, for sparse linear models: see the documentation of the op ftrl. (McMahan et al. 2013.)
//
// Options: Penalties, Power and those of every optimizer.
func Ftrl[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "Ftrl", opts, []string{"Penalties", "Power"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("ftrl", layers.Attrs{"l1": s.l1, "l2": s.l2, "lr_power": s.power},
				state{"SquaredAccumulator", "SquaredAccumOut", u.State("squared", 0)}, state{"LinearAccumulator", "LinearAccumOut", u.State("linear", 0)})
		}
	})
}

// AdamW is Adam with a decay of the parameter that is apart from the gradient: first p *= 1 - rate · decay, then Adam. The decay is WeightDecay, by default
// 0.01. (Loshchilov and Hutter 2017.)
//
// Options: Betas, Epsilon, Lazy, WeightDecay and those of every optimizer.
func AdamW[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "AdamW", opts, []string{"Betas", "Epsilon", "Lazy", "WeightDecay"}, func(s settings) Rule {
		return func(u *Update) {
			attrs := layers.Attrs{"beta1": s.beta1, "beta2": s.beta2, "epsilon": s.epsilonOr(1e-8), "coeff": s.weightDecayOr(0.01), "lazy_mode": s.lazy}
			u.step("adamw", attrs, u.moments(s)...)
		}
	})
}

// Lamb is Adam with a rate for each parameter, for large batches: m₁ and m₂ as in Adam; r = m₁/(1-β₁ᵗ)/(√(m₂/(1-β₂ᵗ)) + ε) + decay · p;
// p -= rate ‖p‖/‖r‖ r. The decay is WeightDecay, by default 0.01; ε is 1e-6. The norms are of the whole parameter, which therefore stays whole on one pserver.
// (You et al. 2019.)
//
// Options: Betas, Epsilon, WeightDecay and those of every optimizer.
func Lamb[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "Lamb", opts, []string{"Betas", "Epsilon", "WeightDecay"}, func(s settings) Rule {
		return func(u *Update) {
			attrs := layers.Attrs{"beta1": s.beta1, "beta2": s.beta2, "epsilon": s.epsilonOr(1e-6), "weight_decay": s.weightDecayOr(0.01)}
			u.step("lamb", attrs, u.moments(s)...)
		}
	})
}

// LarsMomentum is Momentum with a rate for each parameter, for large batches: local = rate · coeff · ‖p‖/(‖g‖ + decay · ‖p‖), or rate if a norm is 0;
// v = mu v + local (g + decay · p); p -= v. coeff is 0.001 in the paper; the decay is WeightDecay, by default 0.0005. The norms are of the whole
// parameter, which therefore stays whole on one pserver. (You, Gitman and Ginsburg 2017.)
//
// Options: WeightDecay and those of every optimizer.
func LarsMomentum[R Rate](rate R, mu, coeff float64, opts ...Option) *Optimizer {
	return build(rate, "LarsMomentum", opts, []string{"WeightDecay"}, func(s settings) Rule {
		return func(u *Update) {
			attrs := layers.Attrs{"mu": mu, "lars_coeff": coeff, "lars_weight_decay": s.weightDecayOr(0.0005)}
			u.step("lars_momentum", attrs, state{"Velocity", "VelocityOut", u.State("velocity", 0)})
		}
	})
}

// ProximalGD steps against the gradient and solves exactly for Penalties, which sets weak parameters to exactly 0: q = p - rate g;
// p = sign(q) max(|q| - rate l₁, 0)/(1 + rate l₂). (Duchi and Singer 2009.)
//
// Options: Penalties and those of every optimizer.
func ProximalGD[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "ProximalGD", opts, []string{"Penalties"}, func(s settings) Rule {
		return func(u *Update) { u.step("proximal_gd", layers.Attrs{"l1": s.l1, "l2": s.l2}) }
	})
}

// ProximalAdagrad is ProximalGD with the step of Adagrad: m += g²; q = p - rate g/√m.
//
// Options: Penalties and those of every optimizer.
func ProximalAdagrad[R Rate](rate R, opts ...Option) *Optimizer {
	return build(rate, "ProximalAdagrad", opts, []string{"Penalties"}, func(s settings) Rule {
		return func(u *Update) {
			u.step("proximal_adagrad", layers.Attrs{"l1": s.l1, "l2": s.l2}, state{"Moment", "MomentOut", u.State("moment", 0)})
		}
	})
}

// Dpsgd limits the norm of each gradient to clip and adds noise, so that a model tells little of a single example: p -= rate (g/max(1, ‖g‖/clip) + z/batch),
// with one number z of the normal distribution with deviation sigma for each parameter and step. The noise follows from the seed, and is equal on one machine
// and on a cluster. (Abadi et al. 2016.)
//
// Options: those of every optimizer.
func Dpsgd[R Rate](rate R, clip, batch, sigma float64, seed int, opts ...Option) *Optimizer {
	return build(rate, "Dpsgd", opts, nil, func(settings) Rule {
		return func(u *Update) {
			u.step("dpsgd", layers.Attrs{"clip": clip, "batch_size": batch, "sigma": sigma, "seed": seed})
		}
	})
}

// leastCompressed is the elements of the smallest parameter whose updates DGCMomentum compresses. It is Fluid's bound.
const leastCompressed = 16384

// DGCMomentum is Momentum that, from step begin on, moves in each step only the elements of a parameter whose summed gradients are largest, with the momentum correction
// and the momentum factor masking of deep gradient compression: u = mu u + g; v += u; p -= rate v for the elements of v of largest magnitude, where u and v become 0. It
// moves one of a thousand, or what RampUp says. Parameters of less than 16384 elements, or of another type than float32, and sparse gradients are updated by Momentum. (Lin et al. 2018; Fluid:
// DGCMomentumOptimizer.)
//
// An update has the gradient of the whole batch. So it chooses the same elements on one machine and on a cluster, where a parameter stays whole on one pserver. What trainers send is
// not smaller for it: see --compress-gradients.
//
// Options: RampUp, Nesterov and those of every optimizer.
func DGCMomentum[R Rate](rate R, mu float64, begin int, opts ...Option) *Optimizer {
	o := build(rate, "DGCMomentum", opts, []string{"RampUp", "Nesterov"}, func(s settings) Rule {
		return func(u *Update) {
			attrs := layers.Attrs{"mu": mu, "use_nesterov": s.nesterov}
			if elements(u.Param) < leastCompressed || u.Param.DType() != tensor.Float32 || u.Grad.IsSparse() {
				u.step("momentum", attrs, state{"Velocity", "VelocityOut", u.State("velocity", 0)})
				return
			}
			sum, left, step := u.State("dgc_u", 0), u.State("dgc_v", 0), u.Number("dgc_step", 0)
			choice := layers.Attrs{"m": mu, "use_nesterov": s.nesterov, "rampup_begin_step": float64(begin), "rampup_step": float64(s.rampUp)}
			if len(s.sparsity) > 0 {
				choice["sparsity"] = s.sparsity
			}
			chosen := layers.NewVariables(u.model, "dgc", 1)[0]
			u.Op("dgc", layers.In{"U": one(sum), "V": one(left), "Grad": one(u.Grad), "Param": one(u.Param), "current_step": one(step)}, choice,
				layers.In{"U_out": one(sum), "V_out": one(left), "Grad_out": one(chosen)})
			u.Grad = chosen
			attrs["rampup_begin_step"] = float64(begin)
			u.step("dgc_momentum", attrs, state{"Velocity", "VelocityOut", sum}, state{"current_step", "", step})
			u.Op("scale", layers.In{"X": one(step)}, layers.Attrs{"scale": 1.0, "bias": 1.0}, layers.In{"Out": one(step)})
		}
	})
	if begin < 0 || begin >= 1<<24 {
		o.mistake = fault.E(fault.InvalidArgument, fault.At("optimizer DGCMomentum"), fault.Gotf("begin %d", begin), fault.Want("0 to 2^24"), fault.Line(userLine()))
	}
	return o
}

// elements returns how many elements a parameter has.
func elements(v layers.Variable) int64 {
	n := int64(1)
	for _, extent := range v.Dims() {
		n *= extent
	}
	return n
}

// moments are the states of the rules that work as Adam, whose ops multiply the powers themselves.
func (u *Update) moments(s settings) []state {
	return []state{
		{"Moment1", "Moment1Out", u.State("moment1", 0)}, {"Moment2", "Moment2Out", u.State("moment2", 0)},
		{"Beta1Pow", "Beta1PowOut", u.Number("beta1_pow_acc", s.beta1)}, {"Beta2Pow", "Beta2PowOut", u.Number("beta2_pow_acc", s.beta2)},
	}
}
