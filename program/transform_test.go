package program_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// training adds what an optimizer adds to regression: gradients, a learning-rate schedule and an update.
func training(t *testing.T) *program.Program {
	p := regression(t)
	b := p.Global()
	for _, name := range []string{"fc_0.w_0@GRAD", "loss@GRAD", "rate"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: name == "rate"})
	}
	b.Ops[0].SetAttr("is_test", int32(0))
	add := func(opType string, role program.Role, in, out string) {
		op := b.Append(&program.Op{Type: opType, Inputs: map[string][]string{"X": {in}}, Outputs: map[string][]string{"Out": {out}}})
		op.SetRole(role)
		op.SetRoleVar("fc_0.w_0", "fc_0.w_0@GRAD")
	}
	add("increment", program.RoleLRSched, "rate", "rate")
	add("fill_constant", program.RoleBackward|program.RoleLoss, "loss", "loss@GRAD")
	add("mean_grad", program.RoleBackward, "loss@GRAD", "fc_0.w_0@GRAD")
	add("sgd", program.RoleOptimize, "fc_0.w_0@GRAD", "fc_0.w_0")
	p.Startup.Global().EnsureVar(program.Var{Name: "rate", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: true})
	p.Startup.Global().Append(&program.Op{Type: "fill_constant", Outputs: map[string][]string{"Out": {"rate"}}})
	return p
}

func types(b *program.Block) []string {
	var all []string
	for _, op := range b.Ops {
		all = append(all, op.Type)
	}
	return all
}

func has(b *program.Block, name string) bool { _, ok := b.Var(name); return ok }

func requireEqual[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestACloneSharesNothing(t *testing.T) {
	p := training(t)
	before := encode(t, p)
	c := p.Clone()
	c.Global().Ops[0].Inputs["X"][0] = "changed"
	c.Global().Ops[0].SetAttr("x_num_col_dims", int32(9))
	c.Global().Vars()[0].Dims[0] = 77
	c.Global().RemoveVar("loss")
	c.Global().Ops = c.Global().Ops[:1]
	c.Startup.Global().Ops[0].Attrs["shape"].([]int64)[0] = 5
	c.NewBlock(c.Global())
	if !bytes.Equal(encode(t, p), before) {
		t.Error("a change of the clone changed the original")
	}
	if c.Global().Program() != c || c.Startup.Global().Program() != c.Startup {
		t.Error("blocks of the clone belong to another program")
	}
}

func TestCloneForTestDropsTraining(t *testing.T) {
	p := training(t)
	p.Global().Insert(1, &program.Op{Type: "dropout", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"x"}}})
	c := p.CloneForTest()
	requireEqual(t, "ops", types(c.Global()), []string{"mul", "dropout", "elementwise_add", "elementwise_sub", "square", "mean"})
	for name, want := range map[string]bool{"rate": false, "loss@GRAD": false, "fc_0.w_0": true, "y": true, "loss": true} {
		if has(c.Global(), name) != want {
			t.Errorf("variable %s is there: %v, want %v", name, !want, want)
		}
	}
	if got := c.Global().Ops[0].Attrs["is_test"]; got != int32(1) {
		t.Errorf("is_test of mul is %v, want it in its own type", got)
	}
	if got := c.Global().Ops[1].Attrs["is_test"]; got != true {
		t.Errorf("is_test of dropout is %v", got)
	}
	if _, ok := c.Global().Ops[2].Attrs["is_test"]; ok {
		t.Error("elementwise_add got is_test")
	}
	if got := len(c.Startup.Global().Ops); got != 2 || has(c.Startup.Global(), "rate") {
		t.Errorf("%d startup ops are left, and the rate: %v", got, has(c.Startup.Global(), "rate"))
	}
	if len(p.Global().Ops) != 10 || p.Global().Ops[0].Attrs["is_test"] != int32(0) {
		t.Error("the original changed")
	}
}

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

// nested returns a program whose block 0 has a while op (block 2, inside of it block 3) and a grad op that owns block 1.
func nested(t *testing.T) *program.Program {
	p := program.New()
	b := p.Global()
	for _, name := range []string{"i", "sum", "other"} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	}
	gradient, body := p.NewBlock(b), p.NewBlock(b)
	inner := p.NewBlock(body)
	body.EnsureVar(program.Var{Name: "local", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	gradient.Forward = body.Index
	step := func(b *program.Block, opType, in, out string, sub ...program.BlockIndex) {
		op := b.Append(&program.Op{Type: opType, Inputs: map[string][]string{"X": {in}}, Outputs: map[string][]string{"Out": {out}}})
		if len(sub) == 1 {
			op.SetAttr("sub_block", sub[0])
		} else if sub != nil {
			op.SetAttr("blocks", sub)
		}
	}
	step(b, "fill", "i", "i")
	step(b, "while", "i", "i", 2)
	step(b, "while_grad", "i", "other", 1)
	b.Ops[2].SetRole(program.RoleBackward)
	step(body, "scale", "i", "local")
	step(body, "cond", "local", "local", 3, 3)
	step(inner, "add", "local", "sum")
	return p
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

func TestRenameReachesEveryUse(t *testing.T) {
	p := nested(t)
	p.Blocks[3].Ops[0].SetRoleVar("sum", "i")
	if err := p.Global().Rename("sum", "total"); err != nil {
		t.Fatal(err)
	}
	if got := p.Blocks[3].Ops[0]; got.Out("Out") != "total" || got.RoleVars()[0] != [2]string{"total", "i"} {
		t.Errorf("the op in the innermost block is %+v", got)
	}
	if has(p.Global(), "sum") || !has(p.Global(), "total") {
		t.Error("the declaration has the old name")
	}
	encode(t, p)

	// A variable of the same name in a sub-block is another one.
	p = nested(t)
	p.Blocks[2].EnsureVar(program.Var{Name: "i", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	if err := p.Global().Rename("i", "step"); err != nil {
		t.Fatal(err)
	}
	if got := p.Blocks[2].Ops[0].In("X"); got != "i" {
		t.Errorf("the shadowing variable became %s", got)
	}
	requireFault(t, p.Global().Rename("step", "sum"), fault.InvalidArgument, "taken")
	requireFault(t, p.Global().Rename("sum", "local"), fault.InvalidArgument, "taken")
	requireFault(t, p.Global().Rename("absent", "x"), fault.NotFound)
	requireFault(t, p.Global().Rename("sum", ""), fault.InvalidArgument)
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
