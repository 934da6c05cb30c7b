package math

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	frobenius := reduction("frobenius_norm", "the square root of the sum of squares")
	frobenius.Inputs, frobenius.Infer = in("X", "float"), inferFloatReduction
	frobenius.Cost = opkit.PerElement(2)
	frobenius.Bind = opkit.BindFloats("X", bindFrobenius[float32], bindFrobenius[float64])
	opkit.Register(frobenius, opkit.Gradient{
		Doc: "dX = dOut*X/Out, 0 where Out is 0, with dOut and Out of the norm that the element fell into.", Inputs: []string{"X"}, Outputs: []string{"Out"}, Wrt: []string{"X"},
		Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("X", bindReduceGrad(normSlope[float32]), bindReduceGrad(normSlope[float64])),
	})
	logsumexp := reduction("logsumexp", "the logarithm of the sum of e**X")
	logsumexp.Inputs, logsumexp.Infer = in("X", "float"), inferFloatReduction
	logsumexp.Attrs = append(logsumexp.Attrs, ops.Attr{Name: "axis", Doc: "axes to reduce, in place of dim", Default: []int32{0}},
		ops.Attr{Name: "keepdim", Doc: "as keep_dim", Default: false})
	logsumexp.Cost = opkit.PerElement(10)
	logsumexp.Bind = opkit.BindFloats("X", bindLogSumExp[float32], bindLogSumExp[float64])
	opkit.Register(logsumexp, opkit.Gradient{
		Doc: "dX = dOut*e**(X - Out), with dOut and Out of the result that the element fell into.", Inputs: []string{"X"}, Outputs: []string{"Out"}, Wrt: []string{"X"},
		Cost: opkit.PerElement(10),
		Bind: opkit.BindFloats("X", bindReduceGrad(expSlope[float32]), bindReduceGrad(expSlope[float64])),
	})
	opkit.Register(ops.Def{
		Type:    "l1_norm",
		Doc:     "The sum of magnitudes: Out[0] = sum(|X|).",
		Inputs:  in("X", "float"),
		Outputs: out("Out", "dims [1]"),
		Infer:   inferNumber,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindL1Norm[float32], bindL1Norm[float64]),

		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc: "dX = dOut[0]*sign(X).", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindL1NormGrad[float32], bindL1NormGrad[float64]),
	})
}

func inferFloatReduction(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	return inferReduced(s)
}

func normSlope[T tensor.Float](x, norm, dout T) T {
	if norm == 0 {
		return 0
	}
	return dout * x / norm
}

func expSlope[T tensor.Float](x, out, dout T) T { return dout * T(math.Exp(float64(x-out))) }

func bindFrobenius[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	return bindReduction(func(plan *kernel.ReducePlan, out, x []T, from, to int) {
		kernel.ReduceSquares(plan, out, x, from, to)
		n, _ := plan.Iterations()
		own := out[len(out)/n*from : len(out)/n*to]
		kernel.Sqrt(own, own)
	})(b)
}

func bindLogSumExp[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	top := b.Scratch(tensor.Of[T](), b.Out("Out").Len())
	return bindReduction(func(plan *kernel.ReducePlan, out, x []T, from, to int) {
		kernel.ReduceLogSumExp(plan, out, x, tensor.Data[T](top), from, to)
	})(b)
}

func bindL1Norm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	return func(context.Context) error {
		tensor.Data[T](to)[0] = kernel.L1Norm(tensor.Data[T](x))
		return nil
	}, nil
}

func bindL1NormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: x.Len(), Whole: []string{"Out@GRAD"}, Run: func(_, from, till int) error {
		kernel.NormGrad(tensor.Data[T](dx)[from:till], tensor.Data[T](x)[from:till], 0, tensor.Data[T](dout)[0], 1)
		return nil
	}})
}

func init() {
	opkit.Register(ops.Def{
		Type: "p_norm",
		Doc: "The norm of the elements along an axis: Out = (sum(|X|**porder))**(1/porder). For porder 0 it counts what is not 0, for infinity it is the largest " +
			"magnitude, and for -infinity the smallest.",
		Inputs:  in("X", "float, rank 1 or more"),
		Outputs: out("Out", "X without the axis, or with 1 in its place; [1] when none is left"),
		Attrs: []ops.Attr{{Name: "porder", Doc: "which norm", Default: float32(2)}, laneAxis,
			{Name: "epsilon", Doc: "added to a norm by which the gradient divides", Default: float32(1e-12)},
			{Name: "keepdim", Doc: "whether the axis stays, with an extent of 1", Default: false},
			{Name: "asvector", Doc: "whether X is one row of all its elements", Default: false}},
		Infer: inferPNorm,
		Cost:  opkit.PerElement(10),
		Bind:  opkit.BindFloats("X", bindPNorm[float32], bindPNorm[float64]),

		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return mixesLanes(s, divided) || s.Bool("asvector")
		},
	}, opkit.Gradient{
		Doc:    "dX = dOut*sign(X)*(|X|/Out)**(porder - 1), with dOut and Out of the norm that the element fell into.",
		Inputs: []string{"X"}, Outputs: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(10),
		Bind: opkit.BindFloats("X", bindPNormGrad[float32], bindPNormGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:   "norm",
		Doc:    "Divides by the Euclidean norm along an axis: Norm = sqrt(sum(X*X) + epsilon), Out = X/Norm.",
		Inputs: in("X", "float, rank 1 or more"),
		Outputs: []ops.Slot{{Name: "Norm", Doc: "of the dims of X with 1 at the axis", Intermediate: true},
			{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs: []ops.Attr{{Name: "axis", Doc: laneAxis.Doc, Kind: int32(0)}, {Name: "epsilon", Doc: "added to the sum", Default: float32(1e-10)}},
		Infer: func(s *ops.Shapes) error {
			x := s.In("X")
			axis, err := isNumbers(s)
			if err != nil {
				return err
			}
			s.Like("Out", "X")
			norms := slices.Clone(x.Dims)
			norms[axis] = 1
			s.Set("Norm", x.DType, norms...)
			return s.IsFloat("X")
		},
		Cost: opkit.PerElement(4),
		Bind: opkit.BindFloats("X", bindNorm[float32], bindNorm[float64]),

		MixesRows: mixesLanes,
	}, opkit.Gradient{
		Doc:    "dX = (dOut - Out*sum(dOut*Out))/Norm, with sums along the axis.",
		Inputs: []string{"X"}, From: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(6),
		Bind: opkit.BindFloats("X", bindNormGrad[float32], bindNormGrad[float64]),
	})
}

func inferPNorm(s *ops.Shapes) error {
	x := s.In("X")
	axis, err := isNumbers(s)
	if err != nil {
		return err
	}
	if p := s.Float("porder"); math.IsNaN(p) {
		return opkit.BadAttr(s, "porder", "a number")
	}
	var dims []int64
	for i, extent := range x.Dims {
		switch along := i == axis || s.Bool("asvector"); {
		case !along:
			dims = append(dims, extent)
		case s.Bool("keepdim"):
			dims = append(dims, 1)
		}
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", x.DType, dims...)
	if axis > 0 && !s.Bool("asvector") {
		s.ShareLoD("Out", "X")
	}
	return s.IsFloat("X")
}

func bindPNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, p := b.In("X"), b.Out("Out"), b.Float("porder")
	l := lanesAlong(x.Dims(), b.Int("axis"), b.Bool("asvector"))
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.PNorm(tensor.Data[T](to), tensor.Data[T](x), l.extent, l.post, p, from, till)
		return nil
	}})
}

func bindPNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, dout, dx, p := b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out(program.GradName("X")), b.Float("porder")
	l := lanesAlong(x.Dims(), b.Int("axis"), b.Bool("asvector"))
	epsilon := b.Float("epsilon")
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.PNormGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](to), tensor.Data[T](dout), l.extent, l.post, p, epsilon, from, till)
		return nil
	}})
}

func bindNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, norm, epsilon := b.In("X"), b.Out("Out"), b.Out("Norm"), b.Float("epsilon")
	l := lanesAlong(x.Dims(), b.Int("axis"), false)
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.NormaliseLanes(opkit.Data[T](to), opkit.Data[T](norm), tensor.Data[T](x), l.extent, l.post, epsilon, from, till)
		return nil
	}})
}

func bindNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx, epsilon := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Float("epsilon")
	l := lanesAlong(x.Dims(), b.Int("axis"), false)
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.NormaliseLanesGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](dout), l.extent, l.post, epsilon, from, till)
		return nil
	}})
}
