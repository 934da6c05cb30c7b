package kernel

// A TransposePlan says how to permute the axes of a row-major array. Build it once per shape with NewTransposePlan; it is
// immutable afterwards.
type TransposePlan struct {
	outer   int          // axes of the loop around runs
	dims    [maxRank]int // their extents, in the order of the output
	strides [maxRank]int // what a step along each moves the place in the input
	run     int          // length of the innermost axis of the output
	stride  int          // its step in the input
	count   int
}

// NewTransposePlan plans output axis i as input axis perm[i]. perm is a permutation of [0, len(dims)), of at most 16 axes.
// The gradient is the transpose of the output's dims by the inverse permutation.
func NewTransposePlan(dims, perm []int) TransposePlan {
	var inStrides [maxRank]int
	p := TransposePlan{count: 1}
	for i := len(dims) - 1; i >= 0; i-- {
		inStrides[i] = p.count
		p.count *= dims[i]
	}
	n := 0
	for i, axis := range perm {
		if i > 0 && axis == perm[i-1]+1 { // neighbours stay neighbours: one longer axis
			p.dims[n-1] *= dims[axis]
			p.strides[n-1] = inStrides[axis]
			continue
		}
		p.dims[n], p.strides[n] = dims[axis], inStrides[axis]
		n++
	}
	if n == 0 {
		p.run, p.stride = 1, 1
		return p
	}
	p.outer = n - 1
	p.run, p.stride = p.dims[n-1], p.strides[n-1]
	return p
}

// Iterations returns into how many equal parts the output can be cut.
func (p *TransposePlan) Iterations() int {
	if p.outer > 0 {
		return p.dims[0]
	}
	return p.run
}

// Transpose writes the iterations [first, last) of the permuted x to their place in out; x and out do not overlap.
func Transpose[T any](p *TransposePlan, out, x []T, first, last int) {
	if p.outer == 0 {
		copy(out[first:last], x[first:last])
		return
	}
	var index [maxRank]int
	index[0] = first
	from, each := first*p.strides[0], p.count/max(1, p.dims[0])
	for at := first * each; at < last*each; at += p.run {
		run := out[at:][:p.run]
		if p.stride == 1 {
			copy(run, x[from:])
		} else {
			for i, place := 0, from; i < len(run); i, place = i+1, place+p.stride {
				run[i] = x[place]
			}
		}
		for i := p.outer - 1; i >= 0; i-- {
			index[i]++
			from += p.strides[i]
			if index[i] < p.dims[i] {
				break
			}
			from -= p.strides[i] * p.dims[i]
			index[i] = 0
		}
	}
}
