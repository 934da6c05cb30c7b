package nn

import (
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file walk the tree of a tree-based deep model (Zhu et al. 2018), whose leaves are items. Node 0 stands for no node.

func init() {
	ops.Register(ops.Def{
		Type: "tdm_child",
		Doc:  "Finds the children of nodes of a tree: Child has the numbers of the children of each node of X, zeros for a node without any, and LeafMask 1 for a child that is a leaf.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "int32 or int64: nodes"},
			{Name: "TreeInfo", Doc: "int32 or int64 [nodes, 3+child_nums]: of each node its item, 0 for none, its layer, its parent and its children"}},
		Outputs: []ops.Slot{
			{Name: "Child", Doc: "of the type that dtype says, the dims of X and child_nums"},
			{Name: "LeafMask", Doc: "as Child"}},
		Attrs: []ops.Attr{{Name: "child_nums", Doc: "children of a node", Kind: int32(0)}, treeType},
		Infer: inferTDMChild,
		Cost:  opkit.PerElement(2),
		Bind:  bindTDMChild,

		MixesRows: opkit.RowsOnlyIn("X"),
	})
	ops.Register(ops.Def{
		Type: "tdm_sampler", Class: ops.Random,
		Doc: "Draws nodes of each layer of a tree that are not on the way to an item: for each row of X and each layer the node on the way, with label 1, if output_positive, and as many other " +
			"nodes of the layer as neg_samples_num_list says, each at most once, with label 0. A layer that the item lies above gives zeros, and 0 in Mask. What is drawn depends on " +
			"seed, the name of Out, the step and the place of the row in the whole batch.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "int32 or int64 [N, 1]: items"},
			{Name: "Travel", Doc: "int32 or int64 [items, layers]: the nodes on the way to each item, 0 where it lies above the layer"},
			{Name: "Layer", Doc: "of the type of Travel, [nodes, 1]: the nodes layer by layer"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "of the type that dtype says, [N, samples of all layers]"},
			{Name: "Labels", Doc: "as Out", Dispensable: true},
			{Name: "Mask", Doc: "as Out"}},
		Attrs: []ops.Attr{
			{Name: "output_positive", Doc: "whether the node on the way is among the samples", Default: true},
			{Name: "neg_samples_num_list", Doc: "other nodes of each layer, fewer than it has", Default: []int32{}},
			{Name: "layer_offset_lod", Doc: "where each layer begins in Layer, and the end of the last", Default: []int32{}},
			{Name: "seed", Doc: "key of what is drawn", Default: int32(0)},
			treeType},
		Infer:     inferTDMSampler,
		Cost:      opkit.PerElement(60),
		Bind:      bindTDMSampler,
		MixesRows: opkit.RowsOnlyIn("X"),
	})
}

// treeType says which integers come out.
var treeType = ops.Attr{Name: "dtype", Doc: "int32 2 or int64 3", Default: int32(tensor.Int32), Check: func(op *program.Op) error {
	if d, ok := op.Int("dtype"); ok && d != int64(tensor.Int32) && d != int64(tensor.Int64) {
		return errors.New("int32 2 or int64 3")
	}
	return nil
}}

// integers checks that slots hold int32 or int64.
func integers(s *ops.Shapes, slots ...string) error {
	for _, slot := range slots {
		if d := s.In(slot).DType; d != tensor.Int32 && d != tensor.Int64 {
			return opkit.CheckType(s, slot, false, "int32 or int64")
		}
	}
	return nil
}

// nodeAt returns element i of a tensor of int32 or int64.
func nodeAt(t *tensor.Tensor, i int) int64 {
	if t.DType() == tensor.Int32 {
		return int64(t.Int32s()[i])
	}
	return t.Int64s()[i]
}

// setNode sets element i of a tensor of int32 or int64, which may be nil.
func setNode(t *tensor.Tensor, i int, node int64) {
	switch {
	case t == nil:
	case t.DType() == tensor.Int32:
		t.Int32s()[i] = int32(node)
	default:
		t.Int64s()[i] = node
	}
}

// noNode is the error of a number in row i of a slot that is none of so many.
func noNode(op *program.Op, slot string, node int64, i int, nodes int64) error {
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In(slot)), fault.Gotf("%d in row %d", node, i), fault.Wantf("0 to %d", nodes-1))
}

func inferTDMChild(s *ops.Shapes) error {
	if err := integers(s, "X", "TreeInfo"); err != nil {
		return err
	}
	children := s.Int("child_nums")
	if children < 1 || children > math.MaxInt32 {
		return opkit.BadAttr(s, "child_nums", "at least 1")
	}
	if m := s.In("TreeInfo"); !ops.Compatible(m.Dims, []int64{program.Unknown, 3 + children}) {
		return s.Errorf("TreeInfo", "dims [nodes, %d]", 3+children)
	}
	for _, slot := range []string{"Child", "LeafMask"} {
		s.Set(slot, tensor.DType(s.Int("dtype")), append(slices.Clone(s.In("X").Dims), children)...)
		s.ShareLoD(slot, "X")
	}
	return nil
}

func bindTDMChild(b *ops.Binding) (ops.Kernel, error) {
	op, x, tree, child, leaf := b.Op(), b.In("X"), b.In("TreeInfo"), b.Out("Child"), b.Out("LeafMask")
	children, nodes := int(b.Int("child_nums")), tree.Dims()[0]
	width := 3 + children
	return b.Loops(ops.Loop{N: x.Len(), Whole: []string{"TreeInfo"}, Run: func(_, from, to int) error {
		for i := from; i < to; i++ {
			node := nodeAt(x, i)
			if node < 0 || node >= nodes {
				return noNode(op, "X", node, i, nodes)
			}
			has := node != 0 && nodeAt(tree, int(node)*width+3) != 0
			for k := range children {
				below, isLeaf := int64(0), int64(0)
				if has {
					below = nodeAt(tree, int(node)*width+3+k)
					if below < 0 || below >= nodes {
						return noNode(op, "TreeInfo", below, int(node), nodes)
					}
					if nodeAt(tree, int(below)*width) != 0 {
						isLeaf = 1
					}
				}
				setNode(child, i*children+k, below)
				setNode(leaf, i*children+k, isLeaf)
			}
		}
		return nil
	}})
}

func inferTDMSampler(s *ops.Shapes) error {
	if err := integers(s, "X", "Travel", "Layer"); err != nil {
		return err
	}
	if err := s.SameType("Travel", "Layer"); err != nil {
		return err
	}
	x, nodes := s.In("X"), s.In("Layer")
	if len(x.Dims) == 0 || !ops.Compatible(x.Dims[1:], ones(len(x.Dims)-1)) {
		return s.Errorf("X", "one item in each row")
	}
	counts, offsets := s.Ints("neg_samples_num_list"), s.Ints("layer_offset_lod")
	if len(counts) == 0 || len(offsets) != len(counts)+1 {
		return opkit.BadAttr(s, "layer_offset_lod", "%d numbers, one more than there are layers", len(counts)+1)
	}
	if !ops.Compatible(s.In("Travel").Dims, []int64{program.Unknown, int64(len(counts))}) {
		return s.Errorf("Travel", "dims [items, %d]", len(counts))
	}
	if len(nodes.Dims) == 0 || !ops.Compatible(nodes.Dims[1:], ones(len(nodes.Dims)-1)) {
		return s.Errorf("Layer", "one node in each row")
	}
	columns := int64(0)
	for i, n := range counts {
		size := offsets[i+1] - offsets[i]
		if offsets[0] != 0 || size < 1 || nodes.Dims[0] >= 0 && offsets[i+1] > nodes.Dims[0] {
			return opkit.BadAttr(s, "layer_offset_lod", "rising numbers from 0 to the nodes of Layer %v", nodes.Dims)
		}
		if n < 0 || n >= size {
			return opkit.BadAttr(s, "neg_samples_num_list", "0 to less than the nodes of each layer: %d in layer %d", size, i)
		}
		columns += n
		if s.Bool("output_positive") {
			columns++
		}
	}
	for _, slot := range []string{"Out", "Labels", "Mask"} {
		s.Set(slot, tensor.DType(s.Int("dtype")), x.Dims[0], columns)
		s.ShareLoD(slot, "X")
	}
	return nil
}

func bindTDMSampler(b *ops.Binding) (ops.Kernel, error) {
	op, x, travel, layer, step := b.Op(), b.In("X"), b.In("Travel"), b.In("Layer"), batchOf(b, "X")
	out, labels, mask, positive, seed := b.Out("Out"), b.Out("Labels"), b.Out("Mask"), b.Bool("output_positive"), b.Int("seed")
	counts, offsets, name := b.Ints("neg_samples_num_list"), b.Ints("layer_offset_lod"), kernel.StreamOf("tdm_sampler", op.Out("Out"))
	items, columns, most, draws := travel.Dims()[0], 0, int64(0), uint64(0)
	for _, n := range counts {
		if most, draws, columns = max(most, n), draws+uint64(n), columns+int(n); positive {
			columns++
		}
	}
	drawn := b.Scratch(tensor.Int64, b.Parts()*int(most))
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Apart: true, Whole: []string{"Travel", "Layer"}, Run: func(part, from, till int) (err error) {
		stream, room := opkit.StreamAt(name, step.Step), ops.Part(drawn.Int64s(), part, int(most))
		eachRowRun(x, step, from, till, func(at, end int, place uint64) {
			for row := at; row < end && err == nil; row++ {
				item := nodeAt(x, row)
				if item < 0 || item >= items {
					err = noNode(op, "X", item, row, items)
					return
				}
				to, first := row*columns, (place+uint64(row-at))*draws
				put := func(node, label, real int64) {
					setNode(out, to, node)
					setNode(labels, to, label)
					setNode(mask, to, real)
					to++
				}
				for l, n := range counts {
					node, size := nodeAt(travel, int(item)*len(counts)+l), int(offsets[l+1]-offsets[l])
					own := size
					for k := 0; node != 0 && k < size; k++ {
						if nodeAt(layer, int(offsets[l])+k) == node {
							own = k
							break
						}
					}
					if positive && node != 0 {
						put(node, 1, 1)
					} else if positive {
						put(0, 0, 0)
					}
					if node != 0 {
						drawOthers(room[:n], size, own, seed, stream, first)
					}
					first += uint64(n)
					for _, k := range room[:n] {
						if node == 0 {
							put(0, 0, 0)
						} else {
							put(nodeAt(layer, int(offsets[l]+k)), 0, 1)
						}
					}
				}
			}
		})
		return err
	}})
}

// drawOthers draws numbers below size, each at most once, and never own, if that is below size (Floyd 1987).
func drawOthers(drawn []int64, size, own int, seed int64, stream, first uint64) {
	others := size
	if own < size {
		others--
	}
	var u [1]float64
	for k := range drawn {
		most := others - len(drawn) + k
		kernel.UniformFill(u[:], seed, stream, first+uint64(k), 0, 1)
		at := int64(u[0] * float64(most+1))
		if slices.Contains(drawn[:k], at) {
			at = int64(most)
		}
		drawn[k] = at
	}
	for k, at := range drawn {
		if at >= int64(own) {
			drawn[k]++
		}
	}
}
