package remote_test

import (
	"pgregory.net/rapid"

	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
)

// drawOptimizer draws a rule with a rate or a schedule, clipping and regularization.
func drawOptimizer(t *rapid.T) *optimizer.Optimizer {
	var options []optimizer.Option
	switch rapid.IntRange(0, 4).Draw(t, "clip") {
	case 0:
		options = append(options, optimizer.ClipGradients(optimizer.ByValue(-0.1, 0.1)))
	case 1:
		options = append(options, optimizer.ClipGradients(optimizer.ByNorm(0.1)))
	case 2:
		options = append(options, optimizer.ClipGradients(optimizer.ByGlobalNorm(0.1)))
	}
	switch rapid.IntRange(0, 3).Draw(t, "regularize") {
	case 0:
		options = append(options, optimizer.Regularize(layers.L1(0.01)))
	case 1:
		options = append(options, optimizer.Regularize(layers.L2(0.01)))
	}
	name := rapid.SampledFrom(rules).Draw(t, "rule")
	if schedule, ok := schedules[rapid.SampledFrom(append(sortedKeys(schedules), "constant", "constant")).Draw(t, "schedule")]; ok {
		return update(name, schedule, options)
	}
	return update(name, 0.05, options)
}

// rules names every update rule.
var rules = []string{"sgd", "momentum", "nesterov", "adagrad", "adam", "decayed_adagrad", "adadelta", "adamax", "rmsprop", "ftrl", "custom"}

// update returns the optimizer of a rule.
func update[R optimizer.Rate](rule string, rate R, options []optimizer.Option) *optimizer.Optimizer {
	switch rule {
	case "sgd":
		return optimizer.SGD(rate, options...)
	case "momentum":
		return optimizer.Momentum(rate, 0.9, options...)
	case "nesterov":
		return optimizer.Momentum(rate, 0.9, append(options, optimizer.Nesterov())...)
	case "adagrad":
		return optimizer.Adagrad(rate, options...)
	case "adam":
		return optimizer.Adam(rate, options...)
	case "decayed_adagrad":
		return optimizer.DecayedAdagrad(rate, options...)
	case "adadelta":
		return optimizer.Adadelta(options...)
	case "adamax":
		return optimizer.Adamax(rate, options...)
	case "rmsprop":
		return optimizer.RMSProp(rate, append(options, optimizer.Centered(), optimizer.WithMomentum(0.5))...)
	case "ftrl":
		return optimizer.Ftrl(rate, options...)
	}
	return optimizer.Custom(rate, lion, options...)
}

// lion is a rule of a user's own, with an accumulator and a number: a step along the sign of a mean of gradients, shorter with every step.
func lion(u *optimizer.Update) {
	velocity, share := u.State("velocity", 0), u.Number("share", 1)
	u.Set(velocity, layers.Add(layers.Scale(velocity, 0.9, 0), layers.Scale(u.Grad, 0.1, 0)))
	u.Set(share, layers.Scale(share, 0.5, 0))
	u.Set(u.Param, layers.Sub(u.Param, layers.Mul(layers.Mul(layers.Sign(velocity), share), u.Rate)))
}

var schedules = map[string]optimizer.Schedule{
	"exponential": optimizer.Exponential(0.05, 2, 0.5, false),
	"natural":     optimizer.NaturalExp(0.05, 2, 0.5, true),
	"inverse":     optimizer.InverseTime(0.05, 1, 0.5, false),
	"polynomial":  optimizer.Polynomial(0.05, 4, 0.001, 2, true),
	"piecewise":   optimizer.Piecewise([]int{1, 3}, []float64{0.05, 0.02, 0.01}),
	"cosine":      optimizer.Cosine(0.05, 1, 200),
	"noam":        optimizer.Noam(64, 2),
	"warmup":      optimizer.LinearWarmup(0.05, 2, 0.001, 0.05),
}
