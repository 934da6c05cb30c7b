package transpiler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPlaceInTurn(t *testing.T) {
	items := func(bytes ...int64) []item {
		out := make([]item, len(bytes))
		for i, b := range bytes {
			out[i].bytes = b
		}
		return out
	}
	for name, test := range map[string]struct {
		items   []item
		servers int
		want    []int
	}{
		"equal sizes go in turn":            {items(8, 8, 8, 8, 8), 3, []int{0, 1, 2, 0, 1}},
		"weights and biases alternate":      {items(100, 1, 100, 1), 2, []int{0, 0, 1, 1}},
		"nothing weighs":                    {items(0, 0, 0), 2, []int{0, 1, 0}},
		"one large against several small":   {items(1, 1, 1, 3), 2, []int{1, 1, 1, 0}},
		"more servers than items":           {items(4), 5, []int{0}},
		"one server takes everything":       {items(4, 2, 9), 1, []int{0, 0, 0}},
		"slices of one variable spread out": {items(50, 50, 10), 2, []int{0, 1, 0}},
	} {
		if got := place(test.items, test.servers, RoundRobin); !slices.Equal(got, test.want) {
			t.Errorf("%s: servers %v, want %v", name, got, test.want)
		}
	}
}

// Greedy placement keeps the fullest server within one item of the emptiest.
func TestPlaceInTurnIsBalanced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1000), 0, 40).Draw(t, "bytes")
		servers := rapid.IntRange(1, 8).Draw(t, "servers")
		items := make([]item, len(sizes))
		for i, b := range sizes {
			items[i].bytes = b
		}
		loads := make([]int64, servers)
		for i, s := range place(items, servers, RoundRobin) {
			loads[s] += sizes[i]
		}
		if largest := slices.Max(append(sizes, 0)); slices.Max(loads)-slices.Min(loads) > largest {
			t.Fatalf("loads %v differ by more than the largest item %d", loads, largest)
		}
	})
}

// The hash is part of the contract: a changed value would move parameters of jobs that resume from a checkpoint.
func TestPlaceByNameIsStable(t *testing.T) {
	got := place([]item{{name: "fc_0.w_0.block0"}, {name: "fc_0.w_0.block1"}, {name: "fc_0.b_0"}, {name: ""}}, 7, HashName)
	if want := []int{2, 0, 2, 2}; !slices.Equal(got, want) {
		t.Errorf("servers %v, want %v", got, want)
	}
}
