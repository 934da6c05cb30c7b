package transpiler

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// An item is what placement sees of something that must live on one server.
type item struct {
	name  string // by which HashName chooses
	bytes int64
}

// place returns the server of each item. It depends on nothing but its arguments.
func place(items []item, servers int, method string) []int {
	if method == HashName {
		return placeByName(items, servers)
	}
	return placeInTurn(items, servers)
}

// placeInTurn deals the largest item first, each to the server with the fewest bytes. Equal items go in their own order and
// equal servers in order of index. Dealing in plain turn, as Fluid does, would put every weight on one of two servers and every bias on
// the other when they alternate.
func placeInTurn(items []item, servers int) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(items[b].bytes, items[a].bytes) })
	loads, counts := make([]int64, servers), make([]int, servers)
	placed := make([]int, len(items))
	for _, i := range order {
		best := 0
		for s := 1; s < servers; s++ {
			if loads[s] < loads[best] || loads[s] == loads[best] && counts[s] < counts[best] {
				best = s
			}
		}
		placed[i] = best
		loads[best] += items[i].bytes
		counts[best]++
	}
	return placed
}

func placeByName(items []item, servers int) []int {
	placed := make([]int, len(items))
	for i, it := range items {
		h := fnv.New32a()
		h.Write([]byte(it.name))
		placed[i] = int(h.Sum32() % uint32(servers))
	}
	return placed
}
