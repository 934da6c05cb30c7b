package sequence

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type: "lstm_unit",
		Doc: "Does one step of long short-term memory, for every row by itself. With the parts i, f, o and g of D columns of X: " +
			"C = C_prev*sigmoid(f + forget_bias) + sigmoid(i)*tanh(g), H = sigmoid(o)*tanh(C). The order of the parts differs from that of lstm.",
		Inputs: []ops.Slot{
			{Name: "X", Doc: "float [rows, 4D]: i, f, o and g, products and bias added"},
			{Name: "C_prev", Doc: "[rows, D]: the cell of the step before"}},
		Outputs: []ops.Slot{
			{Name: "C", Doc: "[rows, D]"},
			{Name: "H", Doc: "[rows, D]"}},
		Attrs: []ops.Attr{{Name: "forget_bias", Doc: "what is added to the input of the forget gate", Default: float32(0)}},
		Infer: inferLSTMUnit,
		Cost:  opkit.PerElement(10),
		Bind:  opkit.BindFloats("X", bindLSTMUnit[float32], bindLSTMUnit[float64]),
	}, opkit.Gradient{
		Doc:     "the derivative of the formulas, computed from X and C_prev.",
		Inputs:  []string{"X", "C_prev"},
		Outputs: []string{"C"},
		Wrt:     []string{"X", "C_prev"},
		Cost:    opkit.PerElement(20),
		Bind:    opkit.BindFloats("X", bindLSTMUnitGrad[float32], bindLSTMUnitGrad[float64]),
	})
}

func inferLSTMUnit(s *ops.Shapes) error {
	for _, slot := range []string{"X", "C_prev"} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "C_prev"); err != nil {
		return err
	}
	x, before := s.In("X"), s.In("C_prev")
	if before.Dims[1] > math.MaxInt64/4 || !opkit.Agree(x.Dims[0], before.Dims[0]) || !opkit.Agree(x.Dims[1], times(4, before.Dims[1])) {
		return s.Errorf("X", "dims [rows, 4D] beside C_prev %v of D columns", before.Dims)
	}
	for _, slot := range []string{"C", "H"} {
		s.Set(slot, x.DType, x.Dims[0], before.Dims[1])
		s.ShareLoD(slot, "X")
	}
	return nil
}

// A lstmUnit holds the gates of one row.
type lstmUnit[T tensor.Float] struct {
	width              int
	bias               T
	sums, gates, cells *tensor.Tensor // 4D, 4D and 2D elements for each part
}

func newLSTMUnit[T tensor.Float](b *ops.Binding) *lstmUnit[T] {
	d, of := int(b.In("C_prev").Dims()[1]), tensor.Of[T]()
	return &lstmUnit[T]{width: d, bias: T(b.Float("forget_bias")), sums: b.Scratch(of, b.Parts()*4*d), gates: b.Scratch(of, b.Parts()*4*d),
		cells: b.Scratch(of, b.Parts()*2*d)}
}

// open computes the gates of a row: i, f, o and g.
func (u *lstmUnit[T]) open(part int, x []T) (gates []T) {
	d := u.width
	sums, gates := ops.Part(tensor.Data[T](u.sums), part, 4*d), ops.Part(tensor.Data[T](u.gates), part, 4*d)
	copy(sums, x)
	for i := range sums[d : 2*d] {
		sums[d+i] += u.bias
	}
	kernel.Sigmoid(gates[:3*d], sums[:3*d])
	kernel.Tanh(gates[3*d:], sums[3*d:])
	return gates
}

func bindLSTMUnit[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	u, x, before, cell, hidden := newLSTMUnit[T](b), b.In("X"), b.In("C_prev"), b.Out("C"), b.Out("H")
	d := u.width
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Least: leastUnitRows, Run: func(part, from, to int) error {
		for r := from; r < to; r++ {
			gates, work := u.open(part, row(tensor.Data[T](x), r, 4*d)), ops.Part(tensor.Data[T](u.cells), part, 2*d)
			c, active := work[:d], work[d:]
			for i, h := range row(tensor.Data[T](before), r, d) {
				c[i] = T(h*gates[d+i]) + T(gates[i]*gates[3*d+i])
			}
			if cell != nil {
				copy(row(tensor.Data[T](cell), r, d), c)
			}
			if hidden != nil {
				kernel.Tanh(active, c)
				kernel.Mul(row(tensor.Data[T](hidden), r, d), active, gates[2*d:3*d], 1, d, 1)
			}
		}
		return nil
	}})
}

func bindLSTMUnitGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	u, x, before, cell := newLSTMUnit[T](b), b.In("X"), b.In("C_prev"), b.In("C")
	dcell, dhidden, dx, dbefore := b.In("C@GRAD"), b.In("H@GRAD"), b.Out("X@GRAD"), b.Out("C_prev@GRAD")
	d := u.width
	return b.Loops(ops.Loop{N: int(x.Dims()[0]), Least: leastUnitRows, Run: func(part, from, to int) error {
		for r := from; r < to; r++ {
			gates, work := u.open(part, row(tensor.Data[T](x), r, 4*d)), ops.Part(tensor.Data[T](u.cells), part, 2*d)
			active := work[:d]
			kernel.Tanh(active, row(tensor.Data[T](cell), r, d))
			for i := range d {
				in, forget, out, candidate := gates[i], gates[d+i], gates[2*d+i], gates[3*d+i]
				dc, dh := T(0), T(0)
				if dcell != nil {
					dc = tensor.Data[T](dcell)[r*d+i]
				}
				if dhidden != nil {
					dh = tensor.Data[T](dhidden)[r*d+i]
				}
				dc += T(dh * T(out*(1-T(active[i]*active[i]))))
				if dbefore != nil {
					tensor.Data[T](dbefore)[r*d+i] = dc * forget
				}
				if dx != nil {
					to := tensor.Data[T](dx)[r*4*d:][:4*d]
					to[i] = T(dc*candidate) * T(in*(1-in))
					to[d+i] = T(dc*tensor.Data[T](before)[r*d+i]) * T(forget*(1-forget))
					to[2*d+i] = T(dh*active[i]) * T(out*(1-out))
					to[3*d+i] = T(dc*in) * (1 - T(candidate*candidate))
				}
			}
		}
		return nil
	}})
}
