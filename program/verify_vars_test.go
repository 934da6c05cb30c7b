package program_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestVariablesMustBePossible(t *testing.T) {
	tests := map[string]struct {
		v    program.Var
		want []string
	}{
		"open batch":           {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 784}}, nil},
		"huge but sparse":      {program.Var{Kind: program.SelectedRows, DType: tensor.Float32, Dims: []int64{1 << 33, 8}}, nil},
		"zero":                 {program.Var{Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{0, 1 << 40}}, nil},
		"raw":                  {program.Var{Kind: program.Raw}, nil},
		"rank":                 {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: make([]int64, 1000)}, []string{"rank 1000; at most 16"}},
		"negative extent":      {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-2}}, []string{"dims [-2]"}},
		"overflowing product":  {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1 << 32, -1, 1 << 31}}, []string{"2^63"}},
		"overflow in bytes":    {program.Var{Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{1 << 60}}, []string{"2^63"}},
		"element type":         {program.Var{Kind: program.LoDTensor, DType: 99}, []string{"dtype(99)"}},
		"kind as element type": {program.Var{Kind: program.LoDTensor, DType: 7}, []string{"dtype(7)"}},
		"kind":                 {program.Var{Kind: 99}, []string{"kind 99"}},
		"element type as kind": {program.Var{Kind: 20}, []string{"kind 20"}},
		"LoD":                  {program.Var{Kind: program.LoDTensor, DType: tensor.Float32, LoDLevel: 100}, []string{"LoD level 100"}},
		"field of a reader": {program.Var{Kind: program.Reader,
			Fields: []program.Var{{DType: tensor.Int64}, {DType: tensor.Int64, Dims: []int64{-7}}}}, []string{"field 1; dims [-7]"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := program.New()
			test.v.Name = "it"
			p.Global().EnsureVar(test.v)
			err := verify(p)
			requireFaults(t, err, test.want...)
			if err != nil && !strings.Contains(err.Error(), `block 0, variable "it"`) {
				t.Errorf("%v does not name the variable", err)
			}
		})
	}
	// A file that does not say of what a tensor is.
	requireFaults(t, verify(decode(t, block([]byte("\x1a\x07\x0a\x01x\x12\x02\x08\x07")))), "no element type")
}

func TestAnInnerVariableMustNotChangeTheTypeOfAnOuterOne(t *testing.T) {
	p := nested(t)
	p.Blocks[3].EnsureVar(program.Var{Name: "i", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown}})
	requireFaults(t, verify(p))
	p.Blocks[3].EnsureVar(program.Var{Name: "sum", Kind: program.LoDTensor, DType: tensor.Int64, Dims: []int64{1}})
	requireFaults(t, verify(p), `block 3; "sum"; int64[1]; float32[1]`)
}
