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

func init() {
	opkit.Register(ops.Def{
		Type: "lu",
		Doc: "The LU factors of matrices with row exchanges: P*L*U is X. Out has U from the diagonal on and L below it; the diagonal of L is 1. A matrix without an inverse has a 0 on the diagonal, and is no " +
			"error.",
		Inputs: in("X", "float [..., m, n]"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}, {Name: "Pivots", Doc: "int32 [..., min(m, n)]: with which row, from 1, each row changes places, one after the other"},
			{Name: "Infos", Doc: "int32, dims of X without the last two; [1] if none is left: the first column, from 1, with a 0 on the diagonal, else 0"}},
		Attrs: []ops.Attr{{Name: "pivots", Doc: "whether rows are exchanged, which Fluid does not do without on CPUs either", Default: true}},
		Infer: func(s *ops.Shapes) error {
			if !s.Bool("pivots") {
				return opkit.UnsupportedAttr(s, "pivots", "true")
			}
			before, _, _, k, err := factorOf(s)
			if err != nil {
				return err
			}
			s.Like("Out", "X")
			s.Set("Pivots", tensor.Int32, append(slices.Clone(before), k)...)
			if len(before) == 0 {
				before = []int64{1}
			}
			s.Set("Infos", tensor.Int32, before...)
			return nil
		},
		Cost:      factorCost(1),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindLU[float32], bindLU[float64]),
	}, opkit.Gradient{
		Doc: "dX = P*inverse(transpose(L))*(the lower triangle of transpose(L)*dL + the upper one of dU*transpose(U))*inverse(transpose(U)), and for matrices that are not square what follows from it. It needs a U " +
			"without 0 on the diagonal.",
		Inputs: []string{"X"}, Outputs: []string{"Out", "Pivots"}, From: []string{"Out"}, Wrt: []string{"X"}, Cost: factorCost(4), Bind: opkit.BindFloats("X", bindLUGrad[float32], bindLUGrad[float64]),
	})
	unpacks := func(name, doc string) ops.Attr { return ops.Attr{Name: name, Doc: doc, Default: true} }
	opkit.Register(ops.Def{
		Type:   "lu_unpack",
		Doc:    "Takes what lu makes of matrices apart: Pmat*L*U is the matrix.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [..., m, n], Out of lu"}, {Name: "Pivots", Doc: "int32 [..., min(m, n)], Pivots of lu"}},
		Outputs: []ops.Slot{{Name: "Pmat", Doc: "of the type of X [..., m, m], which exchanges rows; 0 without unpack_pivots"}, {Name: "L", Doc: "[..., m, k], k is min(m, n); 0 without unpack_ludata"},
			{Name: "U", Doc: "[..., k, n]; 0 without unpack_ludata"}},
		Attrs:     []ops.Attr{unpacks("unpack_ludata", "whether to make L and U"), unpacks("unpack_pivots", "whether to make Pmat")},
		Infer:     inferLUParts,
		Cost:      opkit.PerElement(1),
		MixesRows: mixesMatrices("X"),
		Bind:      opkit.BindFloats("X", bindLUParts[float32], bindLUParts[float64]),
	}, opkit.Gradient{
		Doc: "dX has dL below the diagonal and dU from it on.", Inputs: []string{"X", "Pivots"}, From: []string{"L", "U"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindLUPartsGrad[float32], bindLUPartsGrad[float64]),
	})
}

// pivotsOf returns the pivots of matrix i.
func pivotsOf(t *tensor.Tensor, i, k int) []int32 { return t.Int32s()[i*k:][:k] }

func bindLU[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, pivots, infos := b.In("X"), b.Out("Out"), b.Out("Pivots"), b.Out("Infos")
	count, m, n := extents(x)
	k := min(m, n)
	if to == nil {
		to = b.Scratch(tensor.Of[T](), x.Len())
	}
	if pivots == nil {
		pivots = b.Scratch(tensor.Int32, count*k)
	}
	work := b.Scratch(tensor.Float64, b.Parts()*m*n)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(part, from, till int) error {
		for i := from; i < till; i++ {
			zero := kernel.LU(nth[T](to, i, m*n), nth[T](x, i, m*n), pivotsOf(pivots, i, k), ops.Part(work.Float64s(), part, m*n), m, n)
			if infos != nil {
				infos.Int32s()[i] = zero
			}
		}
		return nil
	}})
}

// badPivots is the error of pivots that lu has not made.
func badPivots(b *ops.Binding, i, m int, pivots []int32) error {
	return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Pivots")), fault.Gotf("%v for matrix %d", pivots, i), fault.Wantf("rows 1 to %d", m))
}

func bindLUGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	made, pivots, d, dx := b.In("Out"), b.In("Pivots"), b.In(program.GradName("Out")), b.Out(program.GradName("X"))
	count, m, n := extents(dx)
	k := min(m, n)
	work, rows := b.Scratch(tensor.Float64, b.Parts()*k*k), make([]int, b.Parts()*m)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(part, from, till int) error {
		order := ops.Part(rows, part, m)
		for i := from; i < till; i++ {
			if !kernel.LURows(order, pivotsOf(pivots, i, k)) {
				return badPivots(b, i, m, pivotsOf(pivots, i, k))
			}
			if !kernel.LUGrad(nth[T](dx, i, m*n), nth[T](made, i, m*n), nth[T](d, i, m*n), order, ops.Part(work.Float64s(), part, k*k), m, n) {
				return singular(b, "X", i, "has a 0 on the diagonal of U", "matrices that have none")
			}
		}
		return nil
	}})
}

func inferLUParts(s *ops.Shapes) error {
	before, m, n, k, err := factorOf(s)
	if err != nil {
		return err
	}
	pivots := s.In("Pivots")
	if err := opkit.CheckType(s, "Pivots", pivots.DType == tensor.Int32, "int32"); err != nil {
		return err
	}
	if !ops.Compatible(pivots.Dims, append(slices.Clone(before), k)) {
		return s.Errorf("Pivots", "the dims %v of X without the last two, and the smaller of those", s.In("X").Dims)
	}
	dtype := s.In("X").DType
	set := func(slot, attr string, rows, columns int64) {
		if s.Bool(attr) {
			s.Set(slot, dtype, slices.Concat(before, []int64{rows, columns})...)
		} else {
			s.Set(slot, dtype, 0)
		}
	}
	set("Pmat", "unpack_pivots", m, m)
	set("L", "unpack_ludata", m, k)
	set("U", "unpack_ludata", k, n)
	return nil
}

// unlessEmpty returns a tensor that has elements, else nil.
func unlessEmpty(t *tensor.Tensor) *tensor.Tensor {
	if t == nil || t.Len() == 0 {
		return nil
	}
	return t
}

func bindLUParts[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, pivots, exchange, lower, upper := b.In("X"), b.In("Pivots"), unlessEmpty(b.Out("Pmat")), unlessEmpty(b.Out("L")), unlessEmpty(b.Out("U"))
	count, m, n := extents(x)
	k := min(m, n)
	rows := make([]int, b.Parts()*m)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(part, from, till int) error {
		order := ops.Part(rows, part, m)
		for i := from; i < till; i++ {
			kernel.LUParts(nth[T](lower, i, m*k), nth[T](upper, i, k*n), nth[T](x, i, m*n), m, n)
			if exchange == nil {
				continue
			}
			if !kernel.LURows(order, pivotsOf(pivots, i, k)) {
				return badPivots(b, i, m, pivotsOf(pivots, i, k))
			}
			matrix := nth[T](exchange, i, m*m)
			clear(matrix)
			for row, of := range order {
				matrix[of*m+row] = 1
			}
		}
		return nil
	}})
}

func bindLUPartsGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx, lower, upper := b.Out(program.GradName("X")), unlessEmpty(b.In(program.GradName("L"))), unlessEmpty(b.In(program.GradName("U")))
	count, m, n := extents(dx)
	k := min(m, n)
	return b.Loops(ops.Loop{N: count, Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			kernel.LUPartsGrad(nth[T](dx, i, m*n), nth[T](lower, i, m*k), nth[T](upper, i, k*n), m, n)
		}
		return nil
	}})
}
