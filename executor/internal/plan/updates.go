package plan

// smallUpdate is up to how many bytes an update reads and writes to run together with others; larger ones fill the cores by
// themselves.
const smallUpdate = 500_000

// updates makes steps of the pieces of the update. A small loop moves up to the first step of small loops that comes after everything that it must
// come after, and becomes one more chain of it.
func (c *compiler) updates(pieces []*piece) []step {
	var steps []step
	var small []bool                                          // by step: it takes further loops
	read, written := map[*variable]int{}, map[*variable]int{} // the last step that does so
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
		at, fits := len(steps), p.isLoop() && p.loop.N > 0 && p.cost.Bytes < smallUpdate && !c.without(FuseUpdates)
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
