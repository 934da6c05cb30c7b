package nn

import (
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "center_loss",
		Doc: "Pulls rows of a class to its center (Wen et al. 2016): Loss = sum of (X - Centers[Label])**2 along a row over 2. With need_update the centers move to the rows of " +
			"the step: CentersOut[c] = Centers[c] + CenterUpdateRate*(sum of X - Centers[c] over the rows of class c)/(1 + their number).",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, D]"},
			{Name: "Label", Doc: "int64 [N, 1]"},
			{Name: "Centers", Doc: "[cluster_num, D]"},
			{Name: "CenterUpdateRate", Doc: "[1]"}},
		Outputs: []ops.Slot{
			{Name: "CentersOut", Doc: "the variable of Centers"},
			{Name: "SampleCenterDiff", Doc: "of the shape and type of X: X - Centers[Label]", Intermediate: true},
			{Name: "Loss", Doc: "[N, 1]"}},
		Attrs: []ops.Attr{
			{Name: "cluster_num", Doc: "number of classes", Kind: int32(0), Check: func(op *program.Op) error {
				if n, ok := op.Int("cluster_num"); ok && n < 1 {
					return errors.New("one class or more")
				}
				return nil
			}},
			{Name: "need_update", Doc: "whether the centers move", Kind: false}},
		Infer:     inferCenterLoss,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return divided("X") != divided("Label") },
		Cost:      opkit.PerElement(4),
		Bind:      opkit.BindFloats("X", bindCenterLoss[float32], bindCenterLoss[float64]),
		InPlace:   map[string]string{"CentersOut": "Centers"},
		State:     map[string]ops.Merge{"CentersOut": ops.MergeMean},
	}, opkit.Gradient{
		Doc:     "dX = dLoss*SampleCenterDiff. The centers get no gradient: they move.",
		Outputs: []string{"SampleCenterDiff"},
		Inputs:  []string{"Label", "Centers", "CenterUpdateRate"},
		From:    []string{"Loss"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "SampleCenterDiff"},
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("SampleCenterDiff", bindCenterLossGrad[float32], bindCenterLossGrad[float64]),
	})
}

func inferCenterLoss(s *ops.Shapes) error {
	if err := inferChosen(s, "X", "Centers"); err != nil {
		return err
	}
	if err := checkLabelDims(s, "Label", "X"); err != nil {
		return err
	}
	if err := s.SameType("X", "CenterUpdateRate"); err != nil {
		return err
	}
	if !ops.Compatible(s.In("CenterUpdateRate").Dims, []int64{1}) {
		return s.Errorf("CenterUpdateRate", "one number [1]")
	}
	x := s.In("X")
	if n := s.Int("cluster_num"); !opkit.Agree(s.In("Centers").Dims[0], n) {
		return s.Errorf("Centers", "a row for each of the %d classes", n)
	}
	s.Set("CentersOut", x.DType, s.In("Centers").Dims...)
	s.Like("SampleCenterDiff", "X")
	s.Set("Loss", x.DType, x.Dims[0], 1)
	s.ShareLoD("Loss", "X")
	return nil
}

func bindCenterLoss[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, label, centers, rate := b.Op(), b.In("X"), b.In("Label"), b.In("Centers"), b.In("CenterUpdateRate")
	to, kept, loss := b.Out("CentersOut"), b.Out("SampleCenterDiff"), orScratch[T](b, "Loss", int(x.Dims()[0]))
	n, width, classes := int(x.Dims()[0]), int(x.Dims()[1]), int(centers.Dims()[0])
	diff := b.Scratch(tensor.Of[T](), x.Len())
	reads := []string{"X", "Label", "Centers"}
	loops := []ops.Loop{{N: n, Reads: reads, Whole: []string{"Centers"}, Writes: []string{"SampleCenterDiff", "Loss"}, Run: func(_, from, till int) error {
		labels := label.Int64s()[from:till]
		if err := opkit.CheckIDs(op, op.In("Label"), labels, from, int64(classes)); err != nil {
			return err
		}
		d := opkit.Owned[T](diff, from, till, n)
		kernel.CenterLoss(tensor.Data[T](loss)[from:till], d, opkit.Owned[T](x, from, till, n), tensor.Data[T](centers), labels, width)
		copy(opkit.Owned[T](kept, from, till, n), d)
		return nil
	}}}
	if to == nil {
		return b.Loops(loops...)
	}
	if !b.Bool("need_update") {
		return b.Loops(append(loops, ops.Loop{N: 1, Apart: true, Reads: []string{"Centers"}, Whole: []string{"Centers"}, Writes: []string{"CentersOut"}, Run: func(int, int, int) error {
			copy(tensor.Data[T](to), tensor.Data[T](centers))
			return nil
		}})...)
	}
	loops[0].Apart, loops[0].Writes = true, nil // the centers move by diff, also where nobody reads the loss
	counts, moves := b.Scratch(tensor.Int64, classes), b.Scratch(tensor.Of[T](), centers.Len())
	reads = append(reads, "CenterUpdateRate")
	return b.Loops(append(loops,
		ops.Loop{N: 1, Apart: true, Reads: []string{"Label"}, Whole: []string{"Label"}, Writes: []string{}, Run: func(int, int, int) error {
			clear(counts.Int64s())
			for _, l := range label.Int64s() {
				counts.Int64s()[l]++
			}
			return nil
		}},
		ops.Loop{N: width, Least: leastColumns, Apart: true, Reads: reads, Whole: reads, Writes: []string{"CentersOut"}, Run: func(_, from, till int) error {
			kernel.MoveCenters(tensor.Data[T](to), tensor.Data[T](centers), tensor.Data[T](moves), tensor.Data[T](diff), label.Int64s(), counts.Int64s(),
				float64(tensor.Data[T](rate)[0]), width, from, till)
			return nil
		}})...)
}

func bindCenterLossGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	diff, dloss, dx := b.In("SampleCenterDiff"), b.In("Loss@GRAD"), b.Out("X@GRAD")
	n, width := opkit.Matrix(diff.Dims(), 1)
	return b.Loops(ops.Loop{N: n, Reads: []string{"SampleCenterDiff", "Loss@GRAD"}, Run: func(_, from, to int) error {
		kernel.Mul(opkit.Owned[T](dx, from, to, n), opkit.Owned[T](diff, from, to, n), tensor.Data[T](dloss)[from:to], 1, to-from, width)
		return nil
	}})
}
