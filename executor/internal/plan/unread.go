package plan

import "slices"

// dropUnread leaves out pieces whose results nobody reads: gradients of what is not trained, and metrics that are not fetched.
func (c *compiler) dropUnread() {
	needed := map[*variable]bool{}
	var kept []*piece
	for _, p := range slices.Backward(c.pieces) {
		if !p.hasEffect(needed) {
			continue
		}
		for _, v := range p.reads {
			needed[v] = true
		}
		kept = append(kept, p)
	}
	slices.Reverse(kept)
	c.pieces = kept
}

// hasEffect reports whether something that outlives the run, or something needed, is written, or the world outside is reached.
func (p *piece) hasEffect(needed map[*variable]bool) bool {
	return p.goesOutside() || len(p.writes) == 0 || slices.ContainsFunc(p.writes, func(v *variable) bool {
		return v.place != temporary || needed[v]
	})
}
