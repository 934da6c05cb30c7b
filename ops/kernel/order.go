package kernel

import (
	"cmp"
	"math"
	"slices"

	"github.com/edl-go/edl/tensor"
)

// The functions of this file work along an axis of a tensor of the form [pre, extent, post]: on pre*post lanes, whose elements lie post apart. They do the
// lanes of [from, to) of pre.

// ArgBest writes the place of the largest element of each lane, or of the smallest; of equal ones the first.
func ArgBest[T Number, I Index](out []I, x []T, extent, post int, largest bool, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			at, best := p*extent*post+q, 0
			value := x[at]
			for i := 1; i < extent; i++ {
				if v := x[at+i*post]; largest && v > value || !largest && v < value {
					value, best = v, i
				}
			}
			out[p*post+q] = I(best)
		}
	}
}

// SortLanes sorts each lane and writes its first k elements and their places; equal elements keep their order. A NaN counts as the smallest. order is
// scratch memory of extent elements. values and places hold k elements for each lane.
func SortLanes[T Number](values []T, places []int64, x []T, extent, post, k int, descending bool, order []int64, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			at := p*extent*post + q
			for i := range order {
				order[i] = int64(i)
			}
			slices.SortFunc(order, func(i, j int64) int {
				c := cmp.Compare(x[at+int(i)*post], x[at+int(j)*post])
				if descending {
					c = -c
				}
				return cmp.Or(c, cmp.Compare(i, j))
			})
			for i, place := range order[:k] {
				values[(p*k+i)*post+q], places[(p*k+i)*post+q] = x[at+int(place)*post], place
			}
		}
	}
}

// SortLanesGrad gives the elements whose places were written the gradients of their values, and 0 to the others. It returns the first place that is not
// within a lane, -1 if all are.
func SortLanesGrad[T tensor.Float, I Index](dx, dout []T, places []I, extent, post, k, from, to int) (bad int) {
	clear(dx[from*extent*post : to*extent*post])
	for p := from; p < to; p++ {
		for i := p * k * post; i < (p+1)*k*post; i++ {
			place := places[i]
			if place < 0 || int64(place) >= int64(extent) {
				return i
			}
			dx[(p*extent+int(place))*post+i%post] += dout[i]
		}
	}
	return -1
}

// CumBest writes the largest element of each lane up to each place, or the smallest, and its place; of equal ones the last. After a NaN all are NaN. out may not be x.
func CumBest[T Number, I Index](out []T, places []I, x []T, extent, post int, largest bool, from, to int) {
	for p := from; p < to; p++ {
		for i := range extent {
			at := (p*extent + i) * post
			for q := at; q < at+post; q++ {
				v := x[q]
				if i > 0 {
					best := out[q-post]
					if v == v && !(best == best && (largest && v >= best || !largest && v <= best)) {
						out[q], places[q] = best, places[q-post]
						continue
					}
				}
				out[q], places[q] = v, I(i)
			}
		}
	}
}

// CumSum writes the sums of each lane up to each place: with exclusive without the element there, with reverse from the end. out may not be x.
func CumSum[T Number](out, x []T, extent, post int, exclusive, reverse bool, from, to int) {
	for p := from; p < to; p++ {
		for i := range extent {
			at, step := (p*extent+i)*post, -post
			if reverse {
				at, step = (p*extent+extent-1-i)*post, post
			}
			here := out[at : at+post]
			if i == 0 {
				clear(here)
				if !exclusive {
					copy(here, x[at:])
				}
				continue
			}
			before, added := out[at+step:][:post], x[at:][:post]
			if exclusive {
				added = x[at+step:][:post]
			}
			for q := range here {
				here[q] = before[q] + added[q]
			}
		}
	}
}

// LogCumSumExp writes the logarithms of the sums of e**x of each lane up to each place: with exclusive without the element there, with reverse from the end. Where nothing
// is summed it writes lowest. It does not overflow where the result does not. out may not be x.
func LogCumSumExp[T tensor.Float](out, x []T, extent, post int, exclusive, reverse bool, lowest T, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			most, sum := math.Inf(-1), 0.0 // the sum is sum*e**most
			at, step := p*extent*post+q, post
			if reverse {
				at, step = at+(extent-1)*post, -post
			}
			for i := range extent {
				if exclusive {
					if out[at] = lowest; i > 0 {
						out[at] = T(most + math.Log(sum))
					}
				}
				switch v := float64(x[at]); {
				case v == most:
					sum++
				case v > most:
					sum, most = sum*math.Exp(most-v)+1, v
				case v < most:
					sum += math.Exp(v - most)
				default:
					most = math.NaN()
				}
				if !exclusive {
					out[at] = T(most + math.Log(sum))
				}
				at += step
			}
		}
	}
}

// LogCumSumExpGrad computes dx[i], the sum of dout[j]*e**(x[i] - out[j]) over the places j whose sums have x[i].
func LogCumSumExpGrad[T tensor.Float](dx, x, out, dout []T, extent, post int, exclusive, reverse bool, from, to int) {
	for p := from; p < to; p++ {
		for q := range post {
			sum, least := 0.0, 0.0 // the sum over the places behind is sum*e**-least; results do not fall along a lane, so no power is above 1
			at, step := p*extent*post+q, -post
			if reverse {
				step = post
			} else {
				at += (extent - 1) * post
			}
			for i := range extent {
				if exclusive {
					dx[at] = 0
					if i > 0 {
						dx[at] = T(sum * power(float64(x[at]), least))
					}
				}
				here := float64(out[at])
				if i > 0 {
					sum *= power(here, least)
				}
				sum, least = sum+float64(dout[at]), here
				if !exclusive {
					dx[at] = T(sum * power(float64(x[at]), least))
				}
				at += step
			}
		}
	}
}

// power returns e**(a - b), also for infinities that are equal.
func power(a, b float64) float64 {
	if a == b {
		return 1
	}
	return math.Exp(a - b)
}

// TopPlaces writes the places of the largest values, the largest first and of equal ones the first, and -1 where there are fewer values than places. NaN is larger than
// nothing.
func TopPlaces[T Number](places []int32, values []T) {
	n := 0
	for i, v := range values {
		at := n
		for at > 0 && v > values[places[at-1]] {
			at--
		}
		if at == len(places) {
			continue
		}
		n = min(n+1, len(places))
		copy(places[at+1:n], places[at:])
		places[at] = int32(i)
	}
	for i := n; i < len(places); i++ {
		places[i] = -1
	}
}

// Median returns the median of the numbers of a lane, and the places of the one or two numbers whose mean it is. A NaN does not count. If there is no number, the median is the first element and the
// places are -1. order is scratch memory of the length of lane, which is at least 1.
func Median[T Number](lane []T, order []int64) (median T, low, high int64) {
	n := 0
	for i, v := range lane {
		if v == v {
			order[n] = int64(i)
			n++
		}
	}
	if n == 0 {
		return lane[0], -1, -1
	}
	slices.SortFunc(order[:n], func(i, j int64) int { return cmp.Or(cmp.Compare(lane[i], lane[j]), cmp.Compare(i, j)) })
	low, high = order[(n-1)/2], order[n/2]
	if low == high {
		return lane[low], low, high
	}
	return (lane[low] + lane[high]) / 2, low, high
}
