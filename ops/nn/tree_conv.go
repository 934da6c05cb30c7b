package nn

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "tree_conv",
		Doc: "Convolves trees (Mou et al. 2014): the window of a node has all nodes below it that lie less than max_depth levels deeper. Out of the node is the sum over them of their features " +
			"times a mean of three filters: for the left, the right and the top. A node d levels deeper that is child i, from 0, of n has the weights t = 1 - d/max_depth for the top, l = " +
			"(1-t)*i/(n-1), or half of 1-t for an only child, for the left, and (1-t)*(1-l) for the right.",
		Inputs: []ops.Slot{
			{Name: "NodesVector", Doc: "float [N, nodes, M]"},
			{Name: "EdgeSet", Doc: "int32 [N, edges, 2]: a node and its child, nodes counted from 1; a pair with a 0 ends them"},
			{Name: "Filter", Doc: "[M, 3, K, filters]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "[N, nodes, K, filters], zeros for nodes that the tree lacks"}},
		Attrs:   []ops.Attr{{Name: "max_depth", Doc: "levels of the window, at least 2", Default: int32(2)}},
		Infer:   inferTreeConv,
		Cost:    treeConvCost(2),
		Bind:    opkit.BindFloats("NodesVector", bindTreeConv[float32], bindTreeConv[float64]),

		MixesRows: opkit.RowsTogether("NodesVector", "EdgeSet"),
	}, opkit.Gradient{
		Doc:    "dFilter is the product of the transposed windows and dOut; dNodesVector of a node is the sum over the windows that have it of dOut*transpose(Filter), weighed as above.",
		Inputs: []string{"NodesVector", "EdgeSet", "Filter"},
		Wrt:    []string{"NodesVector", "Filter"},
		Cost:   treeConvCost(4),
		Bind:   opkit.BindFloats("NodesVector", bindTreeConvGrad[float32], bindTreeConvGrad[float64]),
	})
}

func inferTreeConv(s *ops.Shapes) error {
	if err := s.IsFloat("NodesVector"); err != nil {
		return err
	}
	if err := s.SameType("NodesVector", "Filter"); err != nil {
		return err
	}
	for slot, rank := range opkit.InOrder(map[string]int{"NodesVector": 3, "EdgeSet": 3, "Filter": 4}) {
		if err := s.Rank(slot, rank); err != nil {
			return err
		}
	}
	nodes, edges, filter := s.In("NodesVector"), s.In("EdgeSet"), s.In("Filter").Dims
	if depth := s.Int("max_depth"); depth < 2 || depth > math.MaxInt16 {
		return opkit.BadAttr(s, "max_depth", "2 to %d", math.MaxInt16)
	}
	if edges.DType != tensor.Int32 || !ops.Compatible(edges.Dims, []int64{nodes.Dims[0], program.Unknown, 2}) || edges.Dims[1] > math.MaxInt32/8 {
		return s.Errorf("EdgeSet", "int32 [%d, edges, 2]", nodes.Dims[0])
	}
	if nodes.Dims[1] > math.MaxInt32/8 {
		return s.Errorf("NodesVector", "at most %d nodes", math.MaxInt32/8)
	}
	if !ops.Compatible(filter, []int64{nodes.Dims[2], 3, filter[2], filter[3]}) {
		return s.Errorf("Filter", "dims [%d, 3, K, filters]", nodes.Dims[2])
	}
	s.Set("Out", nodes.DType, nodes.Dims[0], nodes.Dims[1], filter[2], filter[3])
	s.ShareLoD("Out", "NodesVector")
	return nil
}

func treeConvCost(flops int64) func(*ops.Shapes) ops.Cost {
	return func(s *ops.Shapes) ops.Cost {
		nodes := s.In("NodesVector").Dims
		return ops.Cost{Flops: flops * opkit.Size([]int64{nodes[0], nodes[1], opkit.Size(s.In("Filter").Dims)}), Bytes: opkit.Bytes(s)}
	}
}

// A forest is a bound tree_conv, or its gradient.
type forest[T tensor.Float] struct {
	op                   *program.Op
	nodes, edges, filter *tensor.Tensor
	trees                int
	count, width, pairs  int // nodes of a tree, their features, and its edges
	deep, columns        int // of the filter as a matrix: three for each feature, and all filters
	depth                int

	memory  *tensor.Tensor // int32, a tree for each part
	windows *tensor.Tensor // [nodes, deep] for each part
	work    *tensor.Tensor
	each    int // elements of work that a part has
}

func newForest[T tensor.Float](b *ops.Binding) *forest[T] {
	f := &forest[T]{op: b.Op(), nodes: b.In("NodesVector"), edges: b.In("EdgeSet"), filter: b.In("Filter"), depth: int(b.Int("max_depth"))}
	dims, filter := f.nodes.Dims(), f.filter.Dims()
	f.trees, f.count, f.width, f.pairs = int(dims[0]), int(dims[1]), int(dims[2]), int(f.edges.Dims()[1])
	f.deep, f.columns = 3*f.width, opkit.Count(filter[2:])
	f.each = max(kernel.GemmWorkspace(f.count, f.columns, f.deep), kernel.GemmWorkspace(f.count, f.deep, f.columns), kernel.GemmWorkspace(f.deep, f.columns, f.count))
	f.memory = b.Scratch(tensor.Int32, b.Parts()*kernel.TreeMemory(f.count, f.pairs))
	f.windows, f.work = b.Scratch(tensor.Of[T](), b.Parts()*f.count*f.deep), b.Scratch(tensor.Of[T](), b.Parts()*f.each)
	return f
}

// tree reads a tree. It returns how many nodes it has.
func (f *forest[T]) tree(part, i int) (kernel.Tree, int, error) {
	t := kernel.NewTree(ops.Part(f.memory.Int32s(), part, kernel.TreeMemory(f.count, f.pairs)), f.count, f.pairs)
	n, bad := t.Read(f.edges.Int32s()[2*i*f.pairs:][:2*f.pairs])
	if bad != 0 || n > f.count {
		return t, 0, fault.E(fault.InvalidArgument, fault.On(f.op), fault.Var(f.op.In("EdgeSet")), fault.Gotf("a tree of %d nodes with number %d, tree %d", n, bad, i), fault.Wantf("nodes 1 to %d", f.count))
	}
	return t, n, nil
}

// rows returns the windows of a part, and its workspace.
func (f *forest[T]) rows(part int) (windows, work []T) {
	return ops.Part(tensor.Data[T](f.windows), part, f.count*f.deep), ops.Part(tensor.Data[T](f.work), part, f.each)
}

// features returns the features of a tree in a tensor like NodesVector.
func (f *forest[T]) features(t *tensor.Tensor, i int) []T {
	return tensor.Data[T](t)[i*f.count*f.width:][:f.count*f.width]
}

// results returns the rows of a tree in a tensor like Out.
func (f *forest[T]) results(t *tensor.Tensor, i int) []T {
	return tensor.Data[T](t)[i*f.count*f.columns:][:f.count*f.columns]
}

// gather writes the windows of all nodes of a tree, and returns their number.
func (f *forest[T]) gather(part, i int, windows []T) (int, error) {
	t, n, err := f.tree(part, i)
	for node := range n {
		kernel.TreeWindow(&t, int32(node+1), f.depth, windows[node*f.deep:][:f.deep], f.features(f.nodes, i), f.width)
	}
	return n, err
}

func bindTreeConv[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	f, out := newForest[T](b), b.Out("Out")
	return b.Loops(ops.Loop{N: f.trees, Whole: []string{"Filter"}, Run: func(part, from, to int) error {
		windows, work := f.rows(part)
		for i := from; i < to; i++ {
			n, err := f.gather(part, i, windows)
			if err != nil {
				return err
			}
			y := f.results(out, i)
			kernel.Gemm(false, false, n, f.columns, f.deep, 1, windows, f.deep, tensor.Data[T](f.filter), f.columns, 0, y, f.columns, work)
			clear(y[n*f.columns:])
		}
		return nil
	}})
}

func bindTreeConvGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	f, dout := newForest[T](b), b.In(program.GradName("Out"))
	dnodes, dfilter := b.Out(program.GradName("NodesVector")), b.Out(program.GradName("Filter"))
	var loops []ops.Loop
	if dnodes != nil {
		loops = append(loops, ops.Loop{N: f.trees, Whole: []string{"Filter"}, Writes: []string{program.GradName("NodesVector")}, Run: func(part, from, to int) error {
			windows, work := f.rows(part)
			for i := from; i < to; i++ {
				t, n, err := f.tree(part, i)
				if err != nil {
					return err
				}
				kernel.Gemm(false, true, n, f.deep, f.columns, 1, f.results(dout, i), f.columns, tensor.Data[T](f.filter), f.columns, 0, windows, f.deep, work)
				d := f.features(dnodes, i)
				clear(d)
				for node := range n {
					kernel.TreeWindowGrad(&t, int32(node+1), f.depth, d, windows[node*f.deep:][:f.deep], f.width)
				}
			}
			return nil
		}})
	}
	if dfilter != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Reads: []string{"NodesVector", "EdgeSet", program.GradName("Out")}, Writes: []string{program.GradName("Filter")}, Run: func(part, _, _ int) error {
			windows, work := f.rows(part)
			clear(tensor.Data[T](dfilter))
			for i := range f.trees {
				n, err := f.gather(part, i, windows)
				if err != nil {
					return err
				}
				kernel.Gemm(true, false, f.deep, f.columns, n, 1, windows, f.deep, f.results(dout, i), f.columns, 1, tensor.Data[T](dfilter), f.columns, work)
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
