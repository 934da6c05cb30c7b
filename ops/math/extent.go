package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "shape",
		Doc:     "The dims of a tensor, as numbers. Ops that take dims from tensors know them before the run.",
		Inputs:  in("Input", "any type; its elements are not read"),
		Outputs: out("Out", "int32, one number for each axis of Input"),
		Infer: func(s *ops.Shapes) error {
			dims := s.In("Input").Dims
			s.Set("Out", tensor.Int32, int64(len(dims)))
			if n := ops.Product(dims); n == program.Unknown {
				return nil
			}
			value, err := tensor.FromSlice(extents32(dims), int64(len(dims)))
			s.SetValue("Out", value)
			return err
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			dims, to := extents32(b.In("Input").Dims()), b.Out("Out")
			return func(context.Context) error {
				copy(opkit.Data[int32](to), dims)
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes, // it depends on how many rows there are
	})
	ops.Register(ops.Def{
		Type:    "size",
		Doc:     "How many elements a tensor has.",
		Inputs:  in("Input", "any type; its elements are not read"),
		Outputs: out("Out", "int64, dims [1]"),
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Int64, 1)
			n := ops.Product(s.In("Input").Dims)
			if n == program.Unknown {
				return nil
			}
			value, err := tensor.FromSlice([]int64{n}, 1)
			s.SetValue("Out", value)
			return err
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			n, to := int64(b.In("Input").Len()), b.Out("Out")
			return func(context.Context) error {
				if to != nil {
					to.Int64s()[0] = n
				}
				return nil
			}, nil
		},
		MixesRows: opkit.Mixes,
	})
}

// extents32 converts dims. They are those of a tensor that exists, or of small ones: int32 holds what Fluid's op holds.
func extents32(dims []int64) []int32 {
	out := make([]int32, len(dims))
	for i, d := range dims {
		out[i] = int32(d)
	}
	return out
}
