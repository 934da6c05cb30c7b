package program_test

import (
	"bytes"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

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

func TestHashIgnoresOnlyTheLinesOfUserCode(t *testing.T) {
	hash := func(p *program.Program) program.Hash {
		h, err := p.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	p, moved, changed := regression(t), regression(t), regression(t)
	moved.Global().Ops[0].SetLine("other/place.go:99")
	changed.Startup.Global().Ops[0].SetAttr("value", float32(0.25))
	if hash(p) != hash(moved) {
		t.Error("moving user code made another program")
	}
	if hash(p) == hash(changed) {
		t.Error("another initial value made no other program")
	}
	if h := hash(p); len(h.String()) != 64 || h.String()[:12] != h.Short() {
		t.Errorf("hash %s, short %s", h, h.Short())
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
