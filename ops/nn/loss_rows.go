package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "smooth_l1_loss",
		Doc: "A loss of rows that is square for small differences and linear for large ones: with d = InsideWeight*(X - Y) and s = sigma*sigma, Out is the sum " +
			"along a row of OutsideWeight*(s*d*d/2 where |d| < 1/s, else |d| - 1/(2*s)). Absent weights are 1.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float, rank 2 or more; a row is X[i]"},
			{Name: "Y", Doc: "of the shape and type of X"},
			{Name: "InsideWeight", Doc: "likewise; no gradient flows to it", Dispensable: true},
			{Name: "OutsideWeight", Doc: "likewise; with InsideWeight", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Diff", Doc: "of the shape and type of X: InsideWeight*(X - Y)", Intermediate: true},
			{Name: "Out", Doc: "[rows, 1]"}},
		Attrs:     []ops.Attr{{Name: "sigma", Doc: "1/(sigma*sigma) is where the loss becomes linear, at least 0", Default: float32(1), Check: atLeastZero("sigma")}},
		Infer:     inferSmoothL1,
		MixesRows: opkit.MixesUnlike,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("X", bindSmoothL1[float32], bindSmoothL1[float64]),
	}, opkit.Gradient{
		Doc:     "dX = dOut*InsideWeight*OutsideWeight*(s*Diff limited to [-1, 1]), dY = -dX.",
		Inputs:  []string{"InsideWeight", "OutsideWeight"},
		Outputs: []string{"Diff"},
		Wrt:     []string{"X", "Y"},
		StandIn: map[string]string{"X": "Diff", "Y": "Diff"},
		Cost:    opkit.PerElement(6),
		Bind:    opkit.BindFloats("Diff", bindSmoothL1Grad[float32], bindSmoothL1Grad[float64]),
	})
}

func inferSmoothL1(s *ops.Shapes) error {
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	x := s.In("X")
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	slots := []string{"X", "Y"}
	for i, slot := range []string{"InsideWeight", "OutsideWeight"} {
		if s.Has(slot) {
			slots = append(slots, slot)
		} else if other := []string{"OutsideWeight", "InsideWeight"}[i]; s.Has(other) {
			return s.Errorf(other, "both weights or none")
		}
	}
	if err := opkit.SameShape(s, slots...); err != nil {
		return err
	}
	s.Like("Diff", "X")
	s.Set("Out", x.DType, x.Dims[0], 1)
	s.ShareLoD("Out", "X")
	return nil
}

func bindSmoothL1[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, inside, outside, diff, out, sigma := b.In("X"), b.In("Y"), b.In("InsideWeight"), b.In("OutsideWeight"), b.Out("Diff"), b.Out("Out"), b.Float("sigma")
	rows, width := opkit.Matrix(x.Dims(), 1)
	if out == nil {
		out = b.Scratch(tensor.Of[T](), rows)
	}
	return opkit.Loop(b, rows, func(from, to int) {
		own := func(t *tensor.Tensor) []T { return opkit.Owned[T](t, from, to, rows) }
		kernel.SmoothL1(own(out), own(diff), own(x), own(y), own(inside), own(outside), width, sigma*sigma)
	})
}

func bindSmoothL1Grad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	inside, outside, diff, dout := b.In("InsideWeight"), b.In("OutsideWeight"), b.In("Diff"), b.In("Out@GRAD")
	dx, dy, sigma := b.Out("X@GRAD"), b.Out("Y@GRAD"), b.Float("sigma")
	rows, width := opkit.Matrix(diff.Dims(), 1)
	return opkit.Loop(b, rows, func(from, to int) {
		own := func(t *tensor.Tensor) []T { return opkit.Owned[T](t, from, to, rows) }
		kernel.SmoothL1Grad(own(dx), own(dy), own(diff), own(inside), own(outside), own(dout), width, sigma*sigma)
	})
}

func init() {
	opkit.Register(ops.Def{
		Type: "bpr_loss",
		Doc: "The loss of Bayesian personalized ranking (Hidasi et al. 2016), which wants the item of the label to score higher than each other one: Y is the mean over " +
			"the n - 1 other items j of -log(sigmoid(X[Label] - X[j])), for each row.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float scores, the items on the last axis, at least 2"},
			{Name: "Label", Doc: "int64 with a last extent of 1"}},
		Outputs: []ops.Slot{{Name: "Y", Doc: "dims of X with a last extent of 1"}},
		Infer: func(s *ops.Shapes) error {
			if x := s.In("X").Dims; len(x) > 0 && (x[len(x)-1] == 0 || x[len(x)-1] == 1) {
				return s.Errorf("X", "two items or more on the last axis")
			}
			return inferLoss(s, "X", "Y")
		},
		MixesRows: opkit.MixesUnlike,
		Cost:      opkit.PerElement(16),
		Bind:      opkit.BindFloats("X", bindBPR[float32], bindBPR[float64]),
	}, opkit.Gradient{
		Doc:    "dX[j] = dY/(n - 1)*sigmoid(X[j] - X[Label]), and dX[Label] is minus the sum of these.",
		Inputs: []string{"X", "Label"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(16),
		Bind:   opkit.BindFloats("X", bindBPRGrad[float32], bindBPRGrad[float64]),
	})
}

func bindBPR[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y := b.In("X"), b.Out("Y")
	return byItem(b, func(from, to, rows, items int, labels []int64) {
		kernel.BPRLoss(tensor.Data[T](y)[from:to], opkit.Owned[T](x, from, to, rows), labels, items)
	})
}

func bindBPRGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dy, dx := b.In("X"), b.In("Y@GRAD"), b.Out("X@GRAD")
	return byItem(b, func(from, to, rows, items int, labels []int64) {
		kernel.BPRLossGrad(opkit.Owned[T](dx, from, to, rows), opkit.Owned[T](x, from, to, rows), tensor.Data[T](dy)[from:to], labels, items)
	})
}

// byItem makes the loop over rows of scores with a label each. It checks the labels.
func byItem(b *ops.Binding, run func(from, to, rows, items int, labels []int64)) (ops.Kernel, error) {
	op, x, label := b.Op(), b.In("X"), b.In("Label")
	rows, items := opkit.Matrix(x.Dims(), len(x.Dims())-1)
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		labels := label.Int64s()[from:to]
		if err := opkit.CheckIDs(op, op.In("Label"), labels, from, int64(items)); err != nil {
			return err
		}
		run(from, to, rows, items, labels)
		return nil
	}})
}
