package layers

import (
	"maps"
	"slices"
)

func sortedSlots(in In) []string { return slices.Sorted(maps.Keys(in)) }

// names returns the names of variables by slot. Empty slots are left out.
func names(in In) map[string][]string {
	out := map[string][]string{}
	for slot, vs := range in {
		for _, v := range vs {
			out[slot] = append(out[slot], v.Name())
		}
	}
	return out
}
