package program_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

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
