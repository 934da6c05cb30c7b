package math

import (
	"context"
	"math"
	"strconv"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var (
	shapeAttr = ops.Attr{Name: "shape", Doc: "extents of Out", Default: []int64{}}
	dtypeAttr = ops.Attr{Name: "dtype", Doc: "element type of Out, as Fluid numbers it", Default: int32(tensor.Float32)}
	valueAttr = ops.Attr{Name: "value", Doc: "the value of every element; for bool, all but 0 mean true", Default: float32(0)}
	textAttr  = ops.Attr{Name: "str_value", Doc: "the value as text, which counts instead unless it is empty: digits, inf, -inf or nan", Default: ""}
)

func init() {
	shape := shapeAttr
	shape.Tensor, shape.Tensors = "ShapeTensor", "ShapeTensorList"
	ops.Register(ops.Def{
		Type: "fill_constant",
		Doc:  "Fills Out with one value: Out[i] = value. Values of integers are truncated.",
		Inputs: []ops.Slot{{Name: "ValueTensor", Doc: "one number of the type of Out, in place of value", Dispensable: true},
			tensorOf("ShapeTensor", "shape"), tensorsOf("ShapeTensorList", "shape")},
		Outputs: out("Out", "tensor of dims shape"),
		Attrs:   []ops.Attr{shape, dtypeAttr, valueAttr, textAttr},
		Infer:   inferFillConstant,
		Bind:    bindFillConstant,

		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "fill_constant_batch_size_like",
		Doc:     "Fills Out with one value; extent output_dim_idx of Out is extent input_dim_idx of Input, the batch. If the rows of Input form sequences, axis 0 counts the innermost ones.",
		Inputs:  in("Input", "tensor whose batch Out takes; its elements are not read"),
		Outputs: out("Out", "tensor of dims shape but for one extent"),
		Attrs:   append([]ops.Attr{shapeAttr, dtypeAttr, valueAttr, textAttr}, opkit.BatchAttrs...),
		Infer:   inferFillBatchSizeLike,
		Bind:    bindFill,

		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return opkit.MixesBatch(s, divided) || countsSequences(s) && s.In("Input").LoDLevel > 1 // rows of one record are not known to belong together
		},
	})
	registerLike("fill_zeros_like", "Fills Out, of the shape and type of X, with zeros.", nil)
	registerLike("fill_zeros_like2", "Fills Out, of the shape of X, with zeros.", []ops.Attr{likeTypeAttr})
	registerLike("fill_any_like", "Fills Out, of the shape of X, with one value: Out[i] = value. Values of integers are truncated.",
		[]ops.Attr{likeTypeAttr, valueAttr})
}

var likeTypeAttr = ops.Attr{Name: "dtype", Doc: "element type of Out, as Fluid numbers it; -1 for that of X", Default: int32(-1)}

// registerLike registers an op that gives Out the shape of X and one value.
func registerLike(name, doc string, attrs []ops.Attr) {
	def := ops.Def{
		Type:    name,
		Doc:     doc,
		Inputs:  in("X", "tensor whose shape Out takes; its elements are not read"),
		Outputs: out("Out", "all of one value"),
		Attrs:   attrs,
		Infer: func(s *ops.Shapes) error {
			m := s.In("X")
			if len(attrs) > 0 && s.Int("dtype") != -1 {
				dtype, err := opkit.DTypeAttr(s, "dtype")
				if err != nil {
					return err
				}
				m.DType = dtype
			}
			s.SetAt("Out", 0, m)
			return nil
		},
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			v := 0.0
			if len(attrs) > 1 {
				v = b.Float("value")
			}
			return fillWith(b, v, int64(v))
		},
		RowSliced: true,
	}
	if len(attrs) > 1 {
		def = opkit.ByVariables(def, "value")
	}
	ops.Register(def)
}

// fillType reads the attribute dtype: a type of kernels, or bfloat16, in which tables may be stored.
func fillType(s *ops.Shapes) (tensor.DType, error) {
	if s.Int("dtype") == int64(tensor.BFloat16) {
		return tensor.BFloat16, nil
	}
	return opkit.DTypeAttr(s, "dtype")
}

// The op is not RowSliced: its shape attribute is that of the whole, so it cannot compute some rows of a large constant.
func inferFillConstant(s *ops.Shapes) error {
	dtype, err := fillType(s)
	if err != nil {
		return err
	}
	if s.Has("ValueTensor") {
		if dtype == tensor.BFloat16 {
			return opkit.BadAttr(s, "dtype", "another type than bfloat16 where the value is a tensor")
		}
		if err := opkit.CheckType(s, "ValueTensor", s.In("ValueTensor").DType == dtype, dtype.String()+", the type of Out"); err != nil {
			return err
		}
		if n := ops.Product(s.In("ValueTensor").Dims); !opkit.Agree(n, 1) {
			return s.Errorf("ValueTensor", "one number")
		}
	}
	shape, known := s.Ints("shape"), []int64{}
	for i, extent := range shape {
		if extent == ops.Open {
			shape[i] = program.Unknown
		} else {
			known = append(known, extent)
		}
	}
	if _, ok := tensor.Count(known); !ok {
		return opkit.BadAttr(s, "shape", "extents of at least 0 whose product fits into memory")
	}
	s.Set("Out", dtype, shape...)
	return checkText(s)
}

func inferFillBatchSizeLike(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	shape, err := opkit.BatchSizeLike(s)
	if err != nil {
		return err
	}
	if countsSequences(s) {
		shape[s.Int("output_dim_idx")] = program.Unknown
		if m := s.In("Input"); len(m.Sequences) == m.LoDLevel {
			shape[s.Int("output_dim_idx")] = m.Sequences[m.LoDLevel-1]
		}
	}
	s.Set("Out", dtype, shape...)
	return checkText(s)
}

// countsSequences reports whether fill_constant_batch_size_like takes the number of sequences for the batch.
func countsSequences(s *ops.Shapes) bool {
	return s.In("Input").LoDLevel > 0 && s.Int("input_dim_idx") == 0
}

// checkText checks that the attribute str_value is a number.
func checkText(s *ops.Shapes) error {
	if _, _, ok := fillValue(s); !ok {
		return opkit.BadAttr(s, "str_value", "a number")
	}
	return nil
}

// fillValue returns the value of a fill, as a float and as an integer. ok is false if it is no number.
func fillValue(s attributes) (value float64, integer int64, ok bool) {
	text := s.Str("str_value")
	if text == "" {
		value = s.Float("value")
		return value, int64(value), true
	}
	value, err := strconv.ParseFloat(text, 64)
	if integer, exact := strconv.ParseInt(text, 10, 64); exact == nil {
		return value, integer, true
	}
	return value, int64(value), err == nil || math.IsInf(value, 0)
}

func bindFill(b *ops.Binding) (ops.Kernel, error) {
	v, n, _ := fillValue(b)
	return fillWith(b, v, n)
}

// fillWith fills Out with a value. Integers are filled with n.
func fillWith(b *ops.Binding, v float64, n int64) (ops.Kernel, error) {
	clears := v == 0 && n == 0 && !math.Signbit(v)
	half := []uint16{0}
	kernel.ToBFloat16(half, []float32{float32(v)})
	halves := fill(half[0], clears)
	if out := b.Out("Out"); out != nil && out.DType() != tensor.BFloat16 {
		halves = nil
	}
	return opkit.BindBits("Out", fill(float32(v), clears), fill(v, clears), fill(int32(n), clears), fill(n, clears), fill(v != 0, clears), halves)(b)
}

// fill fills Out with a value; clears says that all its bits are 0.
func fill[T tensor.Bits](value T, clears bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		to := b.Out("Out")
		return func(context.Context) error {
			if clears {
				tensor.ClearElements(tensor.Data[T](to))
			} else {
				kernel.Fill(tensor.Data[T](to), value)
			}
			return nil
		}, nil
	}
}

func bindFillConstant(b *ops.Binding) (ops.Kernel, error) {
	if b.In("ValueTensor") == nil {
		return bindFill(b)
	}
	return opkit.BindElements("Out", fillFrom[float32], fillFrom[float64], fillFrom[int32], fillFrom[int64], fillFrom[bool])(b)
}

// fillFrom fills Out with the number that ValueTensor has in each run.
func fillFrom[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	from, to := b.In("ValueTensor"), b.Out("Out")
	return func(context.Context) error {
		kernel.Fill(tensor.Data[T](to), tensor.Data[T](from)[0])
		return nil
	}, nil
}
