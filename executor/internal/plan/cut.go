package plan

import (
	"slices"
	"time"
)

const (
	// cacheBytes is how much of what the loops of a chain hand on to each other is to be in the cache at a time.
	cacheBytes = 192 << 10
	// wholeLeast is how many times Loop.Least a range must have for the work that is done once for each range not to count.
	wholeLeast = 8
	// lineIterations keeps ranges of many iterations from ending within a cache line.
	lineIterations = 16
)

// cut decides how many iterations of each chain run at a time, and how each step is divided over the workers.
func (c *compiler) cut() {
	p := c.plan
	for i := range p.steps {
		s := &p.steps[i]
		for _, q := range s.pieces {
			s.nanos += q.nanoseconds()
		}
		if s.isKernel() {
			continue
		}
		for k := range s.chains {
			s.chains[k].measure(c.Grain)
		}
		s.divide(p.env.Workers, c.Grain)
		s.errs = make([]error, len(s.parts))
	}
}

// measure sets the extents of a chain.
func (c *chain) measure(grain time.Duration) {
	c.n = c.pieces[0].loop.N
	for _, p := range c.pieces {
		c.n = min(c.n, p.loop.N)
	}
	c.each, c.block = make([]int, len(c.pieces)), c.n
	if c.n == 0 || len(c.pieces) == 1 {
		return
	}
	var rows []*variable
	for i, p := range c.pieces {
		c.each[i] = p.loop.N / c.n
		for _, v := range slices.Concat(p.reads, p.writes) {
			if !uses(p.whole, v) && !uses(rows, v) {
				rows = append(rows, v)
			}
		}
	}
	bytes := int64(0)
	for _, v := range rows {
		bytes += v.bytes()
	}
	c.block = max(1, int(cacheBytes*int64(c.n)/max(bytes, 1)), wholeLeast*c.least())
	if grain == 0 {
		c.block = 1
	}
}

// least is below how many iterations a range does not pay.
func (c *chain) least() int {
	least := 1
	for i, p := range c.pieces {
		least = max(least, p.loop.Least/max(c.each[i], 1))
	}
	return least
}

// divide gives each part an equal share of the estimated time, which is at least grain.
func (s *step) divide(workers int, grain time.Duration) {
	parts := workers
	if grain > 0 {
		parts = min(parts, int(s.nanos/float64(grain)))
	}
	if len(s.chains) == 1 && grain > 0 {
		parts = min(parts, s.chains[0].n/s.chains[0].least())
	}
	parts = max(1, parts)
	s.parts = make([][]stretch, parts)
	before := 0.0
	for i := range s.chains {
		c := &s.chains[i]
		weight := 0.0
		for _, p := range c.pieces {
			weight += p.nanoseconds()
		}
		at := func(part int) int {
			share := (s.nanos*float64(part)/float64(parts) - before) / weight
			n := max(0, min(c.n, int(share*float64(c.n)+0.5)))
			if n < c.n && c.n >= lineIterations*parts*8 {
				n -= n % lineIterations
			}
			return n
		}
		for part := range parts {
			from, to := at(part), at(part+1)
			if part == parts-1 {
				to = c.n
			}
			if from < to {
				s.parts[part] = append(s.parts[part], stretch{c, from, to})
			}
		}
		before += weight
	}
}
