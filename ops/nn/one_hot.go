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
	ops.Register(ops.Def{
		Type:    "one_hot",
		Doc:     "Turns the number of a class into a vector: Out[i, X[i]] = 1, and 0 elsewhere. No gradient flows through it.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int64, a last extent of 1, each in [0, depth)"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of type dtype, dims of X with a last extent of depth"}},
		Attrs: []ops.Attr{
			{Name: "depth", Doc: "number of classes, at least 1", Kind: int32(0)},
			{Name: "dtype", Doc: "element type of Out, as Fluid numbers it", Default: int32(tensor.Float32)}},
		Infer: inferOneHot,
		Bind:  opkit.BindNumbers("Out", bindOneHot[float32], bindOneHot[float64], bindOneHot[int32], bindOneHot[int64]),
	})
}

func inferOneHot(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	if dtype == tensor.Bool {
		return opkit.UnsupportedAttr(s, "dtype", "a type of numbers")
	}
	last := len(x.Dims) - 1
	if last < 0 || !opkit.Agree(x.Dims[last], 1) {
		return s.Errorf("X", "a last extent of 1")
	}
	depth := s.Int("depth")
	if depth < 1 {
		return opkit.BadAttr(s, "depth", "at least 1")
	}
	x.DType, x.Dims = dtype, slices.Concat(x.Dims[:last], []int64{depth})
	s.SetAt("Out", 0, x)
	return nil
}

func bindOneHot[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	op, x, to := b.Op(), b.In("X"), b.Out("Out")
	depth := b.Int("depth")
	return func(context.Context) error {
		classes := x.Int64s()
		if at := kernel.FirstBadID(classes, depth); at >= 0 {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")),
				fault.Gotf("class %d in row %d", classes[at], at), fault.Wantf("0 to %d", depth-1))
		}
		kernel.OneHot(tensor.Data[T](to), classes, int(depth))
		return nil
	}, nil
}
