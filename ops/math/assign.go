package math

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:      "assign",
		Doc:       "Copies: Out = X.",
		Inputs:    stored(in("X", "any type")),
		Outputs:   out("Out", "of the shape and type of X"),
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Gradient:  assignGradient,
		Bind:      bindCopy,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
	dtype := ops.Attr{Name: "dtype", Doc: "the type of X; no effect", Default: int32(tensor.Float32)}
	ops.Register(ops.Def{
		Type:      "rnn_memory_helper",
		Doc:       "Copies what a step of a recurrent network leaves to the next one, or to the results: Out = X.",
		Inputs:    in("X", "any type"),
		Outputs:   out("Out", "of the shape and type of X"),
		Attrs:     []ops.Attr{dtype},
		Infer:     func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
		Gradient:  ops.StandardGrad([]string{"X"}, nil, []string{"X"}),
		Bind:      bindCopy,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	})
	grad := "Out" + program.GradSuffix
	ops.Register(ops.Def{
		Type:  "rnn_memory_helper_grad",
		Class: ops.Backward,
		Doc:   "Copies the gradient of rnn_memory_helper: dX = dOut.",
		Inputs: []ops.Slot{{Name: "X", Doc: "of the forward op", Dispensable: true}, {Name: "Out", Doc: "of the forward op; no effect", Dispensable: true},
			{Name: grad, Doc: "the gradient of Out"}},
		Outputs: out("X"+program.GradSuffix, "of the shape and type of the gradient of Out"),
		Attrs:   []ops.Attr{dtype},
		Infer:   func(s *ops.Shapes) error { s.Like("X"+program.GradSuffix, grad); return nil },
		Bind:    bindCopyOf(grad, "X"+program.GradSuffix),
		InPlace: map[string]string{"X" + program.GradSuffix: grad},
	})
}

// assignGradient is assign again: dX = dOut.
func assignGradient(g *ops.Grad) ([]*program.Op, error) {
	op := g.GradOp("assign")
	op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
	return []*program.Op{op}, nil
}

// bindCopy copies the elements of X to Out.
var bindCopy = bindCopyOf("X", "Out")

// bindCopyOf copies the elements of an input slot to an output slot with as many elements. Both may share a buffer.
func bindCopyOf(from, to string) opkit.Binder {
	return opkit.BindBits(from, copyElements[float32](from, to), copyElements[float64](from, to),
		copyElements[int32](from, to), copyElements[int64](from, to), copyElements[bool](from, to), copyElements[uint16](from, to))
}

func copyElements[T tensor.Bits](fromSlot, toSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		from, to := b.In(fromSlot), b.Out(toSlot)
		if to == nil {
			return opkit.Nop, nil
		}
		return b.Loops(copyLoop[T](fromSlot, toSlot, from, to))
	}
}

// copyLoop copies the elements of one slot to another, unless they share a buffer.
func copyLoop[T tensor.Bits](fromSlot, toSlot string, from, to *tensor.Tensor) ops.Loop {
	return ops.Loop{N: from.Len(), Reads: []string{fromSlot}, Writes: []string{toSlot}, Copies: true, Run: func(_, first, last int) error {
		src, dst := tensor.Data[T](from)[first:last], tensor.Data[T](to)[first:last]
		if len(src) > 0 && &src[0] != &dst[0] {
			copy(dst, src)
		}
		return nil
	}}
}

func init() {
	ops.Register(ops.Def{
		Type:    "assign_value",
		Doc:     "Fills Out with the values of an attribute, which dtype chooses.",
		Outputs: out("Out", "tensor of dims shape"),
		Attrs: []ops.Attr{shapeAttr, dtypeAttr,
			{Name: "fp32_values", Doc: "elements of a float32 or float64 Out, in row-major order", Default: []float32{}},
			{Name: "int32_values", Doc: "elements of an int32 Out", Default: []int32{}},
			{Name: "int64_values", Doc: "elements of an int64 Out", Default: []int64{}},
			{Name: "bool_values", Doc: "elements of a bool Out, 0 for false", Default: []int32{}}},
		Infer: inferAssignValue,
		Bind: opkit.BindElements("Out", assignValues(floatValues[float32]), assignValues(floatValues[float64]),
			assignValues(intValues[int32]("int32_values")), assignValues(intValues[int64]("int64_values")), assignValues(boolValues)),
	})
}

// valuesAttr names the attribute that holds the values of an element type.
func valuesAttr(dtype tensor.DType) string {
	switch dtype {
	case tensor.Int32:
		return "int32_values"
	case tensor.Int64:
		return "int64_values"
	case tensor.Bool:
		return "bool_values"
	}
	return "fp32_values"
}

func inferAssignValue(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	name, shape := valuesAttr(dtype), s.Ints("shape")
	have := len(s.Ints(name))
	if dtype.IsFloat() {
		have = len(floatsOf(s.Op()))
	}
	if want, ok := tensor.Count(shape); !ok || want != have {
		return opkit.BadAttr(s, "shape", "extents for the %d elements of %s", have, name)
	}
	s.Set("Out", dtype, shape...)
	return nil
}

func floatsOf(op *program.Op) []float64 {
	values, _ := op.Floats("fp32_values")
	return values
}

func floatValues[T tensor.Float](b *ops.Binding) []T { return converted[T](floatsOf(b.Op())) }

func intValues[T int32 | int64](name string) func(*ops.Binding) []T {
	return func(b *ops.Binding) []T { return converted[T](b.Ints(name)) }
}

func boolValues(b *ops.Binding) []bool {
	var out []bool
	for _, v := range b.Ints("bool_values") {
		out = append(out, v != 0)
	}
	return out
}

func converted[T kernel.Number, From int64 | float64](from []From) []T {
	out := make([]T, len(from))
	for i, v := range from {
		out[i] = T(v)
	}
	return out
}

func assignValues[T tensor.Element](values func(*ops.Binding) []T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		elements, to := values(b), b.Out("Out")
		return func(context.Context) error {
			copy(tensor.Data[T](to), elements)
			return nil
		}, nil
	}
}

func init() {
	ops.Register(ops.Def{
		Type: "cast",
		Doc: "Converts elements to another type. Floats become integers by truncation towards zero; a number becomes true unless " +
			"it is 0, and true becomes 1. From bfloat16, in which tables may be stored, it converts to float32 alone, and to it from float32 alone, to nearest.",
		Inputs:  stored(in("X", "of type in_dtype")),
		Outputs: out("Out", "of the shape of X and type out_dtype"),
		Attrs: []ops.Attr{
			{Name: "in_dtype", Doc: "type of X, as Fluid numbers it; the type that X has counts, as in Fluid", Kind: int32(0)},
			{Name: "out_dtype", Doc: "type of Out, as Fluid numbers it", Kind: int32(0)}},
		Infer:     inferCast,
		Gradient:  castGradient,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindBits("X", castFrom[float32], castFrom[float64], castFrom[int32], castFrom[int64], castFromBool, widen),
		RowSliced: true,
	})
}

func inferCast(s *ops.Shapes) error {
	m := s.In("X")
	to := tensor.DType(s.Int("out_dtype"))
	if m.DType == tensor.BFloat16 && to != tensor.Float32 {
		return opkit.BadAttr(s, "out_dtype", "float32 5 for a table of bfloat16")
	}
	if to != tensor.BFloat16 || m.DType != tensor.Float32 {
		var err error
		if to, err = opkit.DTypeAttr(s, "out_dtype"); err != nil {
			return err
		}
	}
	m.DType = to
	s.SetAt("Out", 0, m)
	return nil
}

// widen casts bfloat16 to float32.
func widen(b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	if x.DType() != tensor.BFloat16 || to.DType() != tensor.Float32 {
		return nil, fault.E(fault.Unsupported, fault.Gotf("%v to %v", x, to), fault.Want("bfloat16 to float32"))
	}
	return b.Loops(ops.Loop{N: x.Len(), Run: func(_, from, till int) error {
		kernel.FromBFloat16(to.Float32s()[from:till], tensor.Data[uint16](x)[from:till])
		return nil
	}})
}

// narrow casts float32 to bfloat16.
func narrow(b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	if x.DType() != tensor.Float32 || to.DType() != tensor.BFloat16 {
		return nil, fault.E(fault.Unsupported, fault.Gotf("%v to %v", x, to), fault.Want("float32 to bfloat16"))
	}
	return b.Loops(ops.Loop{N: x.Len(), Run: func(_, from, till int) error {
		kernel.ToBFloat16(tensor.Data[uint16](to)[from:till], x.Float32s()[from:till])
		return nil
	}})
}

// castGradient casts back: dX = dOut in the type of X.
func castGradient(g *ops.Grad) ([]*program.Op, error) {
	op := g.GradOp("cast")
	op.Inputs["X"], op.Outputs["Out"] = g.OutGrad("Out"), g.InGrad("X")
	op.SetAttr("in_dtype", int32(g.Int("out_dtype")))
	op.SetAttr("out_dtype", int32(g.Int("in_dtype")))
	return []*program.Op{op}, nil
}

func castFrom[From kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	return opkit.BindBits("Out", castWith(kernel.Cast[float32, From]), castWith(kernel.Cast[float64, From]),
		castWith(kernel.Cast[int32, From]), castWith(kernel.Cast[int64, From]), castWith(kernel.CastToBool[From]), narrow)(b)
}

func castFromBool(b *ops.Binding) (ops.Kernel, error) {
	return opkit.BindElements("Out", castWith(kernel.CastFromBool[float32]), castWith(kernel.CastFromBool[float64]),
		castWith(kernel.CastFromBool[int32]), castWith(kernel.CastFromBool[int64]), bindCopy)(b)
}

func castWith[To, From tensor.Element](f func(out []To, x []From)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		return func(context.Context) error {
			f(tensor.Data[To](to), tensor.Data[From](x))
			return nil
		}, nil
	}
}

func init() {
	ops.Register(ops.Def{
		Type:    "increment",
		Doc:     "Adds a number to a counter: Out = X + step. Out is usually the variable of X. No gradient flows through it.",
		Inputs:  in("X", "one number"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "step", Doc: "what is added", Default: float32(1)}},
		Infer: func(s *ops.Shapes) error {
			if !opkit.Agree(ops.Product(s.In("X").Dims), 1) {
				return s.Errorf("X", "one element")
			}
			return inferNumbersLike(s)
		},
		Bind:    opkit.BindNumbers("X", bindIncrement[float32], bindIncrement[float64], bindIncrement[int32], bindIncrement[int64]),
		InPlace: map[string]string{"Out": "X"},
	})
}

func bindIncrement[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, step := b.In("X"), b.Out("Out"), T(b.Float("step"))
	return func(context.Context) error {
		tensor.Data[T](to)[0] = tensor.Data[T](x)[0] + step
		return nil
	}, nil
}
