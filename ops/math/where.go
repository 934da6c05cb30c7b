package math

import (
	"context"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "where",
		Doc:     "Chooses element by element: Out = X where Condition is true, else Y.",
		Inputs:  []ops.Slot{{Name: "Condition", Doc: "bool of the shape of X"}, {Name: "X", Doc: "any type"}, {Name: "Y", Doc: "of the shape and type of X"}},
		Outputs: out("Out", "of the shape and type of X"),
		Infer: func(s *ops.Shapes) error {
			if err := opkit.SameShape(s, "X", "Y"); err != nil {
				return err
			}
			if !ops.Compatible(s.In("Condition").Dims, s.In("X").Dims) {
				return s.Errorf("Condition", "dims %v as in X", s.In("X").Dims)
			}
			s.Like("Out", "X")
			return opkit.CheckType(s, "Condition", s.In("Condition").DType == tensor.Bool, "bool")
		},
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindElements("X", bindWhere[float32], bindWhere[float64], bindWhere[int32], bindWhere[int64], bindWhere[bool]),
		RowSliced: true,
		MixesRows: allDivided,
	}, opkit.Gradient{
		Doc: "dX = dOut where Condition, else 0; dY = dOut where not Condition, else 0.", Inputs: []string{"Condition"}, Wrt: []string{"X", "Y"},
		StandIn: map[string]string{"X": "Out@GRAD", "Y": "Out@GRAD"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindWhereGrad[float32], bindWhereGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:    "multiplex",
		Doc:     "Takes each row from one of several tensors: Out[i] = X[Ids[i]][i].",
		Inputs:  []ops.Slot{{Name: "Ids", Doc: "int32 or int64, one for each row: which X has it"}, {Name: "X", Doc: "any type, of one shape", Duplicable: true}},
		Outputs: out("Out", "of the shape and type of X"),
		Infer:   inferMultiplex,
		Cost:    opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindMultiplex[float32], bindMultiplex[float64], bindMultiplex[int32], bindMultiplex[int64],
			bindMultiplex[bool]),
		MixesRows: allDivided,
	}, opkit.Gradient{
		Doc: "dX[Ids[i]][i] = dOut[i], and 0 elsewhere.", Inputs: []string{"Ids", "X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindMultiplexGrad[float32], bindMultiplexGrad[float64]),
	})
}

// allDivided is the MixesRows of an op whose inputs all have the same rows.
func allDivided(s *ops.Shapes, divided func(string) bool) bool {
	for slot := range s.Op().Inputs {
		if s.Has(slot) && !divided(slot) {
			return true
		}
	}
	return false
}

func bindWhere[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	condition, x, y, to := b.In("Condition"), b.In("X"), b.In("Y"), b.Out("Out")
	return opkit.Loop(b, to.Len(), func(from, till int) {
		kernel.Where(tensor.Data[T](to)[from:till], condition.Bools()[from:till], tensor.Data[T](x)[from:till], tensor.Data[T](y)[from:till])
	})
}

func bindWhereGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	condition, dout, dx, dy := b.In("Condition"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	n := dout.Len()
	return opkit.Loop(b, n, func(from, till int) {
		kernel.WhereGrad(opkit.Owned[T](dx, from, till, n), opkit.Owned[T](dy, from, till, n), condition.Bools()[from:till], tensor.Data[T](dout)[from:till])
	})
}

func inferMultiplex(s *ops.Shapes) error {
	xs := s.Ins("X")
	if err := s.SameType("X"); err != nil {
		return err
	}
	for _, x := range xs {
		if len(x.Dims) == 0 || !ops.Compatible(x.Dims, xs[0].Dims) {
			return s.Errorf("X", "tensors of one shape, rank 1 or more, not also %v", x.Dims)
		}
	}
	if n := ops.Product(s.In("Ids").Dims); !opkit.Agree(n, xs[0].Dims[0]) {
		return s.Errorf("Ids", "one number for each row of X %v", xs[0].Dims)
	}
	s.Like("Out", "X")
	return isIndex(s, "Ids")
}

// multiplexed calls move for each row with the tensor that has it.
func multiplexed(op *program.Op, ids *tensor.Tensor, n int, move func(row, from int)) error {
	for i := range ids.Len() {
		id := int64(0)
		if ids.DType() == tensor.Int32 {
			id = int64(ids.Int32s()[i])
		} else {
			id = ids.Int64s()[i]
		}
		if id < 0 || id >= int64(n) {
			return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("Ids")), fault.Gotf("%d in row %d", id, i),
				fault.Wantf("0 to %d, the number of a variable of X", n-1))
		}
		move(i, int(id))
	}
	return nil
}

func bindMultiplex[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	ids, xs, to := b.In("Ids"), b.Ins("X"), b.Out("Out")
	width := to.Len() / max(1, int(to.Dims()[0]))
	move := func(row, from int) {
		copy(tensor.Data[T](to)[row*width:(row+1)*width], tensor.Data[T](xs[from])[row*width:])
	}
	return func(context.Context) error { return multiplexed(b.Op(), ids, len(xs), move) }, nil
}

func bindMultiplexGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	ids, dout, dxs := b.In("Ids"), b.In("Out@GRAD"), b.Outs("X@GRAD")
	width := dout.Len() / max(1, int(dout.Dims()[0]))
	move := func(row, from int) {
		if dx := dxs[from]; dx != nil {
			copy(tensor.Data[T](dx)[row*width:(row+1)*width], tensor.Data[T](dout)[row*width:])
		}
	}
	return func(context.Context) error {
		for _, dx := range dxs {
			clear(opkit.Data[T](dx))
		}
		return multiplexed(b.Op(), ids, len(dxs), move)
	}, nil
}
