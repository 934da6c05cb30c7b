package program_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestDeclaredDimsOfDeterminants(t *testing.T) {
	for _, c := range []struct {
		op                string
		version           int64
		x, declared, want []int64
	}{
		{"determinant", 2001000, []int64{-1, 3, 3}, nil, []int64{-1}},
		{"determinant", 2003000, []int64{3, 3}, []int64{3, 3}, []int64{1}},
		{"determinant", 2005000, []int64{3, 3}, nil, nil},
		{"slogdeterminant", 2001000, []int64{3, 3}, nil, []int64{2, 1}},
		{"slogdeterminant", 2005000, []int64{-1, 3, 3}, []int64{-1, 3, 3}, []int64{2, -1}},
		{"slogdeterminant", 2005000, []int64{5, 3, 3}, []int64{2, 5}, []int64{2, 5}},
	} {
		p := program.New()
		p.Version = c.version
		p.Global().EnsureVar(program.Var{Name: "x", Kind: program.LoDTensor, DType: tensor.Float32, Dims: c.x})
		p.Global().EnsureVar(program.Var{Name: "out", Kind: program.LoDTensor, DType: tensor.Float32, Dims: c.declared})
		p.Global().Append(&program.Op{Type: c.op, Inputs: map[string][]string{"Input": {"x"}}, Outputs: map[string][]string{"Out": {"out"}}})
		if v, _ := decode(t, encode(t, p)).Global().Var("out"); !slices.Equal(v.Dims, c.want) {
			t.Errorf("%s of %v, declared %v in %d: got %v, want %v", c.op, c.x, c.declared, c.version, v.Dims, c.want)
		}
	}
}
