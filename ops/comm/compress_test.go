package comm_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func compressOp(sections any, dtype tensor.DType, outs ...string) *program.Op {
	op := &program.Op{Type: "compress", Inputs: args{"X": {"x"}}, Outputs: args{"Out": outs}, Attrs: attrs{"dtype": int32(dtype)}}
	if sections != nil {
		op.Attrs["sections"] = sections
	}
	return op
}

func decompressOp(parts ...string) *program.Op {
	return &program.Op{Type: "decompress", Inputs: args{"X": parts}, Outputs: args{"Out": {"y"}}}
}

// Compress and decompress of any runs of rows round each element as compress.Round does, and make the shapes that they infer.
func TestCompressIsUndone(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		form := rapid.SampledFrom([]compress.Form{compress.BFloat16, compress.Float16}).Draw(rt, "form")
		sections := rapid.SliceOfN(rapid.Int64Range(0, 5), 2, 6).Draw(rt, "sections")
		width, rows := rapid.Int64Range(1, 9).Draw(rt, "width"), int64(0)
		names := make([]string, len(sections))
		for i, n := range sections {
			rows += n
			names[i] = string(rune('a' + i))
		}
		op := compressOp(sections, form.DType(), names...)
		if rapid.Bool().Draw(rt, "whole") {
			names = names[:1]
			op = compressOp(nil, form.DType(), names...)
		}
		s, err := infer(op, rows, width)
		if err != nil {
			rt.Fatal(err)
		}
		x, _ := tensor.New(tensor.Float32, rows, width)
		for i := range x.Float32s() {
			x.Float32s()[i] = math.Float32frombits(rapid.Uint32().Draw(rt, "bits"))
		}
		var halves []*tensor.Tensor
		for _, m := range s.Outs("Out") {
			half, err := tensor.New(m.DType, m.Dims...)
			if err != nil {
				rt.Fatal(err)
			}
			halves = append(halves, half)
		}
		back := decompressOp(names...)
		joined, err := ops.Infer(back, func(name string) (ops.Meta, bool) { return s.Outs("Out")[slices.Index(names, name)], true })
		if err != nil {
			rt.Fatal(err)
		}
		if m := joined.Outs("Out")[0]; m.DType != tensor.Float32 || !slices.Equal(m.Dims, x.Dims()) {
			rt.Fatalf("decompress makes %v of %v", m, x)
		}
		got, _ := tensor.New(tensor.Float32, rows, width)
		run(rt, op, map[string][]*tensor.Tensor{"X": {x}}, map[string][]*tensor.Tensor{"Out": halves})
		run(rt, back, map[string][]*tensor.Tensor{"X": halves}, map[string][]*tensor.Tensor{"Out": {got}})
		if err := compress.Round(x, form); err != nil {
			rt.Fatal(err)
		}
		for i, want := range x.Float32s() {
			if math.Float32bits(got.Float32s()[i]) != math.Float32bits(want) {
				rt.Fatalf("element %d is %v, want %v", i, got.Float32s()[i], want)
			}
		}
	})
}

func run(t *rapid.T, op *program.Op, in, out map[string][]*tensor.Tensor) {
	kernel, err := bind(op, nil, in, out)
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(5, func() { _ = kernel(t.Context()) }); n > 1 {
		t.Errorf("%s allocates %v times", op.Type, n)
	}
}

func TestCompressFaults(t *testing.T) {
	for name, c := range map[string]struct {
		op   *program.Op
		kind fault.Kind
	}{
		"to float32":         {compressOp(nil, tensor.Float32, "a"), fault.InvalidArgument},
		"to int8":            {compressOp(nil, tensor.Int8, "a"), fault.InvalidArgument},
		"two without rows":   {compressOp(nil, tensor.BFloat16, "a", "b"), fault.InvalidArgument},
		"too few rows":       {compressOp([]int32{1, 1}, tensor.BFloat16, "a", "b"), fault.InvalidArgument},
		"decompress float32": {decompressOp("a", "b"), fault.ShapeMismatch},
	} {
		if _, err := infer(c.op, 4, 2); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	metas := map[string]ops.Meta{
		"x": {Kind: program.LoDTensor, DType: tensor.Float64, Dims: []int64{4, 2}}, "scalar": {Kind: program.LoDTensor, DType: tensor.BFloat16},
		"a":    {Kind: program.LoDTensor, DType: tensor.BFloat16, Dims: []int64{4, 2}},
		"b":    {Kind: program.LoDTensor, DType: tensor.Float16, Dims: []int64{4, 2}},
		"wide": {Kind: program.LoDTensor, DType: tensor.BFloat16, Dims: []int64{4, 3}},
		"rows": {Kind: program.SelectedRows, DType: tensor.BFloat16, Dims: []int64{4, 2}},
	}
	for name, op := range map[string]*program.Op{"float64": compressOp(nil, tensor.BFloat16, "y"), "two types": decompressOp("a", "b"),
		"two widths": decompressOp("a", "wide"), "scalars": decompressOp("scalar", "scalar"), "sparse": decompressOp("rows")} {
		if _, err := ops.Infer(op, func(name string) (ops.Meta, bool) { return metas[name], true }); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, _ := tensor.New(tensor.Float32, 4, 2)
	for name, outs := range map[string][]*tensor.Tensor{"float32": {x.Clone()}, "too short": {halfTensor(tensor.BFloat16, 3)},
		"two types": {halfTensor(tensor.BFloat16, 4), halfTensor(tensor.Float16, 4)}, "nothing": {nil}} {
		names := []string{"a", "b"}[:len(outs)]
		if _, err := bind(compressOp(nil, tensor.BFloat16, names...), nil, map[string][]*tensor.Tensor{"X": {x}},
			map[string][]*tensor.Tensor{"Out": outs}); err == nil {
			t.Errorf("compress into %s binds", name)
		}
		if _, err := bind(decompressOp(names...), nil, map[string][]*tensor.Tensor{"X": outs},
			map[string][]*tensor.Tensor{"Out": {x}}); err == nil {
			t.Errorf("decompress of %s binds", name)
		}
	}
}

func halfTensor(d tensor.DType, n int64) *tensor.Tensor {
	t, err := tensor.New(d, n)
	if err != nil {
		panic(err) // for no length of a test
	}
	return t
}
