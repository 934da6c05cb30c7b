package program_test

import (
	"bytes"
	"testing"

	"github.com/edl-go/edl/program"
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
