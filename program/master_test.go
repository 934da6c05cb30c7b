package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An update of a parameter that is kept twice changes its master, and the parameter is a copy of it. Others stay as they are.
func TestMastersAreUpdated(t *testing.T) {
	for master, want := range map[string]int{"master": 2, "another": 1} {
		p := program.New()
		for name, dtype := range map[string]tensor.DType{"w": tensor.Float16, "g": tensor.Float16, "v": tensor.Float32, "rate": tensor.Float32, "master": tensor.Float32, "another": tensor.Float32} {
			p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: []int64{2}, Persistable: name != "g"})
		}
		op := p.Global().Append(&program.Op{Type: "momentum", Inputs: map[string][]string{"Param": {"w"}, "Grad": {"g"}, "Velocity": {"v"}, "LearningRate": {"rate"}, "MasterParam": {"master"}},
			Outputs: map[string][]string{"ParamOut": {"w"}, "VelocityOut": {"v"}, "MasterParamOut": {master}}, Attrs: map[string]program.Attr{"mu": float32(0.9), "multi_precision": true}})
		op.SetRole(program.RoleOptimize)
		list := decode(t, encode(t, p)).Global().Ops
		if len(list) != want {
			t.Errorf("MasterParamOut %s: %d ops, want %d", master, len(list), want)
		}
		if want == 1 {
			continue
		}
		twice, _ := list[0].Bool("multi_precision")
		if list[0].In("Param") != "master" || list[0].Out("ParamOut") != "master" || len(list[0].Inputs["MasterParam"])+len(list[0].Outputs["MasterParamOut"]) != 0 || twice ||
			list[1].Type != "assign" || list[1].In("X") != "master" || list[1].Out("Out") != "w" || !list[1].Role().Has(program.RoleOptimize) {
			t.Errorf("got %v and %v", list[0], list[1])
		}
	}
}
