package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Rules with a trust ratio scale the step of a parameter by its norm. Each has two passes over a block of elements: the first returns the sums of squares
// of the block in float64, the second takes the number that follows from the sums of all blocks.

// SumSquares returns the sum of x[i]^2 in float64, in order.
func SumSquares[T tensor.Float](x []T) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// LARSRate returns the rate of a parameter for the sums of squares of it and of its gradient (You, Gitman and Ginsburg 2017):
// lr*coeff*norm(param)/(norm(grad) + decay*norm(param) + epsilon), or lr if decay or one of the norms is 0, as in Fluid.
func LARSRate[T tensor.Float](lr, coeff, decay, epsilon T, paramSquares, gradSquares float64) T {
	param, grad := T(math.Sqrt(paramSquares)), T(math.Sqrt(gradSquares))
	if !(decay > 0 && param > 0 && grad > 0) {
		return lr
	}
	return lr * coeff * param / (grad + T(decay*param) + epsilon)
}

// LARSMomentum computes velocity = mu*velocity + rate*(grad + decay*param); param -= velocity.
func LARSMomentum[T tensor.Float](param, velocity, grad []T, rate, mu, decay T) {
	velocity, grad = velocity[:len(param)], grad[:len(param)]
	for i := range param {
		v := T(mu*velocity[i]) + T(rate*(grad[i]+T(decay*param[i])))
		velocity[i] = v
		param[i] -= v
	}
}

// LAMB holds the numbers of one step (You et al. 2019).
type LAMB[T tensor.Float] struct{ Beta1, Beta2, Beta1Pow, Beta2Pow, Epsilon, Decay T }

// Moments updates the moments as Adam does. It returns the sums of squares of param and of the direction of the step.
func (l LAMB[T]) Moments(param, moment1, moment2, grad []T) (paramSquares, directionSquares float64) {
	moment1, moment2, grad = moment1[:len(param)], moment2[:len(param)], grad[:len(param)]
	for i, g := range grad {
		moment1[i] = T(l.Beta1*moment1[i]) + T((1-l.Beta1)*g)
		moment2[i] = T(l.Beta2*moment2[i]) + T((1-l.Beta2)*g*g)
		d := float64(l.direction(param[i], moment1[i], moment2[i]))
		directionSquares += d * d
	}
	return SumSquares(param), directionSquares
}

// Step computes param -= rate*direction.
func (l LAMB[T]) Step(param, moment1, moment2 []T, rate T) {
	moment1, moment2 = moment1[:len(param)], moment2[:len(param)]
	for i := range param {
		param[i] -= T(rate * l.direction(param[i], moment1[i], moment2[i]))
	}
}

func (l LAMB[T]) direction(param, moment1, moment2 T) T {
	mean, square := moment1/(1-l.Beta1Pow), moment2/(1-l.Beta2Pow)
	return mean/(sqrt(square)+l.Epsilon) + T(l.Decay*param)
}

// DPSGD computes param -= lr*(grad/scale + noise), for stochastic gradient descent with differential privacy (Abadi et al. 2016).
func DPSGD[T tensor.Float](param, grad []T, lr, scale, noise T) {
	grad = grad[:len(param)]
	for i := range param {
		param[i] -= T(lr * (grad[i]/scale + noise))
	}
}
