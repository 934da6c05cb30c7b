package executor

import (
	"cmp"
	"slices"

	"github.com/edl-go/edl/program"
)

// FeedNames returns the variables that the feed ops of a saved program fill, ordered by their col attribute. It is empty for a
// program without feed ops.
func FeedNames(p *program.Program) []string {
	return border(p, "feed", func(op *program.Op) string { return op.Out("Out") })
}

// FetchNames returns the variables that the fetch ops of a saved program deliver, ordered by their col attribute.
func FetchNames(p *program.Program) []string {
	return border(p, "fetch", func(op *program.Op) string { return op.In("X") })
}

func border(p *program.Program, opType string, variable func(*program.Op) string) []string {
	var found []*program.Op
	for _, op := range p.Global().Ops {
		if op.Type == opType && variable(op) != "" {
			found = append(found, op)
		}
	}
	slices.SortStableFunc(found, func(a, b *program.Op) int {
		i, _ := a.Int("col")
		j, _ := b.Int("col")
		return cmp.Compare(i, j)
	})
	names := make([]string, len(found))
	for i, op := range found {
		names[i] = variable(op)
	}
	return names
}
