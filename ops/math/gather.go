package math

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file show places of X that an input Index chooses. The gradient of each sums, for each place, the gradients of all that show it.

// A gathering is one such op. plan says what is shown, for X and Index of these dims.
type gathering struct {
	plan func(b attributes, x, index []int64) *kernel.GatherPlan
}

func init() {
	index := ops.Slot{Name: "Index", Doc: "int32 or int64, numbers of places"}
	gathering{planAlong("axis")}.register(ops.Def{
		Type:    "gather",
		Doc:     "Gathers places of an axis: Out = X[Index] for the first axis. The gradient sums what repeated indices show, also where Fluid, with overwrite, takes the last.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type, rank 1 or more"}, index, tensorOf("Axis", "axis")},
		Outputs: out("Out", "of the type of X; the axis has the extent of Index, and Out lacks it if Index is one number of dims []"),
		Attrs: []ops.Attr{
			{Name: "axis", Doc: "the axis; negative counts from the end", Default: int32(0), Tensor: "Axis"},
			{Name: "overwrite", Doc: "has no effect", Default: true}},
		Infer:     func(s *ops.Shapes) error { return inferGatherAxis(s, "axis") },
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool { return mixesGathered(s, divided, "axis") },
	})
	gathering{planAlong("dim")}.register(ops.Def{
		Type:      "index_select",
		Doc:       "Gathers places of an axis: Out = X[Index] for the first axis.",
		Inputs:    []ops.Slot{{Name: "X", Doc: "any type, rank 1 or more"}, index},
		Outputs:   out("Out", "of the type of X; the axis has the extent of Index"),
		Attrs:     []ops.Attr{{Name: "dim", Doc: "the axis; negative counts from the end", Default: int32(0)}},
		Infer:     func(s *ops.Shapes) error { return inferGatherAxis(s, "dim") },
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool { return mixesGathered(s, divided, "dim") },
	})
	gathering{planGatherND}.register(ops.Def{
		Type:    "gather_nd",
		Doc:     "Gathers parts of a tensor: Out[i, ...] = X[Index[i, 0], Index[i, 1], ...]. A negative index counts from the end.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "any type, rank 1 or more"}, {Name: "Index", Doc: "int32 or int64; its last axis has an index for each of the first axes of X"}},
		Outputs: out("Out", "of the type of X; dims those of Index without the last, and the axes of X that have no index"),
		Infer:   inferGatherND,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return divided("X") || len(s.In("Index").Dims) < 2
		},
	})
	gathering{planIndexSample}.register(ops.Def{
		Type:      "index_sample",
		Doc:       "Gathers elements of each row: Out[i, j] = X[i, Index[i, j]].",
		Inputs:    []ops.Slot{{Name: "X", Doc: "any type [N, M]"}, {Name: "Index", Doc: "int32 or int64 [N, K], columns of X"}},
		Outputs:   out("Out", "[N, K], of the type of X"),
		Infer:     inferIndexSample,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return !divided("X") || !divided("Index") },
	})
}

// register adds the op and its gradient. def has all but Bind and Cost.
func (g gathering) register(def ops.Def) {
	def.Cost = opkit.PerElement(1)
	def.Bind = opkit.BindElements("X", bindGather[float32](g), bindGather[float64](g), bindGather[int32](g), bindGather[int64](g), bindGather[bool](g))
	opkit.Register(def, opkit.Gradient{
		Doc: "dX sums, for each place, dOut of all that show it.", Inputs: []string{"X", "Index"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindGatherGrad[float32](g), bindGatherGrad[float64](g)),
	})
}

// isIndex checks that a slot holds integers.
func isIndex(s *ops.Shapes, slot string) error {
	t := s.In(slot).DType
	return opkit.CheckType(s, slot, t == tensor.Int32 || t == tensor.Int64, "int32 or int64")
}

// mixesGathered is the MixesRows of a gather along an axis. Where X has the rows of the batch, the first axis is theirs; where Index has them, and X is
// equal for all, they become those of Out along the first axis.
func mixesGathered(s *ops.Shapes, divided func(string) bool, attr string) bool {
	axis := s.Int(attr)
	first := axis == 0 || axis == -int64(len(s.In("X").Dims))
	return divided("X") == first || divided("Index") && (!first || len(s.In("Index").Dims) == 0)
}

func inferGatherAxis(s *ops.Shapes, attr string) error {
	x, index := s.In("X"), s.In("Index").Dims
	axis, err := opkit.AxisAttr(s, attr, s.Int(attr), len(x.Dims))
	if err != nil {
		return err
	}
	if len(index) > 1 && (len(index) != 2 || !opkit.Agree(index[1], 1)) {
		return s.Errorf("Index", "[N], [N, 1] or []")
	}
	dims := slices.Clone(x.Dims)
	if len(index) == 0 {
		s.Set("Out", x.DType, slices.Delete(dims, axis, axis+1)...)
		return isIndex(s, "Index")
	}
	dims[axis] = index[0]
	s.Set("Out", x.DType, dims...)
	if axis == 0 {
		s.ShareLoD("Out", "Index")
	} else {
		s.ShareLoD("Out", "X")
	}
	return isIndex(s, "Index")
}

// planAlong plans a gather along the axis that an attribute gives.
func planAlong(attr string) func(b attributes, x, index []int64) *kernel.GatherPlan {
	return func(b attributes, x, index []int64) *kernel.GatherPlan {
		axis := b.Int(attr)
		if axis < 0 {
			axis += int64(len(x))
		}
		return &kernel.GatherPlan{Pre: opkit.Count(x[:axis]), N: opkit.Count(index), Post: opkit.Count(x[axis+1:]), Extents: ints(x[axis : axis+1])}
	}
}

func inferGatherND(s *ops.Shapes) error {
	x, index := s.In("X"), s.In("Index").Dims
	k, err := indexDepth(s, "Index", len(x.Dims))
	if err != nil {
		return err
	}
	dims := slices.Concat(index[:len(index)-1], x.Dims[k:])
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", x.DType, dims...)
	if len(index) > 1 {
		s.ShareLoD("Out", "Index")
	}
	return nil
}

// indexDepth returns how many axes of a tensor of a rank each entry of a slot names. The number must be known.
func indexDepth(s *ops.Shapes, slot string, rank int) (int, error) {
	index := s.In(slot).Dims
	if len(index) == 0 {
		return 0, s.Errorf(slot, "rank 1 or more")
	}
	k := index[len(index)-1]
	if k < 1 || k > int64(rank) {
		if k == program.Unknown {
			return 0, fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In(slot)), fault.Gotf("%s %v", slot, s.In(slot)),
				fault.Want("a last extent that is known"))
		}
		return 0, s.Errorf(slot, "a last extent from 1 to %d, the rank of X", rank)
	}
	return int(k), isIndex(s, slot)
}

func planGatherND(_ attributes, x, index []int64) *kernel.GatherPlan {
	last := len(index) - 1
	k := index[last]
	return &kernel.GatherPlan{Pre: 1, N: opkit.Count(index[:last]), Post: opkit.Count(x[k:]), Extents: ints(x[:k]), FromEnd: true}
}

func inferIndexSample(s *ops.Shapes) error {
	x, index := s.In("X"), s.In("Index")
	for _, slot := range []string{"X", "Index"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if !opkit.Agree(x.Dims[0], index.Dims[0]) {
		return s.Errorf("Index", "%d rows, those of X", x.Dims[0])
	}
	index.DType = x.DType
	s.SetAt("Out", 0, index)
	return isIndex(s, "Index")
}

func planIndexSample(_ attributes, x, index []int64) *kernel.GatherPlan {
	return &kernel.GatherPlan{Pre: int(x[0]), N: int(index[1]), Post: 1, Extents: ints(x[1:]), Each: true}
}

// badIndex makes the error of row i of an index, whose numbers do not name a place.
func badIndex(op *program.Op, slot string, index *tensor.Tensor, p *kernel.GatherPlan, i int) error {
	if !p.Each && p.Pre > 1 {
		i %= p.N
	}
	k := len(p.Extents)
	var got any
	if index.DType() == tensor.Int32 {
		got = index.Int32s()[i*k : (i+1)*k]
	} else {
		got = index.Int64s()[i*k : (i+1)*k]
	}
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In(slot)), fault.Gotf("%v in row %d", got, i),
		fault.Wantf("indices from 0 to less than the extents %v", p.Extents))
}

func bindGather[T tensor.Element](g gathering) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, index, to := b.In("X"), b.In("Index"), b.Out("Out")
		p := g.plan(b, x.Dims(), index.Dims())
		run := gatherRows[T, int64]
		if index.DType() == tensor.Int32 {
			run = gatherRows[T, int32]
		}
		return b.Loops(ops.Loop{N: p.Pre * p.N, Reads: []string{"X", "Index"}, Whole: []string{"X", "Index"}, Run: func(_, from, till int) error {
			return run(b.Op(), p, to, x, index, from, till)
		}})
	}
}

func gatherRows[T tensor.Element, I int32 | int64](op *program.Op, p *kernel.GatherPlan, to, x, index *tensor.Tensor, from, till int) error {
	if bad := kernel.Gather(p, tensor.Data[T](to), tensor.Data[T](x), tensor.Data[I](index), from, till); bad >= 0 {
		return badIndex(op, "Index", index, p, bad)
	}
	return nil
}

func bindGatherGrad[T tensor.Float](g gathering) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dx, index, dout := b.Out("X@GRAD"), b.In("Index"), b.In("Out@GRAD")
		p := g.plan(b, dx.Dims(), index.Dims())
		return b.Loops(scatterLoop[T](b, p, kernel.ScatterAdd, "Index", dx, nil, dout, "X@GRAD"))
	}
}

// scatterLoop makes the loop that scatters rows to base, zeros where it is nil.
func scatterLoop[T kernel.Number](b *ops.Binding, p *kernel.GatherPlan, mode kernel.ScatterMode, slot string, to, base, rows *tensor.Tensor, toSlot string) ops.Loop {
	run, index := scatterRows[T, int64], b.In(slot)
	if index.DType() == tensor.Int32 {
		run = scatterRows[T, int32]
	}
	return ops.Loop{N: p.Iterations(), Apart: true, Writes: []string{toSlot}, Run: func(_, from, till int) error {
		if bad := run(p, mode, to, base, rows, index, from, till); bad >= 0 {
			return badIndex(b.Op(), slot, index, p, bad)
		}
		return nil
	}}
}

func scatterRows[T kernel.Number, I int32 | int64](p *kernel.GatherPlan, mode kernel.ScatterMode, to, base, rows, index *tensor.Tensor, from, till int) int {
	return kernel.Scatter(p, mode, tensor.Data[T](to), opkit.Data[T](base), tensor.Data[T](rows), tensor.Data[I](index), from, till)
}
