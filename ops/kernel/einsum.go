package kernel

import "github.com/edl-go/edl/tensor"

// An EinsumPlan sums products of two tensors over labels: C = sum of A*B over the labels that C lacks. A label is an axis; a tensor has each at most once. Where C has a label that
// neither A nor B has, C repeats. Without B it sums A alone.
type EinsumPlan struct {
	batch, m, n, k       int      // the product is batch times [m, k] by [k, n]
	packA, packB, unpack stepping // between A or B and their matrices, and between the products and C
	single               bool     // there is no B
	extents              map[rune]int
}

// A stepping walks over places in a fixed order, the last axis first: the steps between them in one tensor. The other is dense, of the first outer places.
type stepping struct {
	extents, steps []int
	inner          int // places of the last axes, which are summed up or repeated for each of the dense tensor
}

// NewEinsumPlan makes a plan for the labels of A, B and C. extents has that of each label, 1 or more. single says that there is no B.
func NewEinsumPlan(a, b, c string, single bool, extents map[rune]int) *EinsumPlan {
	p := &EinsumPlan{single: single, extents: extents}
	var batch, m, n, k, sumA, sumB, repeated string
	for _, l := range a {
		switch inB, inC := has(b, l), has(c, l); {
		case inB && inC:
			batch += string(l)
		case inC:
			m += string(l)
		case inB:
			k += string(l)
		default:
			sumA += string(l)
		}
	}
	for _, l := range b {
		switch {
		case has(a, l):
		case has(c, l):
			n += string(l)
		default:
			sumB += string(l)
		}
	}
	for _, l := range c {
		if !has(a, l) && !has(b, l) {
			repeated += string(l)
		}
	}
	p.batch, p.m, p.n, p.k = p.size(batch), p.size(m), p.size(n), p.size(k)
	p.packA, p.packB = p.stepping(a, batch+m+k, sumA), p.stepping(b, batch+k+n, sumB)
	p.unpack = p.stepping(c, batch+m+n, repeated)
	return p
}

func has(labels string, l rune) bool {
	for _, other := range labels {
		if other == l {
			return true
		}
	}
	return false
}

func (p *EinsumPlan) size(labels string) int {
	n := 1
	for _, l := range labels {
		n *= p.extents[l]
	}
	return n
}

// stepping says how to walk over a tensor of labels in the order of outer and then inner.
func (p *EinsumPlan) stepping(labels, outer, inner string) stepping {
	s := stepping{inner: p.size(inner)}
	for _, l := range outer + inner {
		step, seen := 1, false
		for _, other := range labels {
			if seen {
				step *= p.extents[other]
			}
			seen = seen || other == l
		}
		s.extents, s.steps = append(s.extents, p.extents[l]), append(s.steps, step)
	}
	return s
}

// Scratch returns how many elements the matrices of A and B, the products, and the room of Gemm take.
func (p *EinsumPlan) Scratch() (a, b, products, workspace int) {
	if p.single {
		return p.batch * p.m * p.k, 0, 0, 0
	}
	return p.batch * p.m * p.k, p.batch * p.k * p.n, p.batch * p.m * p.n, GemmWorkspace(p.m, p.n, p.k)
}

// Axes returns how many axes the longest walk has, for which Einsum needs counters.
func (p *EinsumPlan) Axes() int {
	return max(len(p.packA.extents), len(p.packB.extents), len(p.unpack.extents))
}

// Einsum computes c, with memory of the lengths that Scratch says, and counters of Axes elements.
func Einsum[T tensor.Float](p *EinsumPlan, c, a, b, packedA, packedB, products, workspace []T, counters []int) {
	pack(p.packA, packedA, a, counters)
	if p.single {
		unpack(p.unpack, c, packedA, counters)
		return
	}
	pack(p.packB, packedB, b, counters)
	for i := range p.batch {
		Gemm(false, false, p.m, p.n, p.k, 1, packedA[i*p.m*p.k:], p.k, packedB[i*p.k*p.n:], p.n, 0, products[i*p.m*p.n:(i+1)*p.m*p.n], p.n, workspace)
	}
	unpack(p.unpack, c, products, counters)
}

// pack sums, for each place of dense, the inner places of strided, in their order.
func pack[T tensor.Float](s stepping, dense, strided []T, counters []int) {
	clear(counters[:len(s.extents)])
	at := 0
	for i := range dense {
		sum := T(0)
		for range s.inner {
			sum += strided[at]
			at = s.next(at, counters)
		}
		dense[i] = sum
	}
}

// unpack writes each place of dense to its inner places of strided.
func unpack[T tensor.Float](s stepping, strided, dense []T, counters []int) {
	clear(counters[:len(s.extents)])
	at := 0
	for _, v := range dense {
		for range s.inner {
			strided[at] = v
			at = s.next(at, counters)
		}
	}
}

// next returns the place after at.
func (s *stepping) next(at int, counters []int) int {
	for i := len(s.extents) - 1; i >= 0; i-- {
		counters[i]++
		at += s.steps[i]
		if counters[i] < s.extents[i] {
			return at
		}
		at -= counters[i] * s.steps[i]
		counters[i] = 0
	}
	return at
}
