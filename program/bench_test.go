package program_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// wide returns a program of n ops that each read two variables and carry three attributes.
func wide(n int) *program.Program {
	p := program.New()
	b := p.Global()
	for i := range n {
		name := fmt.Sprintf("fc_%d.tmp_0", i)
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{program.Unknown, 64}})
		op := b.Append(&program.Op{Type: "mul", Inputs: map[string][]string{"X": {"fc_0.tmp_0"}, "Y": {name}}, Outputs: map[string][]string{"Out": {name}}})
		op.SetAttr("x_num_col_dims", int32(1))
		op.SetAttr("y_num_col_dims", int32(1))
		op.SetLine(fmt.Sprintf("model/net.go:%d", i))
	}
	return p
}

func BenchmarkDecode1000Ops(b *testing.B) {
	data := encode(b, wide(1000))
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		decode(b, data)
	}
}

func BenchmarkEncode1000Ops(b *testing.B) {
	p := wide(1000)
	b.ReportAllocs()
	for b.Loop() {
		encode(b, p)
	}
}

func BenchmarkPrune1000Ops(b *testing.B) {
	p := wide(1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Prune("fc_999.tmp_0"); err != nil {
			b.Fatal(err)
		}
	}
}
