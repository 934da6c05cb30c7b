package listen

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/listen/supervise"
)

// lostFirst puts the roles that have lost their leases before the others, which may have ended because of them.
func lostFirst(roles []supervise.Role) []supervise.Role {
	isLost := func(r supervise.Role) bool { return r.Lost }
	lost := slices.DeleteFunc(slices.Clone(roles), func(r supervise.Role) bool { return !isLost(r) })
	return append(lost, slices.DeleteFunc(roles, isLost)...)
}

// rootFirst sorts waits: those for someone who waits for nobody come first, then those for them, and so on; among equals the one that lasts longest.
func rootFirst(waits []*job.Wait) []*job.Wait {
	waitsOf := map[string][]*job.Wait{}
	for _, w := range waits {
		waitsOf[w.Who] = append(waitsOf[w.Who], w)
	}
	var depth func(w *job.Wait, path []string) int
	depth = func(w *job.Wait, path []string) int {
		deepest := 0
		for _, name := range w.By {
			if slices.Contains(path, name) {
				continue // a circle has no root
			}
			for _, next := range waitsOf[name] {
				deepest = max(deepest, 1+depth(next, append(path, name)))
			}
		}
		return deepest
	}
	depths := map[*job.Wait]int{}
	for _, w := range waits {
		depths[w] = depth(w, []string{w.Who})
	}
	out := slices.Clone(waits)
	slices.SortStableFunc(out, func(a, b *job.Wait) int {
		return cmp.Or(cmp.Compare(depths[a], depths[b]), a.Since.AsTime().Compare(b.Since.AsTime()))
	})
	return out
}
