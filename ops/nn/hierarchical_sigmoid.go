package nn

import (
	"errors"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "hierarchical_sigmoid",
		Doc: "A loss of classes that are the leaves of a binary tree (Morin and Bengio 2005), so that a row is scored against one node for each level only: Out is the sum along the " +
			"path to the leaf of Label of log(1 + e**s) - s*(1 where the path goes right), with s = X.W[node] + Bias[node] limited to [-40, 40]. The tree is complete, or " +
			"PathTable and PathCode have the paths. A path that is shorter than PreOut is wide costs log(2) for each level that it lacks.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [N, D]"},
			{Name: "W", Doc: "[nodes, D]; the complete tree has num_classes - 1 nodes"},
			{Name: "Label", Doc: "int64 [N, 1], the class of each row"},
			{Name: "PathTable", Doc: "int64 [N, L], the nodes from the root to the class of the row; a negative number ends a path", Dispensable: true},
			{Name: "PathCode", Doc: "int64 [N, L], not 0 where the path goes right at the node", Dispensable: true},
			{Name: "Bias", Doc: "[nodes, 1]", Dispensable: true}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "[N, 1]"},
			{Name: "PreOut", Doc: "[N, L]: log(1 + e**s)", Intermediate: true},
			{Name: "W_Out", Doc: "W, as it is; where it is the variable of W, as in Fluid, the slot is left out when a program is read", Intermediate: true, Dispensable: true}},
		Attrs: []ops.Attr{
			{Name: "num_classes", Doc: "number of classes, from 2", Default: int32(2), Check: func(op *program.Op) error {
				if n, ok := op.Int("num_classes"); ok && (n < 2 || n > math.MaxInt32) {
					return errors.New("2 classes or more")
				}
				return nil
			}},
			{Name: "is_sparse", Doc: "whether the gradient of W is sparse", Default: false}},
		Infer:     inferHierarchical,
		MixesRows: opkit.RowsTogether("X", "Label", "PathTable", "PathCode"),
		Cost:      chosenCost("X", pathLength),
		Bind:      opkit.BindFloats("X", bindHierarchical[float32], bindHierarchical[float64]),
		InPlace:   map[string]string{"W_Out": "W"},
	}, opkit.Gradient{
		Doc: "with g = dOut*(sigmoid(s) - (1 where the path goes right)) of each node of a path, dX is the sum of g*W[node], dW[node] that of g*X, and dBias[node] that of g. " +
			"With is_sparse dW has a row for each node of each path.",
		Inputs:  []string{"X", "W", "Label", "PathTable", "PathCode", "Bias"},
		Outputs: []string{"PreOut"},
		Wrt:     []string{"X", "W", "Bias"},
		Refine:  sparseChosen("W", func(s *ops.Shapes) int64 { return ops.Product(s.In("PreOut").Dims) }),
		Rows:    true,
		Cost:    chosenCost("X", pathLength),
		Bind:    opkit.BindFloats("X", bindHierarchicalGrad[float32], bindHierarchicalGrad[float64]),
	})
}

// chosenCost is the cost of an op that multiplies each row of x with so many rows of a matrix.
func chosenCost(x string, places func(*ops.Shapes) int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		return ops.Cost{Flops: opkit.Size([]int64{2, max(1, places(s)), opkit.Size(s.In(x).Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// pathLength returns the largest number of nodes that a row meets, program.Unknown if that is open.
func pathLength(s *ops.Shapes) int64 {
	if s.Has("PathTable") {
		return s.In("PathTable").Dims[1]
	}
	return int64(kernel.TreeDepth(s.Int("num_classes")))
}

func inferHierarchical(s *ops.Shapes) error {
	if err := inferChosen(s, "X", "W"); err != nil {
		return err
	}
	x, classes := s.In("X"), s.Int("num_classes")
	if err := checkLabelDims(s, "Label", "X"); err != nil {
		return err
	}
	if s.Has("PathTable") != s.Has("PathCode") {
		return s.Errorf("PathTable", "PathTable and PathCode, or neither")
	}
	if s.Has("PathTable") {
		for _, slot := range []string{"PathTable", "PathCode"} {
			if err := opkit.CheckType(s, slot, s.In(slot).DType == tensor.Int64, "int64"); err != nil {
				return err
			}
			if dims := s.In(slot).Dims; len(dims) != 2 || !opkit.Agree(dims[0], x.Dims[0]) || !ops.Compatible(dims, s.In("PathTable").Dims) {
				return s.Errorf(slot, "dims [%d, L], a path for each row of X", x.Dims[0])
			}
		}
	} else if nodes := s.In("W").Dims[0]; nodes != program.Unknown && nodes < classes-1 {
		return s.Errorf("W", "%d rows, one for each inner node of a tree of %d classes", classes-1, classes)
	}
	s.Set("PreOut", x.DType, x.Dims[0], pathLength(s))
	s.Set("Out", x.DType, x.Dims[0], 1)
	s.Like("W_Out", "W")
	s.ShareLoD("PreOut", "X")
	s.ShareLoD("Out", "X")
	return nil
}

// A hierarchy is a bound hierarchical_sigmoid.
type hierarchy[T tensor.Float] struct {
	*chosen[T]
	label, table, code, right *tensor.Tensor
	classes                   int64
}

func newHierarchy[T tensor.Float](b *ops.Binding) *hierarchy[T] {
	h := &hierarchy[T]{label: b.In("Label"), table: b.In("PathTable"), code: b.In("PathCode"), classes: b.Int("num_classes")}
	depth := kernel.TreeDepth(h.classes)
	if h.table != nil {
		depth = int(h.table.Dims()[1])
	}
	h.chosen = newChosen[T](b, "X", "W", depth)
	h.right = b.Scratch(tensor.Bool, h.n*depth)
	return h
}

// walk writes the paths of rows [from, to) to ids and right.
func (h *hierarchy[T]) walk(from, to int) error {
	ids, right := h.ids.Int64s()[from*h.places:to*h.places], h.right.Bools()[from*h.places:to*h.places]
	if h.table == nil {
		labels := h.label.Int64s()[from:to]
		if err := opkit.CheckIDs(h.op, h.op.In("Label"), labels, from, h.classes); err != nil {
			return err
		}
		for i, class := range labels {
			kernel.TreePath(ids[i*h.places:][:h.places], right[i*h.places:][:h.places], class, h.classes)
		}
		return nil
	}
	copy(ids, h.table.Int64s()[from*h.places:])
	for k, bit := range h.code.Int64s()[from*h.places : to*h.places] {
		if k%h.places > 0 && ids[k-1] < 0 {
			ids[k] = -1 // the path has ended
		}
		right[k] = ids[k] >= 0 && bit != 0
	}
	return h.check("PathTable", ids, from)
}

func bindHierarchical[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	h := newHierarchy[T](b)
	soft, out, same := orScratch[T](b, "PreOut", h.n*h.places), orScratch[T](b, "Out", h.n), b.Out("W_Out")
	copies := ops.Loop{N: 1, Reads: []string{"W"}, Writes: []string{"W_Out"}, Copies: same != nil, Run: func(int, int, int) error {
		copy(opkit.Data[T](same), tensor.Data[T](h.w))
		return nil
	}}
	return b.Loops(copies, ops.Loop{N: h.n, Whole: []string{"W", "Bias"}, Writes: []string{"PreOut", "Out"}, Run: func(_, from, to int) error {
		if err := h.walk(from, to); err != nil {
			return err
		}
		h.score(soft, from, to)
		for i := from; i < to; i++ {
			tensor.Data[T](out)[i] = kernel.TreeLoss(h.of(soft, i, i+1), h.right.Bools()[i*h.places:][:h.places])
		}
		return nil
	}})
}

func bindHierarchicalGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	h, soft, dout := newHierarchy[T](b), b.In("PreOut"), b.In("Out@GRAD")
	slopes := b.Scratch(tensor.Of[T](), h.n*h.places)
	first := ops.Loop{N: h.n, Reads: []string{"Label", "PathTable", "PathCode", "PreOut", "Out@GRAD"}, Writes: []string{}, Run: func(_, from, to int) error {
		if err := h.walk(from, to); err != nil {
			return err
		}
		for i := from; i < to; i++ {
			kernel.TreeLossGrad(h.of(slopes, i, i+1), h.of(soft, i, i+1), h.right.Bools()[i*h.places:][:h.places], tensor.Data[T](dout)[i])
		}
		return nil
	}}
	return b.Loops(append([]ops.Loop{first}, h.gradients(b, slopes)...)...)
}
