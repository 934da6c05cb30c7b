package kernel

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
