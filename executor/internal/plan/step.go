package plan

import (
	"context"

	"github.com/edl-go/edl/ops"
)

// A step is what a run dispatches: a piece that is bound to a kernel, or chains of loops that are independent of each other.
type step struct {
	pieces []*piece
	chains []chain // nil for a kernel
	first  int     // place of pieces[0] in Plan.pieces
	parts  [][]stretch
	nanos  float64 // estimate of how long one core takes
	errs   []error // of each part in a run that failed
	shared shared
	timing timing
}

// A chain is a row of loops of which a range runs through all before the next range begins, so that what one loop wrote is in the cache
// for the next.
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

// run runs all of a step on the caller's goroutine. at is kept at the piece that runs.
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

// cost adds what the pieces of a step do.
func (s *step) cost() (total ops.Cost) {
	for _, p := range s.pieces {
		total.Flops += p.cost.Flops
		total.Bytes += p.cost.Bytes
	}
	return total
}
