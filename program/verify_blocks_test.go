package program_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/program"
)

func TestBlocksMustNotLeadBackToThemselves(t *testing.T) {
	build := func(parents ...int) *program.Program {
		p := program.New()
		for _, parent := range parents {
			p.NewBlock(nil).Parent = parent
		}
		return p
	}
	refer := func(p *program.Program, from int, to ...program.BlockIndex) *program.Program {
		p.Blocks[from].Append(&program.Op{Type: "while", Attrs: map[string]program.Attr{"sub_block": to}})
		return p
	}
	chain := build()
	for i := range 70 {
		chain.NewBlock(chain.Blocks[i])
	}
	global := build(0)
	global.Blocks[0].Parent = 1
	moved := build(0)
	moved.Blocks[1].Index = 5
	forward := build(0)
	forward.Blocks[1].Forward = 9
	tests := map[string]struct {
		p    *program.Program
		want string
	}{
		"parents":                  {build(2, 1), "block cycle 1 → 2 → 1"},
		"own parent":               {build(1), "block cycle 1 → 1"},
		"sub-block of itself":      {refer(build(0), 1, 1), "block cycle 1 → 1"},
		"sub-block is the parent":  {refer(build(0, 1), 2, 1), "block cycle 1 → 2 → 1"},
		"sub-block is the global":  {refer(build(0), 1, 0), "block cycle 0 → 1 → 0"},
		"sub-blocks of each other": {refer(refer(build(0, 0, 0), 1, 2), 2, 1), "block cycle 1 → 2 → 1"},
		"parent out of range":      {build(7), "block 1; parent 7; want -1 to 1"},
		"negative parent":          {build(math.MinInt32), "block 1; parent -2147483648"},
		"global with a parent":     {global, "block 0; parent 1"},
		"index":                    {moved, "block 1; index 5"},
		"forward out of range":     {forward, "block 1; forward block 9"},
		"too deep":                 {chain, "65 enclosing blocks; at most 64"},
		"no block":                 {&program.Program{}, "no block"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { requireFaults(t, verify(test.p), test.want) })
	}
	requireFaults(t, verify(refer(build(0), 0, 2, -1)), "block 0, op 0; block 2; \"sub_block\"; want 1 to 1", "block -1")
	// Two ops may own one block, as an op and its gradient do.
	requireFaults(t, verify(refer(refer(build(0), 0, 1), 0, 1)))
}
