package comm

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:  "split_byref",
		Class: ops.Dist,
		Doc: "Cuts X into runs of rows, one for each pserver with a slice. As in Fluid, the runs share the memory of X if nobody writes either of them " +
			"later. Otherwise they are copies.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "tensor of rank 1 or more"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the runs, from the first row to the last", Duplicable: true}},
		Attrs:   []ops.Attr{{Name: "sections", Kind: []int32{}, Doc: "rows of each Out; their sum is the rows of X"}},
		Infer:   inferSplit,
		Cost:    opkit.PerElement(0),
		Bind:    opkit.BindBits("X", bindSplit[float32], bindSplit[float64], bindSplit[int32], bindSplit[int64], bindSplit[bool], bindSplit[uint16]),
	})
}

func inferSplit(s *ops.Shapes) error { return inferSections(s, s.In("X").DType) }

// inferSections sets each Out to its rows of X, of type to.
func inferSections(s *ops.Shapes, to tensor.DType) error {
	x, sections := s.In("X"), s.Ints("sections")
	if x.Kind != program.LoDTensor || len(x.Dims) == 0 {
		return s.Errorf("X", "a tensor of rank 1 or more")
	}
	if len(sections) != len(s.Outs("Out")) {
		return opkit.BadAttr(s, "sections", "%d numbers of rows, one for each Out", len(s.Outs("Out")))
	}
	rows := x.Dims[0]
	left := rows
	for i, n := range sections {
		if n < 0 || rows != program.Unknown && n > left {
			return opkit.BadAttr(s, "sections", "numbers of rows whose sum is %d, the rows of X", rows)
		}
		left -= n
		s.SetAt("Out", i, ops.Meta{Kind: program.LoDTensor, DType: to, Dims: slices.Concat([]int64{n}, x.Dims[1:])})
	}
	if rows != program.Unknown && left != 0 {
		return opkit.BadAttr(s, "sections", "numbers of rows whose sum is %d, the rows of X", rows)
	}
	return nil
}

// bindSplit checks that the outputs fit one after another into the elements of X.
func bindSplit[T tensor.Bits](b *ops.Binding) (ops.Kernel, error) {
	x, outs, sections := b.In("X"), b.Outs("Out"), b.Ints("sections")
	wrong := func(got string, args ...any) error {
		return fault.E(fault.ShapeMismatch, fault.Gotf(got, args...), fault.Wantf("the rows of X %v in %d parts", x, len(outs)))
	}
	if len(x.Dims()) == 0 || len(sections) != len(outs) {
		return nil, wrong("sections %v", sections)
	}
	lengths, left := make([]int, len(outs)), x.Dims()[0]
	for i, rows := range sections {
		if rows < 0 || rows > left {
			return nil, wrong("sections %v", sections)
		}
		left -= rows
		if rows > 0 {
			lengths[i] = int(rows) * (x.Len() / int(x.Dims()[0]))
		}
		if out := outs[i]; out != nil && (out.Len() != lengths[i] || out.DType() != x.DType()) {
			return nil, wrong("Out %v for %d rows", out, rows)
		}
	}
	run := func(_, _, _ int) error {
		rest := tensor.Data[T](x)
		for i, out := range outs {
			if out != nil {
				copy(tensor.Data[T](out), rest[:lengths[i]])
			}
			rest = rest[lengths[i]:]
		}
		return nil
	}
	return b.Loops(ops.Loop{N: 1, Reads: []string{"X"}, Writes: []string{"Out"}, Copies: !slices.Contains(outs, nil), Run: run})
}
