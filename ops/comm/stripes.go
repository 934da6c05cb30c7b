package comm

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Servers keep the rows of a distributed table in the order of stripes (kernel.Stripes), so that frequent ids load all of them. split_ids and
// split_selected_rows take ids to this order. stripe_rows is for the rest: a table that is initialized as a whole, saved or fetched.
func init() {
	ops.Register(ops.Def{
		Type:    "stripe_rows",
		Class:   ops.Compute,
		Doc:     "Puts the rows of a table into the order of stripes (kernel.Stripes), in which servers keep them; with inverse, back into their own order.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "a tensor of rank 1 or more, of known rows", Stored: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the same rows in the other order"}},
		Attrs:   []ops.Attr{{Name: "inverse", Default: false, Doc: "X is in the order of stripes, and Out is not"}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			if x.Kind != program.LoDTensor || len(x.Dims) == 0 || x.Dims[0] == program.Unknown {
				return s.Errorf("X", "a tensor of rank 1 or more, of known rows")
			}
			s.Set("Out", x.DType, x.Dims...)
			return nil
		},
		Cost: opkit.PerElement(0),
		Bind: opkit.BindBits("X", bindStripe[float32], bindStripe[float64], bindStripe[int32], bindStripe[int64], bindStripe[bool], bindStripe[uint16]),
	})
}

func bindStripe[T tensor.Bits](b *ops.Binding) (ops.Kernel, error) {
	x, out, inverse := b.In("X"), b.Out("Out"), b.Bool("inverse")
	if len(x.Dims()) == 0 || !slices.Equal(x.Dims(), out.Dims()) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%v into %v", x, out), fault.Want("equal rows"))
	}
	rows, stripes := x.Dims()[0], kernel.StripesOf(x.Dims()[0])
	width := int64(x.Len()) / rows // byDType binds nothing without elements
	return b.Loops(ops.Loop{N: int(rows), Whole: []string{"X"}, Run: func(_, from, to int) error {
		in, own := tensor.Data[T](x), opkit.Owned[T](out, from, to, int(rows))
		for at := int64(from); at < int64(to); at++ {
			other := stripes.Row(at)
			if inverse {
				other = stripes.Position(at)
			}
			copy(own[(at-int64(from))*width:][:width], in[other*width:][:width])
		}
		return nil
	}})
}
