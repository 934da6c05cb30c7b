package export

import (
	"slices"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// widened returns a program with tables of float32 in place of those of bfloat16 that nothing but lookups by row numbers reads.
func widened(p *program.Program) *program.Program {
	wide, block := p, p.Global()
	for name := range block.Uses() {
		v, ok := block.Var(name)
		if !ok || v.DType != tensor.BFloat16 || !OnlyLookedUp(p, name) {
			continue
		}
		if wide == p {
			wide = p.Clone()
		}
		other, _ := wide.Global().Var(name)
		other.DType = tensor.Float32
	}
	return wide
}

// OnlyLookedUp reports whether nothing but lookups by row numbers reads a variable. It may be stored as float32 or as bfloat16: the program computes the same if it is declared so.
func OnlyLookedUp(p *program.Program, name string) bool {
	block := p.Global()
	return !slices.ContainsFunc(block.Uses()[name].Readers, func(at int) bool {
		return !slices.Contains([]string{"lookup_table", "lookup_table_v2", "fused_embedding_seq_pool"}, block.Ops[at].Type)
	})
}

// wide returns a copy of a tensor of bfloat16 as float32, which is exact.
func wide(t *tensor.Tensor) (*tensor.Tensor, error) {
	out, err := tensor.New(tensor.Float32, t.Dims()...)
	if err != nil {
		return nil, err
	}
	kernel.FromBFloat16(out.Float32s(), tensor.Data[uint16](t))
	return out, nil
}
