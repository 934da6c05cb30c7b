package nn

import (
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "nll_loss",
		Doc: "The negative logarithm of the likelihood of labels: -Weight[Label]*X[Label] for each row and place, summed, or divided by the sum of the weights that count. Absent weights " +
			"are 1. A mean over nothing is 0.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float logarithms of probabilities [N, classes] or [N, classes, ...]"}, {Name: "Label", Doc: "int64 [N] or [N, ...]"},
			{Name: "Weight", Doc: "of each class, of the type of X; no gradient flows to it", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[1]; of the shape of Label for reduction none"}, {Name: "Total_weight", Doc: "[1]: the sum of the weights that count, 0 for reduction none",
			Intermediate: true}},
		Attrs: []ops.Attr{{Name: "ignore_index", Doc: "label of what does not count", Default: int64(-100)},
			{Name: "reduction", Doc: "none, mean or sum", Default: "mean", Check: func(op *program.Op) error {
				if kind, _ := op.Str("reduction"); kind == "none" || kind == "mean" || kind == "sum" {
					return nil
				}
				return errors.New("none, mean or sum")
			}}},
		Infer: inferNLL,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.Str("reduction") != "none" || opkit.RowsTogether("X", "Label")(s, divided)
		},
		Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("X", bindNLL[float32], bindNLL[float64]),
	}, opkit.Gradient{
		Doc:    "dX = -dOut*Weight[Label] at the label, divided by Total_weight for a mean, and 0 elsewhere.",
		Inputs: []string{"X", "Label", "Weight"}, Outputs: []string{"Total_weight"}, From: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("X", bindNLLGrad[float32], bindNLLGrad[float64]),
	})
}

func inferNLL(s *ops.Shapes) error {
	x, label := s.In("X"), s.In("Label")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if err := opkit.CheckType(s, "Label", label.DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	want := slices.Delete(slices.Clone(x.Dims), 1, 2)
	if !ops.Compatible(label.Dims, want) {
		return s.Errorf("Label", "dims %v, those of X without the classes", want)
	}
	if s.Has("Weight") {
		if !ops.Compatible(s.In("Weight").Dims, x.Dims[1:2]) {
			return s.Errorf("Weight", "dims %v, a number for each class", x.Dims[1:2])
		}
		if err := s.SameType("X", "Weight"); err != nil {
			return err
		}
	}
	s.Set("Total_weight", x.DType, 1)
	if s.Str("reduction") != "none" {
		s.Set("Out", x.DType, 1)
		return nil
	}
	m := x
	m.Dims = want
	s.SetAt("Out", 0, m)
	return nil
}

// An nll goes over the labels that count.
type nll[T tensor.Float] struct {
	b             *ops.Binding
	label, weight *tensor.Tensor
	classes, each int // labels of a row
	ignore        int64
}

func newNLL[T tensor.Float](b *ops.Binding) *nll[T] {
	dims := b.In("X").Dims()
	return &nll[T]{b, b.In("Label"), b.In("Weight"), int(dims[1]), opkit.Count(dims[2:]), b.Int("ignore_index")}
}

// visit calls f for each label from first to end that counts: with its number, its element of X and its weight.
func (n *nll[T]) visit(first, end int, f func(i, at int, weight T)) error {
	labels := n.label.Int64s()
	for i := first; i < end; i++ {
		class := labels[i]
		if class == n.ignore {
			continue
		}
		if class < 0 || class >= int64(n.classes) {
			return fault.E(fault.InvalidArgument, fault.On(n.b.Op()), fault.Var(n.b.Op().In("Label")), fault.Gotf("label %d at element %d", class, i), fault.Wantf("0 to %d", n.classes-1))
		}
		w := T(1)
		if n.weight != nil {
			w = tensor.Data[T](n.weight)[class]
		}
		f(i, (i/n.each*n.classes+int(class))*n.each+i%n.each, w)
	}
	return nil
}

func bindNLL[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, total, kind := b.In("X"), b.Out("Out"), b.Out("Total_weight"), b.Str("reduction")
	n := newNLL[T](b)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		sum, weights := 0.0, 0.0
		to := opkit.Data[T](out)
		clear(to)
		err := n.visit(0, n.label.Len(), func(i, at int, w T) {
			loss := -w * tensor.Data[T](x)[at]
			if kind == "none" {
				if to != nil {
					to[i] = loss
				}
				return
			}
			sum += float64(loss)
			weights += float64(w)
		})
		if kind == "mean" && weights != 0 {
			sum /= weights
		}
		if to != nil && kind != "none" {
			to[0] = T(sum)
		}
		if total != nil {
			tensor.Data[T](total)[0] = T(weights)
		}
		return err
	}})
}

func bindNLLGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, total, dx, kind := b.In("Out@GRAD"), b.In("Total_weight"), b.Out("X@GRAD"), b.Str("reduction")
	n := newNLL[T](b)
	rows := int(dx.Dims()[0])
	return b.Loops(ops.Loop{N: rows, Apart: true, Run: func(_, from, till int) error {
		to := tensor.Data[T](dx)
		clear(to[from*n.classes*n.each : till*n.classes*n.each])
		return n.visit(from*n.each, till*n.each, func(i, at int, w T) {
			d := tensor.Data[T](dout)
			switch kind {
			case "none":
				to[at] = -w * d[i]
			case "sum":
				to[at] = -w * d[0]
			default:
				to[at] = -w * d[0] / tensor.Data[T](total)[0]
			}
		})
	}})
}
