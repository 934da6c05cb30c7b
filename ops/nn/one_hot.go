package nn

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	for name, x := range map[string]string{"one_hot": "int32 or int64, a last extent of 1, each in [0, depth)", "one_hot_v2": "int32 or int64, each in [0, depth)"} {
		dims := "dims of X with a last extent of depth"
		if name == "one_hot_v2" {
			dims = "dims of X and an axis of extent depth"
		}
		ops.Register(ops.Def{
			Type: name,
			Doc:  "Makes a vector of each class number: Out[i, X[i]] = 1, and 0 elsewhere. No gradient flows through it.",
			Inputs: []ops.Slot{{Name: "X", Doc: x}, {Name: "depth_tensor", Dispensable: true,
				Doc: "one number that the program computes from constants and dims, in place of depth"}},
			Outputs: []ops.Slot{{Name: "Out", Doc: "of type dtype, " + dims}},
			Attrs: []ops.Attr{
				{Name: "depth", Doc: "number of classes, at least 1", Default: int32(-1), Tensor: "depth_tensor"},
				{Name: "dtype", Doc: "element type of Out, as Fluid numbers it", Default: int32(tensor.Float32)},
				{Name: "allow_out_of_range", Doc: "whether a number that is no class becomes a vector of zeros, and is no error", Default: false}},
			Infer: func(s *ops.Shapes) error { return inferOneHot(s, name == "one_hot") },
			Bind:  opkit.BindNumbers("Out", bindOneHot[float32], bindOneHot[float64], bindOneHot[int32], bindOneHot[int64]),
		})
	}
}

// inferOneHot gives Out another axis. column says that the last axis of X goes, which has the extent 1.
func inferOneHot(s *ops.Shapes, column bool) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType == tensor.Int64 || x.DType == tensor.Int32, "int32 or int64"); err != nil {
		return err
	}
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	if dtype == tensor.Bool {
		return opkit.UnsupportedAttr(s, "dtype", "a type of numbers")
	}
	kept := x.Dims
	if last := len(x.Dims) - 1; column {
		if last < 0 || !opkit.Agree(x.Dims[last], 1) {
			return s.Errorf("X", "a last extent of 1")
		}
		kept = x.Dims[:last]
	}
	depth := s.Int("depth")
	if depth < 1 {
		return opkit.BadAttr(s, "depth", "at least 1")
	}
	x.DType, x.Dims = dtype, slices.Concat(kept, []int64{depth})
	s.SetAt("Out", 0, x)
	return nil
}

func bindOneHot[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	if b.In("X").DType() == tensor.Int32 {
		return oneHot[T, int32](b), nil
	}
	return oneHot[T, int64](b), nil
}

func oneHot[T kernel.Number, I kernel.Index](b *ops.Binding) ops.Kernel {
	op, x, to := b.Op(), b.In("X"), b.Out("Out")
	depth, lenient := b.Int("depth"), b.Bool("allow_out_of_range")
	return func(context.Context) error {
		classes := tensor.Data[I](x)
		if at := kernel.OneHot(tensor.Data[T](to), classes, int(depth)); at >= 0 && !lenient {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")),
				fault.Gotf("class %d in row %d", classes[at], at), fault.Wantf("0 to %d", depth-1))
		}
		return nil
	}
}
