package kernel

import (
	"math"

	"github.com/edl-go/edl/tensor"
)

// The reductions compute the iterations [from, to) of a plan, see ReducePlan.Iterations, and their gradients those of ReducePlan.GradIterations. They
// are given the whole of every slice: x and dx hold InCount elements, out and dout OutCount.

// ReduceSum sums the elements of each result.
func ReduceSum[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	clear(out[first:last])
	for c.at < c.end {
		if p.reduced {
			out[c.out] += T(sum(block(&c, x)))
			c.next(p)
			continue
		}
		blocks, elements := c.run(p)
		sumRows(kept(&c, out), x[c.at+c.lo:][:elements], blocks)
		c.skip(p, blocks)
	}
}

// ReduceMean is ReduceSum divided by the number of elements of a result, NaN for none.
func ReduceMean[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	ReduceSum(p, out, x, from, to)
	_, first, last := p.forward(from, to)
	ratio := T(p.Ratio())
	for i := range out[first:last] {
		out[first+i] /= ratio
	}
}

// ReduceMax finds the largest element of each result, NaN if one is NaN, -Inf for none.
func ReduceMax[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	Fill(out[first:last], T(math.Inf(-1)))
	for c.at < c.end {
		if p.reduced {
			out[c.out] = max(out[c.out], maxOf(block(&c, x)))
		} else {
			to := kept(&c, out)
			maxVectors(to, to, block(&c, x))
		}
		c.next(p)
	}
}

// ReduceSumGrad gives every element the gradient of its result.
func ReduceSumGrad[T tensor.Float](p *ReducePlan, dx, dout []T, from, to int) {
	spread(p, dx, dout, 1, from, to)
}

// ReduceMeanGrad gives every element the gradient of its result, divided by Ratio.
func ReduceMeanGrad[T tensor.Float](p *ReducePlan, dx, dout []T, from, to int) {
	spread(p, dx, dout, T(p.Ratio()), from, to)
}

func spread[T tensor.Float](p *ReducePlan, dx, dout []T, ratio T, from, to int) {
	for c := p.backward(from, to); c.at < c.end; {
		if p.reduced {
			Fill(block(&c, dx), dout[c.out]/ratio)
			c.next(p)
			continue
		}
		blocks, elements := c.run(p)
		repeated := dx[c.at+c.lo:][:elements]
		divScalar(repeated[:elements/blocks], kept(&c, dout), ratio)
		repeat(repeated, elements/blocks)
		c.skip(p, blocks)
	}
}

// repeat copies the first n elements over the rest, again and again.
func repeat[T any](x []T, n int) {
	if n == 1 {
		Fill(x[1:], x[0])
		return
	}
	for n < len(x) {
		n += copy(x[n:], x[:n])
	}
}

// ReduceMaxGrad gives every element that equals its result the gradient of the result, and 0 to the others. As in Fluid, several equal elements all
// get it.
func ReduceMaxGrad[T tensor.Float](p *ReducePlan, dx, x, out, dout []T, from, to int) {
	for c := p.backward(from, to); c.at < c.end; c.next(p) {
		d, v, o, step := block(&c, dx), block(&c, x), c.out+c.lo, 1
		if p.reduced {
			o, step = c.out, 0
		}
		for i := range d {
			d[i] = 0
			if v[i] == out[o] {
				d[i] = dout[o]
			}
			o += step
		}
	}
}

// ReduceMin finds the smallest element of each result, NaN if one is NaN, +Inf for none. Its gradient is ReduceMaxGrad, which only compares
// elements with the result.
func ReduceMin[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	Fill(out[first:last], T(math.Inf(1)))
	for c.at < c.end {
		if p.reduced {
			for _, v := range block(&c, x) {
				out[c.out] = min(out[c.out], v)
			}
		} else {
			to := kept(&c, out)
			minVectors(to, to, block(&c, x))
		}
		c.next(p)
	}
}

// ReduceFold folds the elements of each result, in their order: the result is start for none.
func ReduceFold[T any](p *ReducePlan, out, x []T, start T, fold func(folded, v T) T, from, to int) {
	c, first, last := p.forward(from, to)
	Fill(out[first:last], start)
	for c.at < c.end {
		o, step := c.out+c.lo, 1
		if p.reduced {
			o, step = c.out, 0
		}
		for _, v := range block(&c, x) {
			out[o] = fold(out[o], v)
			o += step
		}
		c.next(p)
	}
}

// ReduceGrad gives every element what slope makes of it, of its result, and of the gradient of its result.
func ReduceGrad[T tensor.Float](p *ReducePlan, dx, x, out, dout []T, slope func(x, out, dout T) T, from, to int) {
	for c := p.backward(from, to); c.at < c.end; c.next(p) {
		d, v, o, step := block(&c, dx), block(&c, x), c.out+c.lo, 1
		if p.reduced {
			o, step = c.out, 0
		}
		for i := range d {
			d[i] = slope(v[i], out[o], dout[o])
			o += step
		}
	}
}

// ReduceSquares sums the squares of the elements of each result.
func ReduceSquares[T tensor.Float](p *ReducePlan, out, x []T, from, to int) {
	c, first, last := p.forward(from, to)
	clear(out[first:last])
	for c.at < c.end {
		if b := block(&c, x); p.reduced {
			out[c.out] += T(sumProduct(b, b))
		} else {
			mulAdd(kept(&c, out), b, b)
		}
		c.next(p)
	}
}

// ReduceLogSumExp computes the logarithm of the sum of e**x over the elements of each result, -Inf for none. top is scratch memory of OutCount elements.
func ReduceLogSumExp[T tensor.Float](p *ReducePlan, out, x, top []T, from, to int) {
	ReduceMax(p, top, x, from, to)
	c, first, last := p.forward(from, to)
	clear(out[first:last])
	for c.at < c.end {
		o, step := c.out+c.lo, 1
		if p.reduced {
			o, step = c.out, 0
		}
		for _, v := range block(&c, x) {
			out[o] += T(math.Exp(float64(v - finite(top[o]))))
			o += step
		}
		c.next(p)
	}
	for i := first; i < last; i++ {
		out[i] = T(math.Log(float64(out[i]))) + finite(top[i])
	}
}

// finite returns x, and 0 for an infinity.
func finite[T tensor.Float](x T) T {
	if math.IsInf(float64(x), 0) {
		return 0
	}
	return x
}

// maxRank bounds the rank of the arrays that plans are built for.
const maxRank = 16

// A ReducePlan says which elements of a row-major array belong to which result when some axes are reduced. Build it once per shape with
// NewReducePlan. It is immutable.
type ReducePlan struct {
	outer    int          // axes of the loop around blocks
	dims     [maxRank]int // their extents
	strides  [maxRank]int // distance in the output of a step along each, 0 for a reduced axis
	block    int          // length of the contiguous innermost run
	reduced  bool         // the block belongs to one result; false: each element has its own
	leads    bool         // the first axis of the loop is kept
	inCount  int
	outCount int
}

// NewReducePlan plans the reduction of the axes that reduced marks. dims and reduced have one length, at most 16. The output is row-major over the
// other axes. Adjacent axes merge if both are reduced or both are kept. This depends on the pattern and not on extents, so an output element has
// the same order of summation in any slice along kept axes.
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

// Ratio returns the number of elements of one result, 0 if there are no results.
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

// A reduceCursor walks over the blocks of a range of iterations in order.
type reduceCursor struct {
	index  [maxRank]int
	at     int // where in the input the current block begins
	end    int // of the input that belongs to the range
	out    int // where in the output the current block falls
	lo, hi int // what of every block belongs to the range
}

// forward begins the iterations [from, to) of a reduction. The elements [first, last) of the output are theirs.
func (p *ReducePlan) forward(from, to int) (c reduceCursor, first, last int) {
	c = reduceCursor{end: p.inCount, hi: p.block}
	switch {
	case p.leads:
		c.rows(p, from, to)
		each := p.outCount / max(1, p.dims[0])
		return c, from * each, to * each
	case p.outer == 1 && !p.reduced:
		c.lo, c.hi = from, to
		return c, from, to
	}
	return c, 0, p.outCount
}

// backward begins the iterations [from, to) of a gradient.
func (p *ReducePlan) backward(from, to int) reduceCursor {
	c := reduceCursor{end: p.inCount, hi: p.block}
	if p.outer > 0 {
		c.rows(p, from, to)
	} else {
		c.lo, c.hi = from, to
	}
	return c
}

// rows limits a walk to a range of the first axis.
func (c *reduceCursor) rows(p *ReducePlan, from, to int) {
	each := p.inCount / max(1, p.dims[0])
	c.index[0], c.out, c.at, c.end = from, from*p.strides[0], from*each, to*each
}

// block returns what of the current block of the input belongs to the range.
func block[T any](c *reduceCursor, x []T) []T { return x[c.at+c.lo : c.at+c.hi] }

// kept returns what of the output the current block falls onto, where the blocks are kept.
func kept[T any](c *reduceCursor, out []T) []T { return out[c.out+c.lo : c.out+c.hi] }

// run returns how many blocks from the current one on follow each other in the input and fall onto the same place, at least 1, and how many
// elements they have together.
func (c *reduceCursor) run(p *ReducePlan) (blocks, elements int) {
	inner := p.outer - 1
	if inner < 0 || p.strides[inner] != 0 || c.hi-c.lo < p.block {
		return 1, c.hi - c.lo
	}
	blocks = min(p.dims[inner]-c.index[inner], (c.end-c.at)/max(1, p.block))
	return blocks, blocks * p.block
}

// skip moves over blocks of a run to what follows them.
func (c *reduceCursor) skip(p *ReducePlan, blocks int) {
	if blocks > 1 {
		c.at += (blocks - 1) * p.block
		c.index[p.outer-1] += blocks - 1
	}
	c.next(p)
}

// next moves to the next block.
func (c *reduceCursor) next(p *ReducePlan) {
	c.at += p.block
	for i := p.outer - 1; i >= 0; i-- {
		c.index[i]++
		c.out += p.strides[i]
		if c.index[i] < p.dims[i] {
			return
		}
		c.out -= p.strides[i] * p.dims[i]
		c.index[i] = 0
	}
}
