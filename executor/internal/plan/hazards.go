package plan

import (
	"slices"
)

// A touch is one use of memory that later steps must be ordered against.
type touch struct {
	span
	step  int
	write bool
}

// hazards returns for each step the earlier steps that must be done before it: those that write what it reads (data), and those that
// read or write memory that it writes (reuse). Ops that reach outside of the process keep their order among each other.
func (c *compiler) hazards() [][]int {
	outside := c.newSpace(1)
	predecessors := make([][]int, len(c.plan.steps))
	live := map[int][]touch{} // by space: the touches that may still be overlapped
	for i := range c.plan.steps {
		var touches []touch
		for _, p := range c.plan.steps[i].pieces {
			p.touches(func(v *variable, write bool) { touches = append(touches, touch{v.span, i, write}) })
			if p.goesOutside() {
				touches = append(touches, touch{outside, i, true})
			}
		}
		for _, t := range touches {
			for _, earlier := range live[t.space] {
				if earlier.step != i && earlier.overlaps(t.span) && (earlier.write || t.write) {
					predecessors[i] = append(predecessors[i], earlier.step)
				}
			}
		}
		for _, t := range touches {
			live[t.space] = append(forget(live[t.space], t), t)
		}
		slices.Sort(predecessors[i])
		predecessors[i] = slices.Compact(predecessors[i])
	}
	return predecessors
}

// forget drops the touches that t hides: whoever is ordered after a write is ordered after everything the write was ordered after.
func forget(live []touch, t touch) []touch {
	if !t.write {
		return live
	}
	return slices.DeleteFunc(live, func(earlier touch) bool {
		return earlier.step != t.step && t.from <= earlier.from && earlier.to <= t.to
	})
}
