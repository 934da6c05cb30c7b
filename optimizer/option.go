package optimizer

import "github.com/edl-go/edl/layers"

// An Option changes a default of an optimizer. It is a mistake to give an optimizer an option that it does not list.
type Option struct {
	name string
	set  func(*settings)
}

type settings struct {
	penalty  layers.Regularizer
	clip     Clip
	epsilon  *float64
	fade     *float64
	beta1    float64
	beta2    float64
	decay    float64
	momentum float64
	nesterov bool
	centered bool
	lazy     bool
	l1, l2   float64
	power    float64
	rampUp   int       // DGCMomentum
	sparsity []float32 // none: 0.999
}

func defaults() settings {
	return settings{beta1: 0.9, beta2: 0.999, decay: 0.95, power: -0.5}
}

// epsilonOr returns the epsilon of the options, else that of the rule.
func (s settings) epsilonOr(fallback float64) float64 {
	if s.epsilon != nil {
		return *s.epsilon
	}
	return fallback
}

// weightDecayOr returns the decay of the options, else that of the rule.
func (s settings) weightDecayOr(fallback float64) float64 {
	if s.fade != nil {
		return *s.fade
	}
	return fallback
}

// WeightDecay sets how fast parameters decay towards 0, where a rule lets them.
func WeightDecay(decay float64) Option {
	return Option{"WeightDecay", func(s *settings) { s.fade = &decay }}
}

// Regularize adds the gradient of a penalty to every gradient, after clipping. A parameter with a regularizer of its own takes that one.
func Regularize(penalty layers.Regularizer) Option {
	return Option{"Regularize", func(s *settings) { s.penalty = penalty }}
}

// ClipGradients limits gradients before the optimizer uses them.
func ClipGradients(clip Clip) Option {
	return Option{"ClipGradients", func(s *settings) { s.clip = clip }}
}

// Epsilon sets the small number that prevents a division by zero.
func Epsilon(epsilon float64) Option {
	return Option{"Epsilon", func(s *settings) { s.epsilon = &epsilon }}
}

// Betas sets how much of the first and of the second moment stays from step to step. The defaults are 0.9 and 0.999.
func Betas(beta1, beta2 float64) Option {
	return Option{"Betas", func(s *settings) { s.beta1, s.beta2 = beta1, beta2 }}
}

// Decay sets how much of the mean of squared gradients stays from step to step. The default is 0.95.
func Decay(decay float64) Option { return Option{"Decay", func(s *settings) { s.decay = decay }} }

// WithMomentum sets how much of the last step is added to the next one. The default is 0.
func WithMomentum(momentum float64) Option {
	return Option{"WithMomentum", func(s *settings) { s.momentum = momentum }}
}

// Nesterov computes the step from the velocity after the update.
func Nesterov() Option { return Option{"Nesterov", func(s *settings) { s.nesterov = true }} }

// Lazy changes only those rows of a table that a batch looks up, moments included. It is for tables with layers.Sparse. Without it, the other rows
// go on moving along their moments.
func Lazy() Option { return Option{"Lazy", func(s *settings) { s.lazy = true }} }

// Centered divides by the variance of the gradients and not by their mean square.
func Centered() Option { return Option{"Centered", func(s *settings) { s.centered = true }} }

// Penalties sets the weights of the L1 and L2 penalties inside Ftrl and the proximal rules. The defaults are 0.
func Penalties(l1, l2 float64) Option {
	return Option{"Penalties", func(s *settings) { s.l1, s.l2 = l1, l2 }}
}

// Power sets the exponent of the sum of squared gradients in Ftrl. The default is -0.5.
func Power(power float64) Option { return Option{"Power", func(s *settings) { s.power = power }} }

// A Clip builds the ops that limit gradients, and returns the pairs with the limited gradients. It builds the ops of one pair within Pair.Build.
type Clip func([]Pair) []Pair

// ByValue limits every element of every gradient to [low, high].
func ByValue(low, high float64) Clip {
	return each(func(grad layers.Variable) layers.Variable { return layers.Clip(grad, low, high) })
}

// ByNorm scales each gradient down to a Euclidean norm of limit if its norm is larger.
func ByNorm(limit float64) Clip {
	return each(func(grad layers.Variable) layers.Variable { return layers.ClipByNorm(grad, limit) })
}

func each(change func(layers.Variable) layers.Variable) Clip {
	return func(pairs []Pair) []Pair {
		for i, p := range pairs {
			p.Build(func() { pairs[i].Grad = change(p.Grad) })
		}
		return pairs
	}
}

// ByGlobalNorm scales all gradients by limit / max(norm, limit), where norm is the Euclidean norm of all gradients together. The sum of squares of
// each gradient is exact and does not depend on how the gradient is sliced, and parameters share only scalars. So a distributed job clips by the
// same norm as a local one.
func ByGlobalNorm(limit float64) Clip {
	return func(pairs []Pair) []Pair {
		squares := make([]layers.Variable, len(pairs))
		for i, p := range pairs {
			p.Build(func() { squares[i] = layers.SquaredNorm(p.Grad) })
		}
		var factor layers.Variable
		buildFor(pairs, func() {
			norm := layers.Sqrt(layers.Sums(squares))
			most := layers.FillConstant(norm.Model(), limit, []int64{1}, layers.DType(norm.DType()))
			factor = layers.Div(most, layers.Max(norm, most))
		})
		for i, p := range pairs {
			p.Build(func() { pairs[i].Grad = layers.Mul(p.Grad, factor) })
		}
		return pairs
	}
}

// RampUp sets which shares of the elements of a parameter DGCMomentum leaves for later: in so many steps, one share after the other, and the last one from then on. The default
// is 0.999. (Lin et al. begin with 0.75, 0.9375, 0.984375 and 0.996.)
func RampUp(steps int, sparsity ...float64) Option {
	return Option{"RampUp", func(s *settings) {
		s.rampUp, s.sparsity = steps, nil
		for _, share := range sparsity {
			s.sparsity = append(s.sparsity, float32(share))
		}
	}}
}
