package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// labelAttrs are the attributes of the losses that compare probabilities with labels.
var labelAttrs = []ops.Attr{
	{Name: "soft_label", Doc: "whether Label is a distribution over the classes rather than the number of one", Default: false},
	{Name: "ignore_index", Doc: "label of rows that cost nothing", Default: int32(-100)}}

// inferLoss checks probabilities or logits in slot x against Label, and gives the slot loss one number for each row.
func inferLoss(s *ops.Shapes, x, loss string) error {
	m := s.In(x)
	if len(m.Dims) == 0 {
		return s.Errorf(x, "rank 1 or more")
	}
	if err := s.IsFloat(x); err != nil {
		return err
	}
	if s.Bool("soft_label") {
		if err := opkit.SameShape(s, x, "Label"); err != nil {
			return err
		}
	} else {
		if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
			return err
		}
		if err := checkLabelDims(s, "Label", x); err != nil {
			return err
		}
	}
	m.Dims = append([]int64(nil), m.Dims...)
	m.Dims[len(m.Dims)-1] = 1
	s.SetAt(loss, 0, m)
	return nil
}

// byLabel makes the loop of a loss over rows of classes. The kernel soft computes rows [from, to) of labels that are distributions, hard those of
// labels that name a class and were checked.
func byLabel[T tensor.Float](b *ops.Binding, rows, classes int, soft func(from, to int, labels []T),
	hard func(from, to int, labels []int64, ignored int64)) (ops.Kernel, error) {
	op, label, distributions, ignored := b.Op(), b.In("Label"), b.Bool("soft_label"), b.Int("ignore_index")
	return b.Loops(ops.Loop{N: rows, Run: func(_, from, to int) error {
		if distributions {
			soft(from, to, opkit.Owned[T](label, from, to, rows))
			return nil
		}
		labels := label.Int64s()[from:to]
		if err := checkLabels(op, labels, from, classes, ignored); err != nil {
			return err
		}
		hard(from, to, labels, ignored)
		return nil
	}})
}

// checkLabels reports the first label that names no class; the first of labels belongs to row first.
func checkLabels(op *program.Op, labels []int64, first, classes int, ignored int64) error {
	row := kernel.FirstBadLabel(labels, int64(classes), ignored)
	if row < 0 {
		return nil
	}
	label := labels[row]
	row += first
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Label")),
		fault.Gotf("label %d in row %d", label, row), fault.Wantf("0 to %d, or %d to ignore the row", classes-1, ignored))
}

// checkLabelDims checks that a slot holds one label for each row of another slot: dims [..., 1] where the other has [..., n].
func checkLabelDims(s *ops.Shapes, slot, of string) error {
	d, x := s.In(slot).Dims, s.In(of).Dims
	last := len(x) - 1
	if last < 0 || len(d) != len(x) || !ops.Compatible(d[:last], x[:last]) || !opkit.Agree(d[last], 1) {
		return s.Errorf(slot, "the dims of %s %v with a last extent of 1", of, x)
	}
	return nil
}
