package kernel

import (
	"cmp"
	"slices"
)

// Median returns the median of the numbers of a lane, and the places of the one or two that it is the mean of. NaN does not count: of nothing else the median is the first element and the places
// are -1. order is scratch memory of the length of lane, which is at least 1.
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
