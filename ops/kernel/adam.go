package kernel

import "github.com/edl-go/edl/tensor"

// Adam computes m1 = beta1*m1 + (1-beta1)*grad; m2 = beta2*m2 + (1-beta2)*grad^2; and with
// rate = lr*sqrt(1-beta2Pow)/(1-beta1Pow), param -= rate*m1/(sqrt(m2)+epsilon). beta1Pow and beta2Pow are beta1 and
// beta2 to the number of this step, counted from 1; the caller multiplies them afterwards.
func Adam[T tensor.Float](param, moment1, moment2, grad []T, lr, beta1, beta2, beta1Pow, beta2Pow, epsilon T) {
	rate := lr * sqrt(1-beta2Pow) / (1 - beta1Pow)
	rest1, rest2 := 1-beta1, 1-beta2
	moment1, moment2, grad = moment1[:len(param)], moment2[:len(param)], grad[:len(param)]
	if v := vectorsFor[T](len(param)); v != nil {
		v.Adam(singles(param), singles(moment1), singles(moment2), singles(grad),
			float32(rate), float32(beta1), float32(rest1), float32(beta2), float32(rest2), float32(epsilon))
		return
	}
	for i := range param {
		g := grad[i]
		m1 := T(beta1*moment1[i]) + T(rest1*g)
		m2 := T(beta2*moment2[i]) + T(rest2*g*g)
		moment1[i], moment2[i] = m1, m2
		param[i] -= T(rate * (m1 / (sqrt(m2) + epsilon)))
	}
}

// Adamax computes m = beta1*m + (1-beta1)*grad; u = max(|grad|, beta2*u + epsilon);
// param -= lr/(1-beta1Pow)*m/u. beta1Pow is as for Adam.
func Adamax[T tensor.Float](param, moment, infinityNorm, grad []T, lr, beta1, beta2, beta1Pow, epsilon T) {
	rate := lr / (1 - beta1Pow)
	moment, infinityNorm, grad = moment[:len(param)], infinityNorm[:len(param)], grad[:len(param)]
	for i := range param {
		g := grad[i]
		m := beta1*moment[i] + (1-beta1)*g
		u := max(abs(g), beta2*infinityNorm[i]+epsilon)
		moment[i], infinityNorm[i] = m, u
		param[i] -= rate * (m / u)
	}
}
