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
		Type:  "compress_topk",
		Class: ops.Dist,
		Doc: "Adds X to Residual, and moves from each run of its rows the elements of largest magnitude to Out: one run for each pserver with a slice. " +
			"Of equal magnitudes the first are moved. NaN is larger than infinity, and infinity is larger than all numbers. What is moved becomes 0 in the " +
			"residual. Of a part of a batch whose weights are all 0 zeros are moved, and the residual stays. Fluid's op dgc does this with a correction for momentum; its V is the residual, its EncodeGrad is Out.",
		Inputs: []ops.Slot{{Name: "X", Doc: "a float32 tensor"}, {Name: "Residual", Doc: "what was not moved in earlier steps, like X"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "int32, two rows for each run: the ascending indices of elements in the run, and the bits of the elements", Duplicable: true},
			{Name: "ResidualOut", Doc: "the new residual, which may be the variable of Residual"}},
		Attrs: []ops.Attr{
			{Name: "sections", Kind: []int32{}, Doc: "rows of each run; their sum is the rows of X"},
			{Name: "entries", Kind: []int32{}, Doc: "how many elements are moved from each run, 0 to all"}},
		InPlace: map[string]string{"ResidualOut": "Residual"},
		Infer:   inferTopK,
		Cost:    opkit.PerElement(2),
		Bind:    bindTopK,
	})
}

// inferTopK sets each Out to the entries of its rows of X.
func inferTopK(s *ops.Shapes) error {
	x, residual := s.In("X"), s.In("Residual")
	if x.Kind != program.LoDTensor || x.DType != tensor.Float32 || slices.Contains(x.Dims, program.Unknown) {
		return s.Errorf("X", "a float32 tensor of known dims")
	}
	if residual.Kind != program.LoDTensor || residual.DType != tensor.Float32 || !slices.Equal(residual.Dims, x.Dims) {
		return s.Errorf("Residual", "a tensor like X")
	}
	if err := inferSections(s, tensor.Int32); err != nil {
		return err
	}
	entries := s.Ints("entries")
	if len(entries) != len(s.Outs("Out")) {
		return opkit.BadAttr(s, "entries", "%d numbers, one for each Out", len(s.Outs("Out")))
	}
	for i, k := range entries {
		elements := ops.Product(s.Outs("Out")[i].Dims)
		if k < 0 || k > elements || elements > compress.MaxSelected {
			return opkit.BadAttr(s, "entries", "at most as many as each run has elements, which are at most %d", compress.MaxSelected)
		}
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: tensor.Int32, Dims: []int64{2, k}})
	}
	s.Set("ResidualOut", tensor.Float32, x.Dims...)
	return nil
}

func bindTopK(b *ops.Binding) (ops.Kernel, error) {
	x, residual, next, sections := b.In("X"), b.In("Residual"), b.Out("ResidualOut"), b.Ints("sections")
	for _, t := range []*tensor.Tensor{x, residual, next} {
		if t == nil || t.DType() != tensor.Float32 || t.Len() != x.Len() || len(t.Dims()) == 0 || len(sections) != len(b.Outs("Out")) {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("X %v, Residual %v and ResidualOut %v in %d runs", x, residual, next, len(sections)),
				fault.Want("float32 tensors of one shape, and a number of rows for each Out"))
		}
	}
	type run struct {
		from, to int
		out      *tensor.Tensor
		selector *compress.Selector
	}
	var runs []run
	width, end := 0, 0
	if x.Len() > 0 {
		width = x.Len() / int(x.Dims()[0])
	}
	for i, out := range b.Outs("Out") {
		r := run{from: end, to: end + int(sections[i])*width, out: out}
		ok := false
		var indices []int32
		if out != nil && sections[i] >= 0 && r.to <= x.Len() {
			indices, _, ok = compress.EntriesOf(out, r.to-r.from)
		}
		if !ok {
			return nil, fault.E(fault.ShapeMismatch, fault.Gotf("Out %v for %d of the rows of %v", out, sections[i], x), fault.Want("entries of these rows"))
		}
		r.selector = compress.NewSelector(r.to-r.from, len(indices))
		runs, end = append(runs, r), r.to
	}
	if end != x.Len() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("runs of %d elements", end), fault.Wantf("all of %v", x))
	}
	step := b.Env.Step
	return func(context.Context) error {
		if next != residual {
			copy(next.Float32s(), residual.Float32s())
		}
		for _, r := range runs {
			indices, bits, _ := compress.EntriesOf(r.out, r.to-r.from) // the memory of a tensor is fixed after it is bound
			if step.Void {                                             // nobody takes what is sent
				compress.SelectNone(indices, bits)
				continue
			}
			r.selector.Select(indices, bits, next.Float32s()[r.from:r.to], x.Float32s()[r.from:r.to])
		}
		return nil
	}, nil
}
