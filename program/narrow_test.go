package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Bytes that are fed become int32 where they are cast before anything computes with them.
func TestFedBytesAreWiderIntegers(t *testing.T) {
	op := func(kind, from, to string) *program.Op {
		op := &program.Op{Type: kind, Inputs: map[string][]string{"X": {from}}, Outputs: map[string][]string{"Out": {to}}, Attrs: map[string]program.Attr{}}
		if kind == "cast" {
			op.Attrs["in_dtype"], op.Attrs["out_dtype"] = int32(tensor.UInt8), int32(tensor.Float32)
		}
		return op
	}
	for name, c := range map[string]struct {
		ops  []*program.Op
		want tensor.DType
	}{
		"cast":              {[]*program.Op{op("cast", "x", "y")}, tensor.Int32},
		"moved and cast":    {[]*program.Op{op("reshape2", "x", "m"), op("cast", "m", "y")}, tensor.Int32},
		"cast and computed": {[]*program.Op{op("cast", "x", "y"), op("relu", "x", "m")}, tensor.UInt8},
		"moved and fetched": {[]*program.Op{op("transpose2", "x", "m"), op("cast", "m", "y"), op("fetch", "m", "f")}, tensor.UInt8},
		"moved in a circle": {[]*program.Op{op("assign", "x", "m"), op("assign", "m", "m")}, tensor.UInt8},
		"written":           {[]*program.Op{op("relu", "y", "x"), op("cast", "x", "m")}, tensor.UInt8},
	} {
		p := program.New()
		for _, name := range []string{"x", "y", "m"} {
			p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.UInt8, Dims: []int64{2, 2}})
		}
		for _, op := range c.ops {
			p.Global().Append(op)
		}
		read := decode(t, encode(t, p))
		x, _ := read.Global().Var("x")
		if x.DType != c.want {
			t.Errorf("%s: x is %v, want %v", name, x.DType, c.want)
		}
		for _, op := range read.Global().Ops {
			if from, ok := op.Int("in_dtype"); ok && tensor.DType(from) != c.want {
				t.Errorf("%s: casts from %v, want %v", name, tensor.DType(from), c.want)
			}
		}
	}
}
