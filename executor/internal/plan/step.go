package plan

import (
	"context"
	"slices"
	"time"

	"github.com/edl-go/edl/ops"
)

// A step is dispatched as a whole: one piece that is bound to a kernel, or chains of loops that are independent of each other.
type step struct {
	pieces []*piece
	chains []chain // nil for a kernel
	first  int     // index of pieces[0] in Plan.pieces
	parts  [][]stretch
	nanos  float64 // that one core needs, by estimate
	errs   []error // of each part in a run that failed
	shared shared
	timing timing
}

// A chain is a list of loops. A range runs through all loops before the next range begins, so that the next loop finds in the cache what a loop has
// just written.
type chain struct {
	pieces []*piece
	each   []int // iterations of a piece for one of the chain
	n      int
	block  int // iterations that run through the chain at a time
}

// A stretch is a range of a chain.
type stretch struct {
	*chain
	from, to int
}

// isKernel reports whether the step is one piece that cannot be cut.
func (s *step) isKernel() bool { return s.chains == nil }

// run runs a whole step on the goroutine of the caller. It sets *at to the piece that runs, for errors.
func (s *step) run(ctx context.Context, at **piece) error {
	*at = s.pieces[0]
	if s.isKernel() {
		return s.pieces[0].kernel(ctx)
	}
	for part := range s.parts {
		if err := s.runPart(part, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *step) runPart(part int, at **piece) error {
	for i := range s.parts[part] {
		st := &s.parts[part][i]
		if len(st.pieces) == 1 {
			*at = st.pieces[0]
			if err := st.pieces[0].loop.Run(part, st.from, st.to); err != nil {
				return err
			}
			continue
		}
		for from := st.from; from < st.to; from += st.block {
			to := min(from+st.block, st.to)
			for k, p := range st.pieces {
				*at = p
				if err := p.loop.Run(part, from*st.each[k], to*st.each[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cost returns the sum of the costs of the pieces.
func (s *step) cost() (total ops.Cost) {
	for _, p := range s.pieces {
		total.Flops += p.cost.Flops
		total.Bytes += p.cost.Bytes
	}
	return total
}

// A scheduler is the stage that makes steps of pieces. It takes those of the fuser, and hands on steps that are divided for the workers.
type scheduler struct {
	workers int
	grain   time.Duration
	without []Fusion
}

// schedule returns the steps, and the index of the first that belongs to the update; the number of steps when there is none.
func (sc *scheduler) schedule(pieces []*piece) (steps []step, update int) {
	first := slices.IndexFunc(pieces, (*piece).isUpdate)
	if first < 0 {
		first = len(pieces)
	}
	steps = sc.rows(nil, pieces[:first])
	update = len(steps)
	for rest := pieces[first:]; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].optimizes() == rest[0].optimizes() {
			n++
		}
		if rest[0].optimizes() {
			steps = append(steps, sc.updates(rest[:n])...)
		} else {
			steps = sc.rows(steps, rest[:n])
		}
		rest = rest[n:]
	}
	at := 0
	for i := range steps {
		steps[i].first = at
		at += len(steps[i].pieces)
		sc.cut(&steps[i])
	}
	return steps, update
}

// single makes a step of one piece.
func single(p *piece) step {
	s := step{pieces: []*piece{p}}
	if p.isLoop() {
		s.chains = []chain{{pieces: s.pieces}}
	}
	return s
}

// rows appends steps of pieces, in their order, and joins loops that hand rows on to each other.
func (sc *scheduler) rows(steps []step, pieces []*piece) []step {
	first := len(steps)
	for _, p := range pieces {
		if n := len(steps); n > first && !slices.Contains(sc.without, FuseRows) && sc.joins(&steps[n-1], p) {
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

// joins reports whether p can run range by range with the chain of a step. It must read something that the chain writes, and an iteration of the one
// may need from the other only what the same iteration owns.
func (sc *scheduler) joins(s *step, p *piece) bool {
	if s.isKernel() || !p.isLoop() || p.loop.Apart || s.pieces[0].loop.Apart {
		return false
	}
	n, ok := commonIterations(s.pieces, p)
	if !ok || n < 2 || n < leastRows*sc.workers && sc.grain > 0 {
		return false
	}
	linked := false
	for _, q := range s.pieces {
		if collide(q, p) || collide(p, q) || slices.ContainsFunc(p.scratch, func(v *variable) bool { return uses(q.scratch, v) }) {
			return false
		}
		linked = linked || slices.ContainsFunc(q.writes, func(v *variable) bool { return uses(p.reads, v) })
	}
	return linked
}

// collide reports whether p writes elements that other iterations of q may touch, or with other iterations than q.
func collide(p, q *piece) bool {
	return slices.ContainsFunc(p.writes, func(v *variable) bool {
		return (uses(q.reads, v) || uses(q.writes, v)) && (p.isApart(v) || q.isApart(v))
	})
}

// commonIterations returns the number of iterations of a chain of these pieces. Each piece has a multiple of it.
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

// smallUpdate is how many bytes an update may read and write to run together with others. A larger one has work for all cores alone.
const smallUpdate = 500_000

// updates makes steps of the pieces of the update. A small loop joins the first step of small loops behind all steps that the loop must wait for, as
// one more chain.
func (sc *scheduler) updates(pieces []*piece) []step {
	var steps []step
	var small []bool                                          // by step: whether further loops may join it
	read, written := map[*variable]int{}, map[*variable]int{} // the last step that reads or writes a variable
	outside := -1                                             // the last step that goes outside
	for _, p := range pieces {
		after := -1
		p.touches(func(v *variable, write bool) {
			if at, ok := written[v]; ok {
				after = max(after, at)
			}
			if at, ok := read[v]; ok && write {
				after = max(after, at)
			}
		})
		at, fits := len(steps), p.isLoop() && p.loop.N > 0 && p.cost.Bytes < smallUpdate && !slices.Contains(sc.without, FuseUpdates)
		for i := max(after, outside) + 1; i < len(steps) && fits; i++ {
			if small[i] {
				at = i
				break
			}
		}
		if at == len(steps) {
			steps, small = append(steps, single(p)), append(small, fits)
		} else {
			s := &steps[at]
			s.pieces = append(s.pieces, p)
			s.chains = append(s.chains, chain{pieces: s.pieces[len(s.pieces)-1:]})
		}
		if p.goesOutside() {
			outside = at
		}
		p.touches(func(v *variable, write bool) {
			if write {
				written[v] = max(written[v], at)
			} else {
				read[v] = max(read[v], at)
			}
		})
	}
	return steps
}

const (
	// cacheBytes bounds the rows of a chain that are in the cache at a time.
	cacheBytes = 192 << 10
	// wholeLeast times Loop.Least is the length of a range from which on the work that is done once for each range does not count.
	wholeLeast = 8
	// lineIterations is a multiple of iterations at which long ranges end, so that two ranges do not share a cache line.
	lineIterations = 16
)

// cut decides how many iterations of each chain of a step run at a time, and how the step is divided over the workers.
func (sc *scheduler) cut(s *step) {
	for _, p := range s.pieces {
		s.nanos += p.nanoseconds()
	}
	if s.isKernel() {
		return
	}
	for k := range s.chains {
		s.chains[k].measure(sc.grain)
	}
	s.divide(sc.workers, sc.grain)
	if len(s.errs) != len(s.parts) {
		s.errs = make([]error, len(s.parts))
	}
}

// measure sets the extents of a chain.
func (c *chain) measure(grain time.Duration) {
	c.n = c.pieces[0].loop.N
	for _, p := range c.pieces {
		c.n = min(c.n, p.loop.N)
	}
	if c.block = c.n; c.each == nil {
		c.each = make([]int, len(c.pieces))
	}
	clear(c.each)
	if c.n == 0 || len(c.pieces) == 1 {
		return
	}
	var rows []*variable
	for i, p := range c.pieces {
		c.each[i] = p.loop.N / c.n
		for _, v := range slices.Concat(p.reads, p.writes) {
			if !p.isApart(v) && !uses(rows, v) {
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

// least returns the least number of iterations of a range that pays.
func (c *chain) least() int {
	least := 1
	for i, p := range c.pieces {
		least = max(least, p.loop.Least/max(c.each[i], 1))
	}
	return least
}

// divide gives each part an equal share of the estimated time. A part has at least grain.
func (s *step) divide(workers int, grain time.Duration) {
	parts := workers
	if grain > 0 {
		parts = min(parts, int(s.nanos/float64(grain)))
	}
	if len(s.chains) == 1 && grain > 0 {
		parts = min(parts, s.chains[0].n/s.chains[0].least())
	}
	parts = max(1, parts)
	if len(s.parts) != parts {
		s.parts = make([][]stretch, parts)
	}
	for i := range s.parts {
		s.parts[i] = s.parts[i][:0]
	}
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
