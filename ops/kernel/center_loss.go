package kernel

import "github.com/edl-go/edl/tensor"

// CenterLoss computes the difference of rows of x, width long, from the centers of their labels, and half the square of its length. Labels are checked.
func CenterLoss[T tensor.Float](loss, diff, x, centers []T, labels []int64, width int) {
	for i, label := range labels {
		row, center := x[i*width:][:width], centers[int(label)*width:][:width]
		to := diff[i*width:][:width]
		for c, v := range row {
			to[c] = v - center[c]
		}
		loss[i] = T(sumProduct(to, to) / 2)
	}
}

// MoveCenters computes columns [from, to) of the centers after a step: center + rate*(sum of diff of its rows)/(1 + their number). out may be centers. moves is
// memory of the size of centers.
func MoveCenters[T tensor.Float](out, centers, moves, diff []T, labels, counts []int64, rate float64, width, from, to int) {
	for row := 0; row < len(centers); row += width {
		clear(moves[row+from : row+to])
	}
	for i, label := range labels {
		Accumulate(moves[int(label)*width+from:int(label)*width+to], diff[i*width+from:i*width+to])
	}
	for label, n := range counts {
		for k := label*width + from; k < label*width+to; k++ {
			out[k] = centers[k] + T(rate*float64(moves[k])/float64(n+1))
		}
	}
}
