package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// A CRF is a linear-chain conditional random field over N tags (Lafferty et al. 2001). The score of the tags t of a sequence of n rows x is
// Start[t0] + sum of x[k][tk] + sum of Between[t(k-1)][tk] + End[t(n-1)], and their probability is e**score over the sum of that for all tags.
//
// Work with e**score is scaled row by row: a row of Alpha is e**score of all tags of the rows up to it, by the last tag, divided by its sum.
type CRF[T tensor.Float] struct {
	N                          int
	Start, End, Between        []T // N, N and N*N scores
	StartExp, EndExp, Steps    []T // e** of them
	Back                       []T // Steps, transposed; only CRFBackward needs it
	Alpha, EmissionExp, Scores []T // rows*N, of the whole batch; EmissionExp is e**(x - the largest of the row), Scores the rows x
}

// CRFForward fills the rows [from, to) of Alpha and EmissionExp and returns the negative logarithm of the probability of their labels.
func CRFForward[T tensor.Float](c *CRF[T], labels []int64, from, to int) T {
	n := c.N
	logZ, score := 0.0, 0.0
	for k := from; k < to; k++ {
		x, e, alpha := c.Scores[k*n:][:n], c.EmissionExp[k*n:][:n], c.Alpha[k*n:][:n]
		top := x[0]
		for _, v := range x[1:] {
			top = max(top, v)
		}
		for i, v := range x {
			e[i] = v - top
		}
		Exp(e, e)
		if k == from {
			copy(alpha, c.StartExp)
		} else {
			clear(alpha)
			for j, a := range c.Alpha[(k-1)*n:][:n] {
				Axpy(alpha, c.Steps[j*n:][:n], a)
			}
			score += float64(c.Between[int(labels[k-1])*n+int(labels[k])])
		}
		total := 0.0
		for i, v := range e {
			alpha[i] *= v
			total += float64(alpha[i])
		}
		scaleTo(alpha, total)
		logZ += float64(top) + math.Log(total)
		score += float64(x[labels[k]])
	}
	if from == to {
		return 0
	}
	end := 0.0
	for i, a := range c.Alpha[(to-1)*n:][:n] {
		end += float64(a) * float64(c.EndExp[i])
	}
	score += float64(c.Start[labels[from]]) + float64(c.End[labels[to-1]])
	return T(logZ + math.Log(end) - score)
}

func scaleTo[T tensor.Float](x []T, total float64) {
	for i := range x {
		x[i] = T(float64(x[i]) / total)
	}
}

// CRFBackward computes, for the rows [from, to) after CRFForward, the gradient of CRFForward times weight with respect to Scores, and what CRFStepGrad
// needs: joint. work has 2*N elements.
func CRFBackward[T tensor.Float](c *CRF[T], gradient, joint, work []T, labels []int64, weight T, from, to int) {
	n := c.N
	beta, next := work[:n], work[n:2*n]
	copy(beta, c.EndExp)
	for k := to - 1; k >= from; k-- {
		alpha, g := c.Alpha[k*n:][:n], gradient[k*n:][:n]
		if k < to-1 {
			// beta of a tag is the sum over the next tags of a step to it, times what comes from there on: next.
			clear(beta)
			for j, v := range next {
				Axpy(beta, c.Back[j*n:][:n], v)
			}
			// The probabilities of all pairs of tags add up to 1.
			total := 0.0
			for i, a := range alpha {
				total += float64(a) * float64(beta[i])
			}
			j := joint[(k+1)*n:][:n]
			for i, v := range next {
				j[i] = T(float64(v) / total * float64(weight))
			}
		}
		total, sum := 0.0, 0.0
		for i, a := range alpha {
			total += float64(a) * float64(beta[i])
			sum += float64(beta[i])
		}
		for i, a := range alpha {
			g[i] = T(float64(a) * float64(beta[i]) / total * float64(weight))
		}
		g[labels[k]] -= weight
		for i, e := range c.EmissionExp[k*n:][:n] {
			next[i] = T(float64(e) * float64(beta[i]) / sum)
		}
	}
}

// CRFStepGrad adds the gradient of the rows [from, to) to gradient, the row of Between that belongs to the tag before. work has N elements.
func CRFStepGrad[T tensor.Float](c *CRF[T], gradient, joint, work []T, labels []int64, weight T, tag, from, to int) {
	n := c.N
	clear(work[:n])
	for k := from + 1; k < to; k++ {
		Axpy(work[:n], joint[k*n:][:n], c.Alpha[(k-1)*n+tag])
	}
	for j, s := range c.Steps[tag*n:][:n] {
		gradient[j] += T(work[j] * s)
	}
	for k := from + 1; k < to; k++ {
		if int(labels[k-1]) == tag {
			gradient[labels[k]] -= weight
		}
	}
}

// CRFDecode writes the tags with the largest score for the rows [from, to) (Viterbi 1967); of equal ones those with the smallest last tags. It uses Start,
// End, Between, Scores and Alpha, which it overwrites, and came, rows*N numbers of the batch.
func CRFDecode[T tensor.Float](c *CRF[T], tags []int64, came []int32, from, to int) {
	n := c.N
	if from == to {
		return
	}
	for k := from; k < to; k++ {
		x, best := c.Scores[k*n:][:n], c.Alpha[k*n:][:n]
		if k == from {
			for i, v := range x {
				best[i] = v + c.Start[i]
			}
			continue
		}
		before, at := c.Alpha[(k-1)*n:][:n], came[k*n:][:n]
		for i := range best {
			best[i], at[i] = before[0]+c.Between[i], 0
		}
		for j := 1; j < n; j++ {
			for i, step := range c.Between[j*n:][:n] {
				if v := before[j] + step; v > best[i] {
					best[i], at[i] = v, int32(j)
				}
			}
		}
		for i, v := range x {
			best[i] += v
		}
	}
	last, top := 0, T(0)
	for i, v := range c.Alpha[(to-1)*n:][:n] {
		if v += c.End[i]; i == 0 || v > top {
			last, top = i, v
		}
	}
	for k := to - 1; ; k-- {
		tags[k] = int64(last)
		if k == from {
			return
		}
		last = int(came[k*n+last])
	}
}
