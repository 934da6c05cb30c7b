package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "kldiv_loss",
		Doc: "The divergence of Kullback and Leibler of a distribution from a target: Loss = Target*(log(Target) - X), X being the logarithm of probabilities; 0 " +
			"where Target is not above 0. reduction says what becomes of the losses of elements.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, logarithms of probabilities, rank 1 or more"},
			{Name: "Target", Doc: "probabilities, of the shape and type of X"}},
		Outputs: []ops.Slot{{Name: "Loss", Doc: "[1]; of the shape and type of X without reduction"}},
		Attrs: []ops.Attr{{Name: "reduction", Doc: "none, mean, sum, or batchmean, which is the sum over the extent of axis 0", Default: "mean",
			Check: func(op *program.Op) error {
				switch reduction, _ := op.Str("reduction"); reduction {
				case "none", "mean", "sum", "batchmean", "": // "" is an attribute that is absent
					return nil
				}
				return fault.New(fault.InvalidArgument, "none, mean, sum or batchmean")
			}}},
		Infer: inferKLDiv,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.Str("reduction") != "none" || opkit.MixesUnlike(s, divided)
		},
		Cost: opkit.PerElement(12),
		Bind: opkit.BindFloats("X", bindKLDiv[float32], bindKLDiv[float64]),
	}, opkit.Gradient{
		Doc:     "dX = -Target*dLoss where Target is above 0, over the number of elements with mean, over the extent of axis 0 with batchmean.",
		Inputs:  []string{"X", "Target"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Target"},
		Spares:  func(*ops.Grad, string) bool { return true },
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("Target", bindKLDivGrad[float32], bindKLDivGrad[float64]),
	})
}

func inferKLDiv(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	x := s.In("X")
	if len(x.Dims) == 0 {
		return s.Errorf("X", "rank 1 or more")
	}
	if s.Str("reduction") == "none" {
		s.Like("Loss", "X")
	} else {
		s.Set("Loss", x.DType, 1)
	}
	return opkit.SameShape(s, "X", "Target")
}

// klShare is the number that a reduction divides the sum of the losses of elements by.
func klShare(reduction string, dims []int64) int {
	switch reduction {
	case "mean":
		return max(1, opkit.Count(dims))
	case "batchmean":
		return max(1, int(dims[0]))
	}
	return 1
}

func bindKLDiv[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, target, loss, reduction := b.In("X"), b.In("Target"), b.Out("Loss"), b.Str("reduction")
	n := x.Len()
	if reduction == "none" {
		return opkit.Loop(b, n, func(from, to int) {
			kernel.KLDivergence(tensor.Data[T](loss)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](target)[from:to])
		})
	}
	each, share := b.Scratch(tensor.Of[T](), n), float64(klShare(reduction, x.Dims()))
	return b.Loops(ops.Loop{N: n, Apart: true, Run: func(_, from, to int) error {
		kernel.KLDivergence(tensor.Data[T](each)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](target)[from:to])
		return nil
	}}, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		tensor.Data[T](loss)[0] = T(kernel.Sum(tensor.Data[T](each)) / share)
		return nil
	}})
}

func bindKLDivGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	target, dloss, dx, reduction := b.In("Target"), b.In("Loss@GRAD"), b.Out("X@GRAD"), b.Str("reduction")
	n, share := target.Len(), klShare(reduction, target.Dims())
	return b.Loops(ops.Loop{N: n, Whole: []string{"Loss@GRAD"}, Run: func(_, from, to int) error {
		d := tensor.Data[T](dloss)
		if reduction == "none" {
			d = d[from:to]
		}
		kernel.KLDivergenceGrad(tensor.Data[T](dx)[from:to], tensor.Data[T](target)[from:to], d, share)
		return nil
	}})
}
