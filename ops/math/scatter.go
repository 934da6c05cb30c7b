package math

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	s := scattering{slot: "Ids", mode: func(b attributes) kernel.ScatterMode {
		if overwrites(b) {
			return kernel.ScatterReplace
		}
		return kernel.ScatterSum
	}, plan: func(x, index []int64) *kernel.GatherPlan {
		return &kernel.GatherPlan{Pre: 1, N: opkit.Count(index), Post: opkit.Count(x[1:]), Extents: ints(x[:1])}
	}}
	s.register(ops.Def{
		Type: "scatter",
		Doc: "Writes rows into a copy of X: Out[Ids[i]] = Updates[i]. Of several updates of a row the last counts, or with overwrite false their sum. " +
			"All updates of a row get its gradient.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Ids", Doc: "int32 or int64 [N] or [N, 1], rows of X"},
			{Name: "Updates", Doc: "of the type of X, N rows of its width"}},
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "overwrite", Doc: "whether the last update of a row counts, not the sum", Default: true}},
		Infer: func(s *ops.Shapes) error {
			x, ids := s.In("X").Dims, s.In("Ids").Dims
			if len(x) == 0 {
				return s.Errorf("X", "rank 1 or more")
			}
			if len(ids) == 0 {
				return fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Ids")), fault.Got("Ids []"), fault.Want("[N] or [N, 1]: reshape Ids to [1], and Updates to have a row"))
			}
			if len(ids) != 1 && (len(ids) != 2 || !opkit.Agree(ids[1], 1)) {
				return s.Errorf("Ids", "[N] or [N, 1]")
			}
			return inferScatter(s, "Ids", slices.Concat(ids[:1], x[1:]))
		},
		MixesRows: opkit.Mixes,
	})
	scattering{slot: "Index", mode: func(attributes) kernel.ScatterMode { return kernel.ScatterAdd }, plan: func(x, index []int64) *kernel.GatherPlan {
		return planGatherND(nil, x, index)
	}}.register(ops.Def{
		Type: "scatter_nd_add",
		Doc:  "Adds updates to parts of X: Out = X, and Out[Index[i, 0], Index[i, 1], ...] += Updates[i]. A negative index counts from the end.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Index", Doc: "int32 or int64; its last axis has an index for each of the first axes of X"},
			{Name: "Updates", Doc: "of the type of X; dims those of Index without the last, and the axes of X that have no index"}},
		Outputs: out("Out", "of the shape and type of X"),
		Infer: func(s *ops.Shapes) error {
			x, index := s.In("X").Dims, s.In("Index").Dims
			k, err := indexDepth(s, "Index", len(x))
			if err != nil {
				return err
			}
			return inferScatter(s, "Index", slices.Concat(index[:len(index)-1], x[k:]))
		},
		MixesRows: opkit.Mixes,
	})
}

// overwrites reads the attribute that an op without it has as false.
func overwrites(b attributes) bool {
	set, ok := b.Op().Bool("overwrite")
	return set || !ok
}

// A scattering is an op that writes updates to places that a slot names.
type scattering struct {
	slot string
	mode func(attributes) kernel.ScatterMode
	plan func(x, index []int64) *kernel.GatherPlan
}

func inferScatter(s *ops.Shapes, slot string, updates []int64) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if !ops.Compatible(s.In("Updates").Dims, updates) {
		return s.Errorf("Updates", "dims %v", updates)
	}
	if err := isIndex(s, slot); err != nil {
		return err
	}
	s.Like("Out", "X")
	return s.SameType("X", "Updates")
}

func (c scattering) register(def ops.Def) {
	def.Cost = opkit.PerElement(1)
	def.Bind = opkit.BindNumbers("X", bindScatter[float32](c), bindScatter[float64](c), bindScatter[int32](c), bindScatter[int64](c))
	doc := "dX = dOut and dUpdates = dOut at the places of the updates."
	if def.Type == "scatter" {
		doc = "dX = dOut but 0 in rows of Ids, and dUpdates = dOut[Ids]."
	}
	opkit.Register(def, opkit.Gradient{
		Doc: doc, Inputs: []string{c.slot, "Updates"}, Wrt: []string{"X", "Updates"}, StandIn: map[string]string{"X": "Out@GRAD"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindScatterGrad[float32](c), bindScatterGrad[float64](c)),
	})
}

func bindScatter[T kernel.Number](c scattering) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In("X"), b.Out("Out")
		return b.Loops(scatterLoop[T](b, c.plan(x.Dims(), b.In(c.slot).Dims()), c.mode(b), c.slot, to, x, b.In("Updates"), "Out"))
	}
}

func bindScatterGrad[T tensor.Float](c scattering) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dout, index, dx, du := b.In("Out@GRAD"), b.In(c.slot), b.Out("X@GRAD"), b.Out("Updates@GRAD")
		p := c.plan(dout.Dims(), index.Dims())
		var loops []ops.Loop
		if dx != nil && dx.Len() > 0 {
			loops = append(loops, baseLoop[T](p, c.mode(b), dx, dout, index))
		}
		if du != nil && du.Len() > 0 {
			run := gatherRows[T, int64]
			if index.DType() == tensor.Int32 {
				run = gatherRows[T, int32]
			}
			loops = append(loops, ops.Loop{N: p.N, Apart: true, Reads: []string{"Out@GRAD", c.slot}, Writes: []string{"Updates@GRAD"}, Run: func(_, from, till int) error {
				return run(b.Op(), p, du, dout, index, from, till)
			}})
		}
		return b.Loops(loops...)
	}
}

// baseLoop copies dout to dx but for the places whose old elements do not count.
func baseLoop[T tensor.Float](p *kernel.GatherPlan, mode kernel.ScatterMode, dx, dout, index *tensor.Tensor) ops.Loop {
	return ops.Loop{N: p.Post, Apart: true, Writes: []string{"X@GRAD"}, Run: func(_, from, till int) error {
		if index.DType() == tensor.Int32 {
			kernel.LayBase(p, mode, tensor.Data[T](dx), tensor.Data[T](dout), index.Int32s(), from, till)
		} else {
			kernel.LayBase(p, mode, tensor.Data[T](dx), tensor.Data[T](dout), index.Int64s(), from, till)
		}
		return nil
	}}
}

func init() {
	opkit.Register(ops.Def{
		Type: "index_add",
		Doc:  "Adds parts to places of an axis of X: Out = X, and for the first axis Out[Index[i]] += AddValue[i]. Several parts of a place are added one after the other.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"}, {Name: "Index", Doc: "int32 or int64 [N], places of the axis"},
			{Name: "AddValue", Doc: "of the type of X and its dims, but N along the axis"}},
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "axis", Doc: "the axis; negative counts from the end", Default: int32(0)}},
		Infer: func(s *ops.Shapes) error {
			axis, err := isNumbers(s)
			if err != nil {
				return err
			}
			if err := s.Rank("Index", 1); err != nil {
				return err
			}
			want := slices.Clone(s.In("X").Dims)
			want[axis] = s.In("Index").Dims[0]
			if !ops.Compatible(s.In("AddValue").Dims, want) {
				return s.Errorf("AddValue", "dims %v", want)
			}
			if err := isIndex(s, "Index"); err != nil {
				return err
			}
			s.Like("Out", "X")
			return s.SameType("X", "AddValue")
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return opkit.MixesAlong("X", "axis")(s, divided) || divided("Index") || divided("X") != divided("AddValue")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindIndexAdd[float32], bindIndexAdd[float64], bindIndexAdd[int32], bindIndexAdd[int64]),
	}, opkit.Gradient{
		Doc: "dX = dOut, and dAddValue = dOut at the places of Index.", Inputs: []string{"Index", "AddValue"}, Wrt: []string{"X", "AddValue"},
		StandIn: map[string]string{"X": "Out@GRAD"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindIndexAddGrad[float32], bindIndexAddGrad[float64]),
	})
}

func bindIndexAdd[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	return b.Loops(scatterLoop[T](b, planAlong("axis")(b, x.Dims(), b.In("Index").Dims()), kernel.ScatterAdd, "Index", to, x, b.In("AddValue"), "Out"))
}

func bindIndexAddGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, index, dx, dv := b.In("Out@GRAD"), b.In("Index"), b.Out("X@GRAD"), b.Out("AddValue@GRAD")
	var loops []ops.Loop
	if dx != nil {
		loops = append(loops, copyLoop[T]("Out@GRAD", "X@GRAD", dout, dx))
	}
	if dv != nil {
		p, run := planAlong("axis")(b, dout.Dims(), index.Dims()), gatherRows[T, int64]
		if index.DType() == tensor.Int32 {
			run = gatherRows[T, int32]
		}
		loops = append(loops, ops.Loop{N: p.Pre * p.N, Reads: []string{"Out@GRAD", "Index"}, Whole: []string{"Out@GRAD", "Index"}, Writes: []string{"AddValue@GRAD"},
			Run: func(_, from, till int) error { return run(b.Op(), p, dv, dout, index, from, till) }})
	}
	return b.Loops(loops...)
}
