package kernel

// maxRank bounds the rank of the arrays that plans are built for.
const maxRank = 16

// A ReducePlan says how the elements of a row-major array fall together when some of its axes are reduced. Build it once
// per shape with NewReducePlan; it is immutable afterwards.
type ReducePlan struct {
	outer    int          // axes of the loop around blocks
	dims     [maxRank]int // their extents
	strides  [maxRank]int // what a step along each moves the place in the output, 0 for a reduced axis
	block    int          // length of the contiguous innermost run
	reduced  bool         // whether the block falls onto one output element, or onto as many as it has
	leads    bool         // whether the first axis of the loop is kept
	inCount  int
	outCount int
}

// NewReducePlan plans the reduction of the axes that reduced marks; dims and reduced are of one length, at most 16. The
// output is row-major over the other axes. Neighbouring axes are merged where both are reduced or both kept, which depends
// on the pattern only, never on extents, so that an output element gets the same order of summation in any slice
// along kept axes.
func NewReducePlan(dims []int, reduced []bool) ReducePlan {
	var extents [maxRank]int
	var falls [maxRank]bool
	n := 0
	p := ReducePlan{inCount: 1, outCount: 1}
	for i, d := range dims {
		p.inCount *= d
		if !reduced[i] {
			p.outCount *= d
		}
		if n > 0 && falls[n-1] == reduced[i] {
			extents[n-1] *= d
			continue
		}
		extents[n], falls[n] = d, reduced[i]
		n++
	}
	if n == 0 {
		p.block = 1
		return p
	}
	p.outer = n - 1
	p.leads = n > 1 && !falls[0]
	p.block, p.reduced = extents[n-1], falls[n-1]
	stride := 1
	if !p.reduced {
		stride = p.block
	}
	for i := p.outer - 1; i >= 0; i-- {
		p.dims[i] = extents[i]
		if !falls[i] {
			p.strides[i] = stride
			stride *= extents[i]
		}
	}
	return p
}

// InCount returns the number of elements that are reduced.
func (p *ReducePlan) InCount() int { return p.inCount }

// OutCount returns the number of results.
func (p *ReducePlan) OutCount() int { return p.outCount }

// Ratio returns how many elements fall onto one result, 0 when there are none.
func (p *ReducePlan) Ratio() int {
	if p.outCount == 0 {
		return 0
	}
	return p.inCount / p.outCount
}

// Iterations returns into how many parts the functions that reduce can be cut, and whether iteration i owns part i of equally long ones of the input,
// or only of the output: rows where the first axis is kept, else columns where all others are, else the whole.
func (p *ReducePlan) Iterations() (n int, inputToo bool) {
	switch {
	case p.leads:
		return p.dims[0], true
	case p.outer == 1 && !p.reduced:
		return p.block, false
	}
	return 1, true
}

// GradIterations is Iterations for the gradients, which are cut as the input is. allOut says that an iteration reads every output element.
func (p *ReducePlan) GradIterations() (n int, allOut bool) {
	if p.outer > 0 {
		return p.dims[0], !p.leads
	}
	return p.block, true
}
