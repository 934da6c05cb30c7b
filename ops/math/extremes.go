package math

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	for name, which := range map[string]string{"cummax": "largest", "cummin": "smallest"} {
		opkit.Register(ops.Def{
			Type:   name,
			Doc:    "Finds the " + which + " element along an axis up to each place, and where it is; of equal ones the last. After a NaN all are NaN.",
			Inputs: in("x", "numbers, rank 1 or more"),
			Outputs: []ops.Slot{{Name: "out", Doc: "of the shape and type of x"},
				{Name: "indices", Doc: "of the shape of x and of type dtype"}},
			Attrs: []ops.Attr{laneAxis, {Name: "dtype", Doc: "int32 2 or int64 3, as Fluid numbers them", Default: int32(tensor.Int64)}},
			Infer: inferExtremes,
			Cost:  opkit.PerElement(1),
			Bind:  opkit.BindNumbers("x", bindExtremes[float32], bindExtremes[float64], bindExtremes[int32], bindExtremes[int64]),

			MixesRows: opkit.MixesAlong("x", "axis"),
		}, opkit.Gradient{
			Doc: "dx is the sum of dout over the places whose indices name it.", Inputs: []string{"x"}, Outputs: []string{"indices"}, From: []string{"out"}, Wrt: []string{"x"},
			Cost: opkit.PerElement(1), Bind: opkit.BindFloats("out@GRAD", bindExtremesGrad[float32], bindExtremesGrad[float64]),
		})
	}
}

func inferExtremes(s *ops.Shapes) error {
	if err := opkit.CheckType(s, "x", s.In("x").DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if _, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(s.In("x").Dims)); err != nil {
		return err
	}
	dtype := tensor.DType(s.Int("dtype"))
	if dtype != tensor.Int32 && dtype != tensor.Int64 {
		return opkit.BadAttr(s, "dtype", "int32 2 or int64 3")
	}
	s.Like("out", "x")
	s.Set("indices", dtype, s.In("x").Dims...)
	s.ShareLoD("indices", "x")
	return nil
}

func bindExtremes[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	if tensor.DType(b.Int("dtype")) == tensor.Int32 {
		return extremes[T, int32](b)
	}
	return extremes[T, int64](b)
}

func extremes[T kernel.Number, I kernel.Index](b *ops.Binding) (ops.Kernel, error) {
	x, to, places, largest := b.In("x"), b.Out("out"), b.Out("indices"), b.Op().Type == "cummax"
	l := lanesAlong(x.Dims(), b.Int("axis"), false)
	if to == nil {
		to = b.Scratch(tensor.Of[T](), x.Len())
	}
	if places == nil {
		places = b.Scratch(tensor.DType(b.Int("dtype")), x.Len())
	}
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.CumBest(tensor.Data[T](to), tensor.Data[I](places), tensor.Data[T](x), l.extent, l.post, largest, from, till)
		return nil
	}})
}

func bindExtremesGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	if b.In("indices").DType() == tensor.Int32 {
		return extremesGrad[T, int32](b)
	}
	return extremesGrad[T, int64](b)
}

func extremesGrad[T tensor.Float, I kernel.Index](b *ops.Binding) (ops.Kernel, error) {
	dx, dout, places := b.Out("x@GRAD"), b.In("out@GRAD"), b.In("indices")
	l := lanesAlong(dx.Dims(), b.Int("axis"), false)
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"out@GRAD", "indices"}, Run: func(_, from, till int) error {
		at := kernel.SortLanesGrad(tensor.Data[T](dx), tensor.Data[T](dout), tensor.Data[I](places), l.extent, l.post, l.extent, from, till)
		if at < 0 {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("indices")), fault.Gotf("place %d", tensor.Data[I](places)[at]), fault.Wantf("0 to %d", l.extent-1))
	}})
}
