package program_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

func TestPruneKeepsWhatTheTargetNeeds(t *testing.T) {
	c, err := training(t).Prune("fc_0.tmp_1")
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(c.Global()), []string{"mul", "elementwise_add", "increment", "fill_constant", "mean_grad", "sgd"}[:2])
	var names []string
	for _, v := range c.Global().Vars() {
		names = append(names, v.Name)
	}
	requireEqual(t, "variables", names, []string{"x", "fc_0.w_0", "fc_0.b_0", "fc_0.tmp_0", "fc_0.tmp_1"})

	c, err = training(t).Prune("fc_0.w_0")
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops for an updated parameter", types(c.Global())[5:], []string{"fill_constant", "mean_grad", "sgd"})

	_, err = training(t).Prune("absent")
	requireFault(t, err, fault.NotFound, `"absent"`)
}

func TestSubBlocksCountForTheOpThatOwnsThem(t *testing.T) {
	p := nested(t)
	uses := p.Global().Uses()
	requireEqual(t, "writers of sum", uses["sum"].Writers, []int{1})
	requireEqual(t, "readers of i", uses["i"].Readers, []int{0, 1, 2})
	requireEqual(t, "writers of i", uses["i"].Writers, []int{0, 1})
	if _, ok := uses["local"]; ok {
		t.Error("a variable of the sub-block shows outside")
	}
	requireEqual(t, "reachable", p.Reachable(), []bool{true, true, true, true})

	c, err := p.Prune("sum")
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(c.Global()), []string{"fill", "while"})
	if len(c.Blocks) != 3 {
		t.Fatalf("%d blocks are left, want 3", len(c.Blocks))
	}
	if sub, _ := c.Global().Ops[1].SubBlock("sub_block"); sub != 1 || c.Blocks[1].Index != 1 || c.Blocks[2].Parent != 1 {
		t.Errorf("the body is block %d, index %d, its child's parent %d", sub, c.Blocks[1].Index, c.Blocks[2].Parent)
	}
	requireEqual(t, "blocks of cond", c.Blocks[1].Ops[1].SubBlocks(), []program.BlockIndex{2, 2})

	// Dropping what a block is the gradient of leaves it a block of its own.
	p.Global().Ops = append(p.Global().Ops[:1], p.Global().Ops[2])
	kept, err := p.Prune("other")
	if err != nil {
		t.Fatal(err)
	}
	if len(kept.Blocks) != 2 || kept.Blocks[1].Forward != program.NoBlock {
		t.Errorf("%d blocks, forward %d", len(kept.Blocks), kept.Blocks[1].Forward)
	}
}
