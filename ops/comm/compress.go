package comm

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "compress",
		Class: ops.Dist,
		Doc: "Rounds X to a type of 16 bits, to nearest and ties to even, in runs of rows: one for each pserver with a slice. Numbers beyond the range of " +
			"the type become infinite.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a float32 tensor"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the runs, from the first row to the last", Duplicable: true}},
		Attrs: []ops.Attr{
			{Name: "dtype", Kind: int32(0), Doc: "type of Out, as Fluid numbers it: 4 float16, 22 bfloat16"},
			{Name: "sections", Default: []int32{}, Doc: "rows of each Out; their sum is the rows of X. Empty: one Out of the dims of X"}},
		Infer: inferCompress,
		Cost:  opkit.PerElement(1),
		Bind:  bindCompress,
	})
	ops.Register(ops.Def{
		Type:    "decompress",
		Class:   ops.Dist,
		Doc:     "Joins runs of rows that are of one type of 16 bits, and converts them to float32. It undoes compress, but for what that rounded.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "the runs, from the first row to the last", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "a float32 tensor"}},
		Infer:   inferDecompress,
		Cost:    opkit.PerElement(1),
		Bind:    bindDecompress,
	})
}

func inferCompress(s *ops.Shapes) error {
	x, to := s.In("X"), tensor.DType(s.Int("dtype"))
	if x.Kind != program.LoDTensor || x.DType != tensor.Float32 {
		return s.Errorf("X", "a float32 tensor")
	}
	if !to.IsHalf() {
		return opkit.BadAttr(s, "dtype", "%d for float16 or %d for bfloat16", tensor.Float16, tensor.BFloat16)
	}
	if len(s.Ints("sections")) > 0 {
		return inferSections(s, to)
	}
	if n := len(s.Outs("Out")); n != 1 {
		return opkit.BadAttr(s, "sections", "the rows of each of %d Out", n)
	}
	s.Set("Out", to, x.Dims...)
	return nil
}

func inferDecompress(s *ops.Shapes) error {
	all := s.Ins("X")
	if len(all) == 0 {
		return s.Errorf("X", "at least one tensor")
	}
	dims := slices.Clone(all[0].Dims)
	for i, x := range all {
		switch {
		case x.Kind != program.LoDTensor || !x.DType.IsHalf() || x.DType != all[0].DType:
			return s.Errorf("X", "tensors of one type: float16 or bfloat16")
		case len(all) > 1 && len(x.Dims) == 0, len(x.Dims) != len(dims), len(dims) > 0 && !slices.Equal(x.Dims[1:], dims[1:]):
			return s.Errorf("X", "runs of rows of one tensor")
		case i > 0 && (x.Dims[0] == program.Unknown || dims[0] == program.Unknown):
			dims[0] = program.Unknown
		case i > 0:
			dims[0] += x.Dims[0]
		}
	}
	s.Set("Out", tensor.Float32, dims...)
	return nil
}

// halvesOf checks that parts are of one half type and have together the elements of whole, which is float32.
func halvesOf(whole *tensor.Tensor, parts []*tensor.Tensor) error {
	left := whole.Len()
	for _, p := range parts {
		if p == nil || !p.DType().IsHalf() || p.DType() != parts[0].DType() {
			return fault.E(fault.TypeMismatch, fault.Gotf("%v", p), fault.Want("tensors of one type: float16 or bfloat16"))
		}
		left -= p.Len()
	}
	if whole.DType() != tensor.Float32 || left != 0 {
		return fault.E(fault.ShapeMismatch, fault.Gotf("%s in %d parts", whole, len(parts)), fault.Want("a float32 tensor with the elements of its parts"))
	}
	return nil
}

func bindCompress(b *ops.Binding) (ops.Kernel, error) {
	x, outs := b.In("X"), b.Outs("Out")
	if err := halvesOf(x, outs); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		rest := x.Float32s()
		for _, out := range outs {
			n := out.Len()
			compress.Narrow(out, rest[:n])
			rest = rest[n:]
		}
		return nil
	}, nil
}

func bindDecompress(b *ops.Binding) (ops.Kernel, error) {
	parts, out := b.Ins("X"), b.Out("Out")
	if out == nil {
		return opkit.Nop, nil
	}
	if err := halvesOf(out, parts); err != nil {
		return nil, err
	}
	return func(context.Context) error {
		rest := out.Float32s()
		for _, p := range parts {
			n := p.Len()
			compress.Widen(rest[:n], p, 0)
			rest = rest[n:]
		}
		return nil
	}, nil
}
