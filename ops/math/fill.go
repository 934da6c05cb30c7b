package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var (
	shapeAttr = ops.Attr{Name: "shape", Doc: "extents of Out", Default: []int64{}}
	dtypeAttr = ops.Attr{Name: "dtype", Doc: "element type of Out, as Fluid numbers it", Default: int32(tensor.Float32)}
	valueAttr = ops.Attr{Name: "value", Doc: "what every element becomes; not 0 means true", Default: float32(0)}
)

func init() {
	ops.Register(ops.Def{
		Type:    "fill_constant",
		Doc:     "Fills Out with one value: Out[i] = value. Integers are truncated from the number.",
		Outputs: out("Out", "tensor of dims shape"),
		Attrs:   []ops.Attr{shapeAttr, dtypeAttr, valueAttr},
		Infer:   inferFillConstant,
		Bind:    bindFill,
	})
	ops.Register(ops.Def{
		Type:    "fill_constant_batch_size_like",
		Doc:     "Fills Out with one value; extent output_dim_idx of Out is extent input_dim_idx of Input, the batch.",
		Inputs:  in("Input", "tensor whose batch Out takes; its elements are not read"),
		Outputs: out("Out", "tensor of dims shape but for one extent"),
		Attrs: []ops.Attr{shapeAttr, dtypeAttr, valueAttr,
			{Name: "input_dim_idx", Doc: "axis of Input that holds the batch", Default: int32(0)},
			{Name: "output_dim_idx", Doc: "axis of Out that takes it", Default: int32(0)}},
		Infer: inferFillBatchSizeLike,
		Bind:  bindFill,
	})
	ops.Register(ops.Def{
		Type:      "fill_zeros_like",
		Doc:       "Fills Out, of the shape and type of X, with zeros.",
		Inputs:    in("X", "tensor whose shape and type Out takes; its elements are not read"),
		Outputs:   out("Out", "zeros"),
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Bind:      opkit.BindElements("Out", fill[float32](0), fill[float64](0), fill[int32](0), fill[int64](0), fill(false)),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
}

// inferFillConstant is not marked RowSliced: its shape attribute belongs to the whole, so a constant as large as a parameter
// cannot be computed by rows.
func inferFillConstant(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	shape := s.Ints("shape")
	if _, ok := tensor.Count(shape); !ok {
		return opkit.BadAttr(s, "shape", "extents of at least 0 whose product fits into memory")
	}
	s.Set("Out", dtype, shape...)
	return nil
}

func inferFillBatchSizeLike(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	input, shape := s.In("Input").Dims, s.Ints("shape")
	from, to := s.Int("input_dim_idx"), s.Int("output_dim_idx")
	if from < 0 || from >= int64(len(input)) {
		return opkit.BadAttr(s, "input_dim_idx", "an axis of Input, which has rank %d", len(input))
	}
	if to < 0 || to >= int64(len(shape)) {
		return opkit.BadAttr(s, "output_dim_idx", "an axis of Out, which has rank %d", len(shape))
	}
	shape[to] = input[from]
	for i, extent := range shape {
		if extent < 0 && !(i == int(to) && extent == program.Unknown) {
			return opkit.BadAttr(s, "shape", "extents of at least 0 but for axis %d", to)
		}
	}
	s.Set("Out", dtype, shape...)
	return nil
}

func bindFill(b *ops.Binding) (ops.Kernel, error) {
	v := b.Float("value")
	return opkit.BindElements("Out", fill(float32(v)), fill(v), fill(int32(v)), fill(int64(v)), fill(v != 0))(b)
}

func fill[T tensor.Element](value T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		to := b.Out("Out")
		return func(context.Context) error {
			kernel.Fill(tensor.Data[T](to), value)
			return nil
		}, nil
	}
}
