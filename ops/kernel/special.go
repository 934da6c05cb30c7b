package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// Digamma is the derivative of the logarithm of the gamma function, by recurrence up to 10 and the asymptotic series from there. It is NaN at 0, -1, -2, ...
func Digamma(x float64) float64 {
	if x <= 0 && x == math.Floor(x) {
		return math.NaN()
	}
	if x < 0 { // reflection
		return Digamma(1-x) - math.Pi/math.Tan(math.Pi*x)
	}
	sum := 0.0
	for ; x < 10; x++ {
		sum -= 1 / x
	}
	r := 1 / (x * x)
	return sum + math.Log(x) - 1/(2*x) - r*(1./12-r*(1./120-r*(1./252-r*(1./240-r*(1./132-r*691./32760)))))
}

// Trigamma is the derivative of Digamma.
func Trigamma(x float64) float64 {
	if x <= 0 && x == math.Floor(x) {
		return math.NaN()
	}
	if x < 0 {
		s := math.Pi / math.Sin(math.Pi*x)
		return s*s - Trigamma(1-x)
	}
	sum := 0.0
	for ; x < 10; x++ {
		sum += 1 / (x * x)
	}
	r := 1 / (x * x)
	return sum + 1/x + r/2 + r/x*(1./6-r*(1./30-r*(1./42-r*(1./30-r*(5./66-r*691./2730)))))
}

// BesselI0 and BesselI1 are the modified Bessel functions of the first kind of the orders 0 and 1.
func BesselI0(x float64) float64 { return bessel(0, x, false) }

// BesselI1 is the function of order 1.
func BesselI1(x float64) float64 { return bessel(1, x, false) }

// BesselI0e is BesselI0 times exp(-|x|), which does not overflow.
func BesselI0e(x float64) float64 { return bessel(0, x, true) }

// BesselI1e is BesselI1 times exp(-|x|), which does not overflow.
func BesselI1e(x float64) float64 { return bessel(1, x, true) }

// bessel is the sum of (x/2)**(2k+order)/(k!*(k+order)!), or the asymptotic series where |x| is large, times exp(-|x|) if it is scaled.
func bessel(order int, x float64, scaled bool) float64 {
	u := math.Abs(x)
	exponent := 0.0
	var value float64
	if u < 30 {
		term := 1.0
		if order == 1 {
			term = u / 2
		}
		for k := 1.0; term > value*1e-17; k++ {
			value += term
			term *= u * u / 4 / (k * (k + float64(order)))
		}
		if scaled {
			exponent = -u
		}
	} else {
		mu, term := float64(4*order*order), 1.0
		for k := 1.0; k < 30 && math.Abs(term) > math.Abs(value)*1e-17; k++ {
			value += term
			term *= -(mu - (2*k-1)*(2*k-1)) / (k * 8 * u)
		}
		if exponent = -0.5 * math.Log(2*math.Pi*u); !scaled {
			exponent += u // in one exponent, so that it does not overflow early
		}
	}
	if exponent != 0 {
		value *= math.Exp(exponent)
	}
	if order == 1 && x < 0 {
		return -value
	}
	return value
}

// FMax computes out = max(x, y), broadcast as [pre, n, post], where a number wins over NaN.
func FMax[T Number](out, x, y []T, pre, n, post int) {
	preferNumbers(out, x, y, pre, n, post, func(x, y T) bool { return x >= y })
}

// FMin computes out = min(x, y), broadcast as [pre, n, post], where a number wins over NaN.
func FMin[T Number](out, x, y []T, pre, n, post int) {
	preferNumbers(out, x, y, pre, n, post, func(x, y T) bool { return x <= y })
}

func preferNumbers[T Number](out, x, y []T, pre, n, post int, chosen func(x, y T) bool) {
	for p := range pre {
		for i := range n {
			v := y[i]
			at := (p*n + i) * post
			for q, u := range x[at : at+post] {
				if chosen(u, v) || v != v {
					out[at+q] = u
				} else {
					out[at+q] = v
				}
			}
		}
	}
}

// FMaxGrad sends dout to what FMax has chosen: x where they are equal.
func FMaxGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	chooseGrad(dx, dy, x, y, dout, pre, n, post, func(x, y T) bool { return x >= y || y != y })
}

// FMinGrad sends dout to what FMin has chosen: x where they are equal.
func FMinGrad[T tensor.Float](dx, dy, x, y, out, dout []T, pre, n, post int) {
	chooseGrad(dx, dy, x, y, dout, pre, n, post, func(x, y T) bool { return x <= y || y != y })
}
