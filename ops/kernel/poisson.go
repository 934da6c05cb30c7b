package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// fewPoisson is the rate from which Poisson rejects candidates. Below, it adds up probabilities, which takes as many steps as it counts.
const fewPoisson = 10

// Poisson draws for each rate how many events happen. Each number depends only on the stream and on first plus its place. Rates are finite and at least 0.
func Poisson[T tensor.Float](out, rates []T, stream, first uint64) {
	for i, v := range rates[:len(out)] {
		if rate, at := float64(v), first+uint64(i); rate < fewPoisson {
			out[i] = T(poissonByInversion(rate, uniform(0, stream, at)))
		} else {
			out[i] = T(poissonByRejection(rate, stream, at))
		}
	}
}

// poissonByInversion returns the first count whose distribution function is not below u.
func poissonByInversion(rate, u float64) float64 {
	count, p := 0.0, math.Exp(-rate)
	for sum := p; sum < u && p > 0; sum += p {
		count++
		p *= rate / count
	}
	return count
}

// poissonByRejection is the transformed rejection of Hörmann (1993), "The transformed rejection method for generating Poisson random variables" (PTRS). Each attempt draws with keys of its own.
func poissonByRejection(rate float64, stream, at uint64) float64 {
	b := 0.931 + 2.53*math.Sqrt(rate)
	a := -0.059 + 0.02483*b
	scale, least := math.Log(1.1239+1.1328/(b-3.4)), 0.9277-3.6224/(b-2)
	for attempt := int64(0); ; attempt += 2 {
		u, v := uniform(attempt, stream, at)-0.5, uniform(attempt+1, stream, at)
		edge := 0.5 - math.Abs(u)
		count := math.Floor((2*a/edge+b)*u + rate + 0.43)
		switch {
		case edge >= 0.07 && v <= least:
			return count
		case count < 0 || edge < 0.013 && v > edge:
			continue
		}
		factorial, _ := math.Lgamma(count + 1)
		if math.Log(v)+scale-math.Log(a/(edge*edge)+b) <= count*math.Log(rate)-rate-factorial {
			return count
		}
	}
}

// Dirichlet draws a distribution for each row of width weights, which are finite and above 0. What it draws depends only on the stream and on first plus the places of the row. room has width
// elements.
func Dirichlet[T tensor.Float](out, weights []T, room []float64, stream, first uint64) {
	width := len(room)
	for row := 0; row < len(out); row += width {
		most, sum := math.Inf(-1), 0.0
		for k := range room {
			room[k] = logGamma(float64(weights[row+k]), stream, first+uint64(row+k))
			most = max(most, room[k])
		}
		for k, v := range room {
			room[k] = math.Exp(v - most)
			sum += room[k]
		}
		for k, v := range room {
			out[row+k] = T(v / sum)
		}
	}
}

// logGamma draws the logarithm of a number of the gamma distribution, as Marsaglia and Tsang (2000), "A simple method for generating gamma variables". If the shape is small, the number itself may
// be too small for a float64.
func logGamma(shape float64, stream, at uint64) float64 {
	small := 0.0
	if shape < 1 {
		small = math.Log(uniform(-1, stream, at)) / shape
		shape++
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for attempt := int64(0); ; attempt += 2 {
		x := normalQuantile(uniform(attempt, stream, at))
		root := 1 + c*x
		if root <= 0 {
			continue
		}
		v := root * root * root
		if math.Log(uniform(attempt+1, stream, at)) < x*x/2+d-d*v+d*math.Log(v) {
			return math.Log(d*v) + small
		}
	}
}
