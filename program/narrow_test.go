package program_test

import (
	"fmt"
	"slices"
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

// What computes integers of 8 or 16 bits wraps around; what moves them, or is known to fit, does not ask for it.
func TestNarrowIntegersWrap(t *testing.T) {
	p := program.New()
	b := p.Global()
	for name, dtype := range map[string]tensor.DType{"byte": tensor.UInt8, "sum": tensor.UInt8, "moved": tensor.UInt8, "small": tensor.Int8, "short": tensor.Int16, "wide": tensor.Int32, "mask": tensor.UInt8, "x": tensor.Float32} {
		b.EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: dtype, Dims: []int64{2}})
	}
	line := []string{"net.py:7"}
	add := func(opType, in, slot, out string, attrs map[string]program.Attr) {
		op := b.Append(&program.Op{Type: opType, Outputs: map[string][]string{slot: {out}}, Attrs: attrs})
		if in != "" {
			op.Inputs = map[string][]string{"X": {in}}
		}
	}
	cast := func(from, to tensor.DType) map[string]program.Attr {
		return map[string]program.Attr{"in_dtype": int32(from), "out_dtype": int32(to)}
	}
	add("scale", "byte", "Out", "sum", map[string]program.Attr{"scale": float32(2), program.AttrCallstack: line})
	add("reshape", "sum", "Out", "moved", nil)
	add("cast", "sum", "Out", "small", cast(tensor.UInt8, tensor.Int8))
	add("cast", "wide", "Out", "short", cast(tensor.Int32, tensor.Int16))
	add("cast", "byte", "Out", "moved", cast(tensor.UInt8, tensor.UInt8))
	add("cast", "byte", "Out", "wide", cast(tensor.UInt8, tensor.Int32))
	add("fill_constant", "", "Out", "small", map[string]program.Attr{"value": float32(-128)})
	add("fill_constant", "", "Out", "small", map[string]program.Attr{"value": float32(128)})
	add("dropout", "x", "Mask", "mask", nil)
	read := decode(t, encode(t, p))
	var got []string
	for i, op := range read.Global().Ops {
		if op.Type != program.WrapOp {
			continue
		}
		bits, _ := op.Int("bits")
		unsigned, _ := op.Bool("unsigned")
		got = append(got, fmt.Sprint(read.Global().Ops[i-1].Type, " ", op.In("X"), " ", op.Out("Out"), " ", bits, " ", unsigned))
	}
	want := []string{"scale sum sum 8 true", "cast small small 8 false", "cast short short 16 false", "fill_constant small small 8 false"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if wrapped := read.Global().Ops[1]; wrapped.Line() != "net.py:7" {
		t.Errorf("line %q", wrapped.Line())
	}
	if again := decode(t, encode(t, read)); len(again.Global().Ops) != len(read.Global().Ops) {
		t.Errorf("%d ops, and read again %d", len(read.Global().Ops), len(again.Global().Ops))
	}
}
