package plan

// shareViews lets the results of pieces that only copy, such as reshape2 and the gradient of an addition, share the elements of what they copy, and
// leaves these pieces out. That is right where neither is written again: the one because it is written by the copy alone, the other because
// nothing after the copy writes it.
func (c *compiler) shareViews() {
	writes := map[*variable]int{}    // how many pieces write it
	lastWrite := map[*variable]int{} // the last of them
	for i, p := range c.pieces {
		for _, v := range p.writes {
			writes[v]++
			lastWrite[v] = i
		}
	}
	kept := c.pieces[:0]
	for i, p := range c.pieces {
		if p.isLoop() && p.loop.Copies && len(p.reads) == 1 && len(p.writes) == 1 {
			from, to := p.reads[0], p.writes[0]
			at, written := lastWrite[from]
			if to.place == temporary && from != to && writes[to] == 1 && (!written || at < i) {
				c.replace(to, from, i)
				continue
			}
		}
		kept = append(kept, p)
	}
	c.pieces = kept
}

// replace makes every piece after one that read a variable read the one whose elements it shares.
func (c *compiler) replace(view, of *variable, after int) {
	view.viewOf = of
	for _, p := range c.pieces[after+1:] {
		for _, list := range [][]*variable{p.reads, p.whole} {
			for i, v := range list {
				if v == view {
					list[i] = of
				}
			}
		}
	}
}

// elementsOf returns the variable in whose elements v lies.
func elementsOf(v *variable) *variable {
	for v.viewOf != nil {
		v = v.viewOf
	}
	return v
}
