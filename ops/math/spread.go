package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// broadcast_tensors and meshgrid give several tensors the same dims: each output repeats one input along axes that it lacks.

func init() {
	spreading{func(xs [][]int64) ([]int64, bool) {
		dims, ok := xs[0], true
		for _, x := range xs[1:] {
			if dims, ok = broadcastDims(dims, x); !ok {
				return nil, false
			}
		}
		return dims, true
	}, func(x []int64, _, rank int) []int64 { return slices.Concat(ones(rank-len(x)), x) }}.register(ops.Def{
		Type:    "broadcast_tensors",
		Doc:     "Repeats several tensors until all have the same dims: extents of 1, and axes before the first.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "one for each X, of its type", Duplicable: true}},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return slices.ContainsFunc(s.Ins("X"), func(m ops.Meta) bool { return len(m.Dims) == 0 || m.Dims[0] == 1 || len(m.Dims) != len(s.In("X").Dims) })
		},
	}, "any dims that differ only where an extent is 1")
	spreading{func(xs [][]int64) ([]int64, bool) {
		var dims []int64
		for _, x := range xs {
			if len(x) != 1 {
				return nil, false
			}
			dims = append(dims, x[0])
		}
		return dims, len(dims) <= tensor.MaxRank
	}, func(x []int64, i, rank int) []int64 {
		return slices.Concat(ones(i), x, ones(rank-i-1))
	}}.register(ops.Def{
		Type:      "meshgrid",
		Doc:       "Makes the coordinates of a grid: Out[k] has X[k] along axis k, the same for all places of the other axes.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "any type, rank 1", Duplicable: true}},
		Outputs:   []ops.Slot{{Name: "Out", Doc: "one for each X, of its type, with an axis for each X", Duplicable: true}},
		MixesRows: opkit.Mixes,
	}, "rank 1")
}

// A spreading is one such op. dims returns those of all outputs, and align those of input i with as many axes, before it is repeated.
type spreading struct {
	dims  func(xs [][]int64) ([]int64, bool)
	align func(x []int64, i, rank int) []int64
}

// register adds the op and its gradient. want says which dims fit.
func (p spreading) register(def ops.Def, want string) {
	def.Infer = func(s *ops.Shapes) error {
		if err := s.SameType("X"); err != nil {
			return err
		}
		xs := s.Ins("X")
		if len(s.Outs("Out")) != len(xs) {
			return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d variables in Out", len(s.Outs("Out"))), fault.Wantf("%d, one for each X", len(xs)))
		}
		all := make([][]int64, len(xs))
		for i, m := range xs {
			all[i] = m.Dims
		}
		dims, ok := p.dims(all)
		if !ok {
			return s.Errorf("X", "%s", want)
		}
		s.Set("Out", xs[0].DType, dims...)
		return nil
	}
	def.Cost = opkit.PerElement(1)
	def.Bind = opkit.BindElements("X", bindSpreading[float32](p), bindSpreading[float64](p), bindSpreading[int32](p), bindSpreading[int64](p), bindSpreading[bool](p))
	opkit.Register(def, opkit.Gradient{
		Doc: "dX sums, for each element, dOut of all places that show it.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindSpreadingGrad[float32](p), bindSpreadingGrad[float64](p)),
	})
}

// plan plans the output of input i.
func (p spreading) plan(b *ops.Binding, x, out []int64, i int) *kernel.PickPlan {
	dims, axes := expandRuns(b, p.align(x, i, len(out)), out)
	return kernel.NewPickPlan(ints(dims), axes)
}

func bindSpreading[T tensor.Element](p spreading) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		xs, outs := b.Ins("X"), b.Outs("Out")
		plans := make([]*kernel.PickPlan, len(outs))
		for i, to := range outs {
			if to != nil {
				plans[i] = p.plan(b, xs[i].Dims(), to.Dims(), i)
			}
		}
		return func(context.Context) error {
			var zero T
			for i, plan := range plans {
				if plan != nil {
					n, _ := plan.Iterations()
					kernel.Pick(plan, tensor.Data[T](outs[i]), tensor.Data[T](xs[i]), zero, 0, n)
				}
			}
			return nil
		}, nil
	}
}

func bindSpreadingGrad[T tensor.Float](p spreading) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		douts, dxs := b.Ins("Out@GRAD"), b.Outs("X@GRAD")
		plans := make([]*kernel.PickPlan, len(dxs))
		for i, dx := range dxs {
			if dx != nil && douts[i] != nil {
				plans[i] = p.plan(b, dx.Dims(), douts[i].Dims(), i)
			}
		}
		return func(context.Context) error {
			for i, plan := range plans {
				if plan == nil {
					clear(opkit.Data[T](dxs[i]))
					continue
				}
				n, _ := plan.Iterations()
				kernel.PickGrad(plan, tensor.Data[T](dxs[i]), tensor.Data[T](douts[i]), 0, n)
			}
			return nil
		}, nil
	}
}
