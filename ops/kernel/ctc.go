package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// A CTC computes connectionist temporal classification (Graves et al. 2006). Its memory grows to the largest sequence that it meets.
type CTC struct {
	Classes, Blank int
	work           []float64
	logs           []float64 // of the probabilities of all classes at a frame, for each frame
	alpha          []float64 // for each frame, the logarithm of the probability of all ways to each state
	beta, next     []float64 // of a frame, of all ways from each state to the end
	share          []float64 // of a frame, by class
}

// reserve makes room for a sequence.
func (c *CTC) reserve(frames, states int) {
	n := frames*(c.Classes+states) + 2*states + c.Classes
	if cap(c.work) < n {
		c.work = make([]float64, n)
	}
	work := c.work[:n]
	take := func(n int) (part []float64) {
		part, work = work[:n:n], work[n:]
		return part
	}
	c.logs, c.alpha, c.beta, c.next, c.share = take(frames*c.Classes), take(frames*states), take(states), take(states), take(c.Classes)
}

// CTCLoss returns -log of the probability that frames read as labels, and writes its gradient by the logits. A frame i has its logits, Classes of them without
// softmax, at x[i*stride:], and its gradient likewise. Labels are checked: classes other than Blank. Without enough frames for the labels, loss and gradient are 0,
// as in warp-ctc.
func CTCLoss[T tensor.Float](c *CTC, dx, x []T, frames, stride int, labels []int32) float64 {
	repeats := 0
	for i := 1; i < len(labels); i++ {
		if labels[i] == labels[i-1] {
			repeats++
		}
	}
	if frames == 0 || len(labels)+repeats > frames {
		for t := range frames {
			clear(dx[t*stride:][:c.Classes])
		}
		return 0
	}
	states := 2*len(labels) + 1
	c.reserve(frames, states)
	for t := range frames {
		c.logSoftmax(t, func(k int) float64 { return float64(x[t*stride+k]) })
	}
	for t := range frames {
		c.forward(t, states, labels)
	}
	last := c.alpha[(frames-1)*states:][:states]
	total := last[states-1]
	if states > 1 {
		total = logAdd(total, last[states-2])
	}
	for t := frames - 1; t >= 0; t-- {
		c.backward(t, frames, states, labels)
		for k := range c.share {
			c.share[k] = math.Inf(-1)
		}
		for s := range states {
			k := c.class(s, labels)
			c.share[k] = logAdd(c.share[k], c.alpha[t*states+s]+c.beta[s])
		}
		logs := c.logs[t*c.Classes:][:c.Classes]
		for k, l := range logs {
			// beta counts the frame as alpha does, so its logarithm goes once
			dx[t*stride+k] = T(math.Exp(l) - math.Exp(c.share[k]-l-total))
		}
	}
	return -total
}

// class returns the class of a state: blanks before, between and after the labels.
func (c *CTC) class(state int, labels []int32) int {
	if state%2 == 0 {
		return c.Blank
	}
	return int(labels[state/2])
}

// skips reports whether a way may go from two states before to a state: where the blank between two labels is not needed.
func skips(state int, labels []int32) bool {
	return state%2 == 1 && state >= 3 && labels[state/2] != labels[state/2-1]
}

func (c *CTC) logSoftmax(t int, logit func(int) float64) {
	logs, top, sum := c.logs[t*c.Classes:][:c.Classes], math.Inf(-1), 0.0
	for k := range logs {
		logs[k] = logit(k)
		top = max(top, logs[k])
	}
	for _, l := range logs {
		sum += math.Exp(l - top)
	}
	norm := top + math.Log(sum)
	for k := range logs {
		logs[k] -= norm
	}
}

func (c *CTC) forward(t, states int, labels []int32) {
	logs, now := c.logs[t*c.Classes:][:c.Classes], c.alpha[t*states:][:states]
	for s := range now {
		ways := math.Inf(-1)
		switch {
		case t > 0:
			before := c.alpha[(t-1)*states:][:states]
			ways = before[s]
			if s > 0 {
				ways = logAdd(ways, before[s-1])
			}
			if skips(s, labels) {
				ways = logAdd(ways, before[s-2])
			}
		case s < 2:
			ways = 0
		}
		now[s] = ways + logs[c.class(s, labels)]
	}
}

func (c *CTC) backward(t, frames, states int, labels []int32) {
	c.beta, c.next = c.next, c.beta
	logs := c.logs[t*c.Classes:][:c.Classes]
	for s := range states {
		ways := math.Inf(-1)
		switch {
		case t < frames-1:
			ways = c.next[s]
			if s+1 < states {
				ways = logAdd(ways, c.next[s+1])
			}
			if s+2 < states && skips(s+2, labels) {
				ways = logAdd(ways, c.next[s+2])
			}
		case s >= states-2:
			ways = 0
		}
		c.beta[s] = ways + logs[c.class(s, labels)]
	}
}

// logAdd returns log(e**a + e**b).
func logAdd(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}
