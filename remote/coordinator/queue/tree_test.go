package queue

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A tree has what a map would have, in order. A change makes another tree and leaves the one before as it was.
func TestTreeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var now tree[int]
		model := map[key]int{}
		type version struct {
			tree  tree[int]
			model map[key]int
		}
		var versions []version
		keys := rapid.Custom(func(t *rapid.T) key {
			return key{rapid.Int64Range(-2, 3).Draw(t, "first"), rapid.Int64Range(-2, 3).Draw(t, "second")}
		})
		for i := range rapid.IntRange(0, 60).Draw(t, "steps") {
			versions = append(versions, version{now, maps.Clone(model)})
			if k := keys.Draw(t, "key"); rapid.Bool().Draw(t, "put") {
				now, model[k] = now.put(k, i), i
			} else {
				now = now.delete(k)
				delete(model, k)
			}
		}
		from := keys.Draw(t, "from")
		for _, v := range append(versions, version{now, model}) {
			order := slices.SortedFunc(maps.Keys(v.model), func(a, b key) int {
				if a.less(b) {
					return -1
				}
				return 1
			})
			if v.tree.len != len(order) {
				t.Fatalf("%d of %d", v.tree.len, len(order))
			}
			if k, _, ok := v.tree.first(); ok != (len(order) > 0) || ok && k != order[0] {
				t.Fatalf("first %v of %v", k, order)
			}
			order = slices.DeleteFunc(order, func(k key) bool { return k.less(from) })
			for k, value := range v.tree.from(from) {
				if k != order[0] || value != v.model[k] {
					t.Fatalf("%v, want %v", k, order[0])
				}
				order = order[1:]
			}
			if got, ok := v.tree.get(from); len(order) > 0 || got != v.model[from] || ok != hasKey(v.model, from) {
				t.Fatalf("%v at %v, and %d are missing", got, from, len(order))
			}
		}
	})
}

func hasKey(m map[key]int, k key) bool {
	_, ok := m[k]
	return ok
}
