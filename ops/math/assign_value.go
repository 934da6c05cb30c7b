package math

import (
	"context"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type:    "assign_value",
		Doc:     "Fills Out with the values that stand in an attribute, which dtype chooses.",
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

// valuesAttr names the attribute that holds the elements of a type.
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
