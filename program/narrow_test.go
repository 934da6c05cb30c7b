package program_test

import (
	"testing"

	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Types of 8 and 16 bits become wider ones where somebody feeds, reads or saves a variable, with the attributes that name them.
func TestNarrowTypesBecomeWider(t *testing.T) {
	p := program.New()
	for name, dtype := range map[string]tensor.DType{"fed": tensor.UInt8, "half": tensor.Float16, "saved": tensor.Int8, "mask": tensor.UInt8, "short": tensor.Int16, "stored": tensor.BFloat16} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: []int64{2, 2}, Persistable: name == "saved" || name == "stored"})
	}
	p.Global().Append(&program.Op{Type: "cast", Inputs: map[string][]string{"X": {"fed"}}, Outputs: map[string][]string{"Out": {"half"}},
		Attrs: map[string]program.Attr{"in_dtype": int32(tensor.UInt8), "out_dtype": int32(tensor.Float16)}})
	p.Global().Append(&program.Op{Type: "dropout", Inputs: map[string][]string{"X": {"half"}}, Outputs: map[string][]string{"Out": {"half"}, "Mask": {"mask"}}})
	p.Global().Append(&program.Op{Type: "scale", Inputs: map[string][]string{"X": {"short"}}, Outputs: map[string][]string{"Out": {"short"}}})
	read := decode(t, encode(t, p))
	for name, want := range map[string]tensor.DType{"fed": tensor.Int32, "half": tensor.Float32, "saved": tensor.Int32, "mask": tensor.UInt8, "short": tensor.Int32, "stored": tensor.BFloat16} {
		if v, _ := read.Global().Var(name); v.DType != want {
			t.Errorf("%s is %v, want %v", name, v.DType, want)
		}
	}
	cast := read.Global().Ops[0]
	if from, _ := cast.Int("in_dtype"); tensor.DType(from) != tensor.Int32 {
		t.Errorf("casts from %v", tensor.DType(from))
	}
	if to, _ := cast.Int("out_dtype"); tensor.DType(to) != tensor.Float32 {
		t.Errorf("casts to %v", tensor.DType(to))
	}
}

// Programs of roles that compress what travels mean their 16 bits.
func TestCompressedTypesStay(t *testing.T) {
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "w", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}})
	p.Global().EnsureVar(program.Var{Name: "w.fp16", Kind: program.LoDTensor, DType: tensor.Float16, Dims: []int64{2}})
	p.Global().Append(&program.Op{Type: "compress", Inputs: map[string][]string{"X": {"w"}}, Outputs: map[string][]string{"Out": {"w.fp16"}},
		Attrs: map[string]program.Attr{"dtype": int32(tensor.Float16)}})
	read := decode(t, encode(t, p))
	to, _ := read.Global().Ops[0].Int("dtype")
	if v, _ := read.Global().Var("w.fp16"); v.DType != tensor.Float16 || tensor.DType(to) != tensor.Float16 {
		t.Errorf("%v and %v, want float16", v.DType, tensor.DType(to))
	}
}
