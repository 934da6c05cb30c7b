package kernel

import "github.com/edl-go/edl/tensor"

// Slices, flips, repetitions and paddings all compute out[i, j, ...] = x[a(i), b(j), ...]: each axis of the output says for each of its
// positions which position of the input it shows, or that it shows none. Such a rule for one axis is a list of runs.

// A Run is a part of an axis of the output: N positions that show the positions From, From+Step, From+2*Step, ... of the same axis of the input. A run
// whose From is Hole shows none. N is at least 0.
type Run struct{ From, N, Step int }

// Hole is the From of a Run that shows no position of the input.
const Hole = -1

// Whole returns the runs of an axis that shows the input as it is.
func Whole(extent int) []Run { return []Run{{0, extent, 1}} }

// A PickPlan says which element of the input each element of the output shows. Build it once per shape with NewPickPlan. It is immutable.
type PickPlan struct {
	axes    []pickAxis // of the loop around the innermost axis
	inner   []Run      // of the innermost axis, with steps in elements
	run     int        // extent of the innermost axis of the output
	outer   int        // product of the other extents of the output
	inCount int
	apart   bool // the first axis of both has the same extents, and each position shows itself
}

// A pickAxis is an axis of the loop. Its runs count elements of the input.
type pickAxis struct {
	runs   []Run
	extent int
}

// NewPickPlan plans an output with one list of runs for each axis of the input, which has at most 16. All positions that runs show are within dims.
func NewPickPlan(dims []int, axes [][]Run) *PickPlan {
	p := &PickPlan{inner: Whole(1), run: 1, outer: 1, inCount: 1}
	stride, whole := 1, true // of what is joined to the innermost axis
	joined := 0
	for i := len(dims) - 1; i >= 0; i-- {
		here := scaled(axes[i], stride)
		extent := extentOf(axes[i])
		same := isWhole(axes[i], dims[i])
		switch {
		case len(p.axes) == 0 && whole && (joined == 0 || inSteps(axes[i])):
			p.inner, p.run = here, extent
			if stride > 1 {
				p.inner, p.run = lengthened(axes[i], stride), extent*stride
			}
			whole = same
		default:
			p.axes = append([]pickAxis{{here, extent}}, p.axes...)
			p.outer *= extent
		}
		joined++
		p.apart = same
		stride *= dims[i]
	}
	p.inCount = stride
	p.apart = p.apart && len(p.axes) > 0
	return p
}

// extentOf returns the positions of runs.
func extentOf(runs []Run) (n int) {
	for _, r := range runs {
		n += r.N
	}
	return n
}

// isWhole reports whether runs show an axis as it is.
func isWhole(runs []Run, extent int) bool {
	return len(runs) == 1 && runs[0] == Run{0, extent, 1}
}

// inSteps reports whether all runs show neighbours, or nothing.
func inSteps(runs []Run) bool {
	for _, r := range runs {
		if r.From != Hole && r.Step != 1 {
			return false
		}
	}
	return true
}

// scaled returns the runs of an axis, a step along which is stride elements.
func scaled(runs []Run, stride int) []Run {
	out := make([]Run, len(runs))
	for i, r := range runs {
		out[i] = Run{Hole, r.N, 0}
		if r.From != Hole {
			out[i] = Run{r.From * stride, r.N, r.Step * stride}
		}
	}
	return out
}

// lengthened joins an axis whose runs are inSteps with whole axes of n elements after it.
func lengthened(runs []Run, n int) []Run {
	out := make([]Run, len(runs))
	for i, r := range runs {
		out[i] = Run{Hole, r.N * n, 1}
		if r.From != Hole {
			out[i].From = r.From * n
		}
	}
	return out
}

// Iterations returns the number of equal parts that the output can be divided into. If apart is true, the input has as many equal parts, and each part
// of the output shows its own.
func (p *PickPlan) Iterations() (n int, apart bool) {
	if p.apart {
		return p.axes[0].extent, true
	}
	return p.outer, false
}

// rowsOf returns how many innermost rows an iteration has.
func (p *PickPlan) rowsOf() int {
	if p.apart && p.axes[0].extent > 0 {
		return p.outer / p.axes[0].extent
	}
	return 1
}

// Pick writes the iterations [first, last) of the output: what they show of x, and fill where they show nothing. out and x are whole and do not overlap.
func Pick[T tensor.Element](p *PickPlan, out, x []T, fill T, first, last int) {
	rows := p.rowsOf()
	c := p.cursor(first * rows)
	for row := first * rows; row < last*rows; row++ {
		to := out[row*p.run:][:p.run]
		if c.holes > 0 {
			Fill(to, fill)
			c.next(p)
			continue
		}
		for _, r := range p.inner {
			part := to[:r.N]
			to = to[r.N:]
			switch {
			case r.From == Hole:
				Fill(part, fill)
			case r.N == 0:
			case r.Step == 1:
				copy(part, x[c.at+r.From:])
			case r.Step == 0:
				Fill(part, x[c.at+r.From])
			default:
				for i, from := 0, c.at+r.From; i < len(part); i, from = i+1, from+r.Step {
					part[i] = x[from]
				}
			}
		}
		c.next(p)
	}
}

// PickGrad overwrites dx with the sums of the elements of dout that show each element of the input, in their order. If Iterations says that parts are
// apart, it computes the iterations [first, last), else all.
func PickGrad[T tensor.Float](p *PickPlan, dx, dout []T, first, last int) {
	n, apart := p.Iterations()
	if !apart {
		first, last = 0, n
		clear(dx)
	} else {
		clear(dx[first*(p.inCount/n) : last*(p.inCount/n)])
	}
	rows := p.rowsOf()
	c := p.cursor(first * rows)
	for row := first * rows; row < last*rows; row++ {
		from := dout[row*p.run:][:p.run]
		for _, r := range p.inner {
			part := from[:r.N]
			from = from[r.N:]
			switch {
			case c.holes > 0 || r.From == Hole || r.N == 0:
			case r.Step == 1:
				Accumulate(dx[c.at+r.From:][:r.N], part)
			default:
				for i, to := 0, c.at+r.From; i < len(part); i, to = i+1, to+r.Step {
					dx[to] += part[i]
				}
			}
		}
		c.next(p)
	}
}

// A pickCursor walks over the rows of the innermost axis and knows the place in the input.
type pickCursor struct {
	run, within [maxRank]int // of each axis: the run, and the position within it
	at          int          // place in the input
	holes       int          // axes whose position shows nothing
}

// cursor returns a cursor at a row. No extent is 0, unless the plan has no rows.
func (p *PickPlan) cursor(row int) (c pickCursor) {
	if p.outer == 0 {
		return c
	}
	for i := len(p.axes) - 1; i >= 0; i-- {
		position := row % p.axes[i].extent
		row /= p.axes[i].extent
		for p.axes[i].runs[c.run[i]].N <= position {
			position -= p.axes[i].runs[c.run[i]].N
			c.run[i]++
		}
		c.within[i] = position
		c.count(p.axes[i].runs[c.run[i]], position, 1)
	}
	return c
}

// count adds the place of a position of a run, times sign.
func (c *pickCursor) count(r Run, within, sign int) {
	if r.From == Hole {
		c.holes += sign
		return
	}
	c.at += sign * (r.From + within*r.Step)
}

// next moves on by one row, from the last to the first.
func (c *pickCursor) next(p *PickPlan) {
	for i := len(p.axes) - 1; i >= 0; i-- {
		runs := p.axes[i].runs
		c.count(runs[c.run[i]], c.within[i], -1)
		c.within[i]++
		for c.run[i] < len(runs) && c.within[i] >= runs[c.run[i]].N {
			c.run[i], c.within[i] = c.run[i]+1, 0
		}
		done := c.run[i] < len(runs)
		if !done {
			c.run[i], c.within[i] = 0, 0
			for runs[c.run[i]].N == 0 {
				c.run[i]++
			}
		}
		c.count(runs[c.run[i]], c.within[i], 1)
		if done {
			return
		}
	}
}
