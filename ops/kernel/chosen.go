package kernel

import (
	"math"
	"math/bits"

	"github.com/edl-go/edl/tensor"
)

// The functions of this file score rows of x against a few rows of a matrix w each. ids has so many places for each row of x: numbers of rows of w, which are
// checked, or a negative number for a place that is not in use.

// ChosenScores computes out = x . w[id] + bias[id] of each place, 0 where it is not in use. bias may be nil.
func ChosenScores[T tensor.Float](out, x, w, bias []T, ids []int64, places, width int) {
	for k, id := range ids {
		if id < 0 {
			out[k] = 0
			continue
		}
		row := k / places * width
		score := sumProduct(x[row:row+width], w[int(id)*width:][:width])
		if bias != nil {
			score += float64(bias[id])
		}
		out[k] = T(score)
	}
}

// ChosenInputGrad computes the gradient of rows of x: the sum over their places of slope*w[id], in the order of places.
func ChosenInputGrad[T tensor.Float](dx, w, slopes []T, ids []int64, places, width int) {
	clear(dx)
	for k, id := range ids {
		if id >= 0 {
			row := k / places * width
			Axpy(dx[row:row+width], w[int(id)*width:][:width], slopes[k])
		}
	}
}

// ChosenWeightGrad computes columns [from, to) of the gradient of w: the sum over all places with an id of slope*x, in the order of places.
func ChosenWeightGrad[T tensor.Float](dw, x, slopes []T, ids []int64, places, width, from, to int) {
	for row := 0; row < len(dw); row += width {
		clear(dw[row+from : row+to])
	}
	for k, id := range ids {
		if id >= 0 {
			row := k / places * width
			Axpy(dw[int(id)*width+from:int(id)*width+to], x[row+from:row+to], slopes[k])
		}
	}
}

// ChosenRowsGrad computes the sparse gradient of w: slope*x for each place that is in use, one after another, with its id in rows. It returns how many.
func ChosenRowsGrad[T tensor.Float](values []T, rows []int64, x, slopes []T, ids []int64, places, width int) (n int) {
	for k, id := range ids {
		if id < 0 {
			continue
		}
		rows[n] = id
		to, row := values[n*width:][:width], k/places*width
		for c, v := range x[row : row+width] {
			to[c] = slopes[k] * v
		}
		n++
	}
	return n
}

// ChosenBiasGrad computes the gradient of bias: the sum of the slopes of each id.
func ChosenBiasGrad[T tensor.Float](dbias, slopes []T, ids []int64) {
	clear(dbias)
	for k, id := range ids {
		if id >= 0 {
			dbias[id] += slopes[k]
		}
	}
}

// TreeDepth returns the length of the longest path in the binary tree that TreePath walks.
func TreeDepth(classes int64) int { return bits.Len64(uint64(classes - 1)) }

// TreePath writes the inner nodes from the root to the leaf of a class, and at each whether the path goes right, in the complete binary tree of Fluid's
// hierarchical_sigmoid: node n, from 1, has the children 2n and 2n+1, leaf classes+c is class c, and node n has number n-1. Places beyond the path get -1.
func TreePath(nodes []int64, right []bool, class, classes int64) {
	code := uint64(class + classes)
	length := bits.Len64(code) - 1
	for j := range nodes {
		nodes[j], right[j] = -1, false
		if j < length {
			nodes[j], right[j] = int64(code>>(j+1))-1, code>>j&1 == 1
		}
	}
}

// treeScoreLimit bounds the scores of inner nodes, as Fluid does.
const treeScoreLimit = 40

// TreeLoss makes of the scores of a path, 0 in places that it does not use, log(1 + e**score), and returns the loss: their sum without the scores of nodes where
// the path goes right. A place that is not in use counts log(2), as in Fluid.
func TreeLoss[T tensor.Float](scores []T, right []bool) T {
	sum := 0.0
	for j, s := range scores {
		score := max(-treeScoreLimit, min(float64(s), treeScoreLimit))
		soft := log1pexp(score)
		sum += soft
		if right[j] {
			sum -= score
		}
		scores[j] = T(soft)
	}
	return T(sum)
}

// TreeLossGrad computes the gradients of the scores of a path from what TreeLoss made of them.
func TreeLossGrad[T tensor.Float](slopes, soft []T, right []bool, dloss T) {
	for j, s := range soft {
		slope := -math.Expm1(-float64(s)) // the sigmoid of the score
		if right[j] {
			slope--
		}
		slopes[j] = T(slope) * dloss
	}
}

// NoiseContrast makes of the scores of a row their sigmoids o, and returns the cost of noise contrastive estimation: with b[j] the number of samples times the
// probability of a class, -log(o/(o+b)) for the first so many classes, which are true, and -log(b/(o+b)) for the others, times weight. (Gutmann and Hyvärinen 2010.)
func NoiseContrast[T tensor.Float](scores []T, b []float64, right int, weight float64) T {
	sum := 0.0
	for j, s := range scores {
		o := sigmoid(float64(s))
		scores[j] = T(o)
		o = float64(scores[j])
		if j < right {
			sum -= math.Log(o / (o + b[j]))
		} else {
			sum -= math.Log(b[j] / (o + b[j]))
		}
	}
	return T(weight * sum)
}

// NoiseContrastGrad computes the gradients of the scores from the sigmoids that NoiseContrast made of them.
func NoiseContrastGrad[T tensor.Float](slopes, sigmoids []T, b []float64, right int, weight, dcost float64) {
	for j, s := range sigmoids {
		o := float64(s)
		slope := o * (1 - o) / (o + b[j])
		if j < right {
			slope = b[j] / (o + b[j]) * (o - 1)
		}
		slopes[j] = T(slope * weight * dcost)
	}
}
