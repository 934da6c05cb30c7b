package plan

import "slices"

// rows appends steps of pieces, in their order, and joins loops that hand rows on to each other.
func (c *compiler) rows(steps []step, pieces []*piece) []step {
	first := len(steps)
	for _, p := range pieces {
		if n := len(steps); n > first && !c.without(FuseRows) && c.joins(&steps[n-1], p) {
			last := &steps[n-1]
			last.pieces = append(last.pieces, p)
			last.chains[0].pieces = last.pieces
			continue
		}
		steps = append(steps, single(p))
	}
	return steps
}

// leastRows is how many iterations a chain keeps for each worker, so that they can share it evenly.
const leastRows = 4

// joins reports whether p can run range by range with the chain of a step: it reads what the chain writes, and no iteration of either needs
// anything of the other but what the same iteration owns.
func (c *compiler) joins(s *step, p *piece) bool {
	if s.isKernel() || !p.isLoop() || p.loop.Apart || s.pieces[0].loop.Apart {
		return false
	}
	n, ok := commonIterations(s.pieces, p)
	if !ok || n < 2 || n < leastRows*c.plan.env.Workers && c.Grain > 0 {
		return false
	}
	linked := false
	for _, q := range s.pieces {
		for _, v := range q.writes {
			if uses(p.reads, v) {
				linked = true
			}
			if uses(p.whole, v) {
				return false
			}
		}
		for _, v := range p.writes {
			if uses(q.whole, v) {
				return false
			}
		}
		if slices.ContainsFunc(p.scratch, func(v *variable) bool { return uses(q.scratch, v) }) {
			return false
		}
	}
	return linked
}

// commonIterations returns the number of iterations of a chain of these pieces, each of which has a multiple of it.
func commonIterations(pieces []*piece, p *piece) (n int, ok bool) {
	n = p.loop.N
	for _, q := range pieces {
		n = min(n, q.loop.N)
	}
	if n == 0 || p.loop.N%n != 0 {
		return 0, false
	}
	return n, !slices.ContainsFunc(pieces, func(q *piece) bool { return q.loop.N%n != 0 })
}
