package kernel

import "github.com/edl-go/edl/tensor"

// A GRU computes steps of a gated recurrent unit (Cho et al. 2014) for one sequence at a time. A row of gates has the three parts of Fluid's gru, Width
// elements each: update gate u, reset gate r and candidate c. With h' the hidden value of the previous step:
//
//	u = Gate(..)   r = Gate(..)   c = Candidate(.. + (r*h')·Wc)
//	h = (1-u)*h' + u*c, or with Origin (as in the paper) h = u*h' + (1-u)*c
//
// The products of matrices are the caller's: h' with the weights of u and r before Gates, r*h' with those of c between Gates and Hidden.
type GRU[T tensor.Float] struct {
	Width           int
	Gate, Candidate Activation[T]
	Origin          bool
}

// NewGRU takes functions by the names of Activations, which these are.
func NewGRU[T tensor.Float](width int, gate, candidate string, origin bool) GRU[T] {
	known := Activations[T]()
	return GRU[T]{Width: width, Gate: known[gate], Candidate: known[candidate], Origin: origin}
}

// input leaves (row+bias)+sums in sums. A nil bias counts as zeros.
func (g *GRU[T]) input(sums, row, bias []T) {
	if bias == nil {
		addVectors(sums, row, sums)
		return
	}
	for i, v := range row {
		sums[i] = (v + bias[i]) + sums[i]
	}
}

// Gates computes u and r, the first 2*Width elements of gates, from those of row, of bias (nil for zeros) and of sums, which it overwrites. It sets
// reset to r*h'. previous is h', nil for zeros. gates may be row.
func (g *GRU[T]) Gates(gates, reset, previous, row, bias, sums []T) {
	d := g.Width
	if bias != nil {
		bias = bias[:2*d]
	}
	g.input(sums[:2*d], row[:2*d], bias)
	g.Gate.Func(gates[:2*d], sums[:2*d])
	if previous == nil {
		clear(reset[:d])
		return
	}
	mulVectors(reset[:d], gates[d:2*d], previous[:d])
}

// Hidden computes c, the last Width elements of gates, from those of row, of bias (nil for zeros) and from sums, Width elements that it overwrites.
// Then it computes hidden. Gates was called before.
func (g *GRU[T]) Hidden(gates, hidden, previous, row, bias, sums []T) {
	d := g.Width
	update, candidate, hidden, sums := gates[:d], gates[2*d:3*d], hidden[:d], sums[:d]
	if bias != nil {
		bias = bias[2*d : 3*d]
	}
	g.input(sums, row[2*d:3*d], bias)
	g.Candidate.Func(candidate, sums)
	for i, u := range update {
		h := T(0)
		if previous != nil {
			h = previous[i]
		}
		if g.Origin {
			u = 1 - u
		}
		hidden[i] = (h - T(u*h)) + T(u*candidate[i])
	}
}

// BackwardCandidate begins the gradient of a step. gates and previous are those after Hidden. dhidden is the gradient of h. It sets the first and the last
// part of dgates, the gradients of the inputs of u and c, and carried to the part of the gradient of h' that does not pass a product. work has Width elements.
// carried may be dhidden.
func (g *GRU[T]) BackwardCandidate(dgates, carried, dhidden, gates, previous, work []T) {
	d := g.Width
	update, candidate := gates[:d], gates[2*d:3*d]
	dupdate, dcandidate, work := dgates[:d], dgates[2*d:3*d], work[:d]
	for i, dh := range dhidden[:d] {
		u, h := update[i], T(0)
		if previous != nil {
			h = previous[i]
		}
		du := dh * (candidate[i] - h)
		if g.Origin {
			u, du = 1-u, -du
		}
		dupdate[i], work[i], carried[i] = du, dh*u, dh*(1-u)
	}
	g.Gate.Grad(dupdate, nil, update, dupdate)
	g.Candidate.Grad(dcandidate, nil, candidate, work)
}

// BackwardGates completes the gradient of a step. dreset is the gradient of r*h', the product of dgates[2*Width:] with the weights of c. It sets
// dgates[Width:2*Width] and adds to carried. The product of dgates[:2*Width] with the weights of u and r is then missing in carried. It overwrites dreset.
func (g *GRU[T]) BackwardGates(dgates, carried, dreset, gates, previous []T) {
	d := g.Width
	reset, dr, dreset := gates[d:2*d], dgates[d:2*d], dreset[:d]
	mulAdd(carried[:d], dreset, reset)
	if previous == nil {
		clear(dr)
		return
	}
	mulVectors(dreset, dreset, previous[:d])
	g.Gate.Grad(dr, nil, reset, dreset)
}
