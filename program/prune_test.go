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

func TestInferenceProgram(t *testing.T) {
	c, err := training(t).InferenceProgram([]string{"x", "y"}, []string{"loss", "fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(c.Global()), []string{"feed", "feed", "mul", "elementwise_add", "elementwise_sub", "square", "mean", "fetch", "fetch"})
	if got := c.Global().Ops[0].Out("Out"); got != "y" {
		t.Errorf("the first feed op fills %s, want the last feed as in Fluid's files", got)
	}
	requireEqual(t, "feeds", c.Feeds(), []string{"x", "y"})
	requireEqual(t, "targets", c.Targets(), []string{"loss", "fc_0.tmp_1"})
	if v, _ := c.Global().Var("feed"); v == nil || v.Kind != program.FeedMinibatch || !v.Persistable {
		t.Errorf("the feed variable is %+v", v)
	}
	again, err := c.InferenceProgram([]string{"fc_0.tmp_0"}, []string{"fc_0.tmp_1"})
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops of a part", types(again.Global()), []string{"feed", "elementwise_add", "fetch"})

	_, err = training(t).InferenceProgram([]string{"x"}, []string{"loss"})
	requireFault(t, err, fault.InvalidArgument, `"y"`, "neither fed", "fit.go:12")
	_, err = training(t).InferenceProgram([]string{"x", "y"}, []string{"fc_0.tmp_1"})
	requireFault(t, err, fault.InvalidArgument, `"y"`, "do not depend")
	_, err = training(t).InferenceProgram([]string{"z"}, []string{"loss"})
	requireFault(t, err, fault.NotFound, `"z"`)
	_, err = training(t).InferenceProgram([]string{"x"}, nil)
	requireFault(t, err, fault.InvalidArgument, "no target")
}

func TestRealInferenceFilesNameTheirFeedsAndTargets(t *testing.T) {
	data := models(t)
	p := decode(t, data["word2vec/__model__"])
	if feeds, targets := p.Feeds(), p.Targets(); len(feeds) != 4 || len(targets) != 1 {
		t.Errorf("feeds %v, targets %v", feeds, targets)
	}
	rebuilt, err := p.InferenceProgram(p.Feeds(), p.Targets())
	if err != nil {
		t.Fatal(err)
	}
	requireEqual(t, "ops", types(rebuilt.Global()), types(p.Global()))
}
