package layers

// A Regularizer builds the gradient of a penalty on a parameter, which the optimizer adds to the gradient of the loss.
type Regularizer func(parameter Variable) Variable

// L2 is the penalty coefficient/2 * sum of squares, also called weight decay; its gradient is coefficient * parameter.
func L2(coefficient float64) Regularizer {
	return func(p Variable) Variable { return Scale(p, coefficient, 0) }
}

// L1 is the penalty coefficient * sum of magnitudes; its gradient is coefficient * sign(parameter).
func L1(coefficient float64) Regularizer {
	return func(p Variable) Variable { return Scale(Sign(p), coefficient, 0) }
}
