package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// mostSamples bounds how many classes a row is scored against.
const mostSamples = 1 << 20

// inferChosen checks an op that scores rows of x [N, D] against some rows of w [classes, D], with a bias of [classes, 1] or [classes] or none, and labels
// int64 [N, n].
func inferChosen(s *ops.Shapes, x, w string) error {
	for _, slot := range []string{x, w} {
		if err := s.Rank(slot, 2); err != nil {
			return err
		}
	}
	if err := s.IsFloat(x); err != nil {
		return err
	}
	if err := s.SameType(x, w, "Bias"); err != nil {
		return err
	}
	in, table := s.In(x).Dims, s.In(w).Dims
	if !opkit.Agree(in[1], table[1]) {
		return s.Errorf(w, "%d columns, as in %s", in[1], x)
	}
	if bias := s.In("Bias").Dims; s.Has("Bias") && (len(bias) < 1 || !opkit.Agree(bias[0], table[0]) || !ops.Compatible(bias[1:], []int64{1}[:min(len(bias)-1, 1)])) {
		return s.Errorf("Bias", "a number for each row of %s %v", w, table)
	}
	if err := opkit.CheckType(s, "Label", s.In("Label").DType == tensor.Int64, "int64"); err != nil {
		return err
	}
	if label := s.In("Label").Dims; len(label) < 1 || len(label) > 2 || !opkit.Agree(label[0], in[0]) || len(label) == 2 && label[1] == 0 {
		return s.Errorf("Label", "one label or more for each row of %s %v", x, in)
	}
	return nil
}

// sparseChosen makes the gradient of w sparse with is_sparse: it has room for a row for each place of as many variables as slot has elements.
func sparseChosen(w string, places func(*ops.Shapes) int64) func(*ops.Shapes) {
	return func(s *ops.Shapes) {
		if gradient := program.GradName(w); s.Bool("is_sparse") && s.Wants(gradient) {
			table := s.In(w)
			s.SetAt(gradient, 0, ops.Meta{Kind: program.SelectedRows, DType: table.DType, Dims: table.Dims, Rows: places(s)})
		}
	}
}

// A chosen is a bound op whose rows of x meet so many rows of w each. ids has their numbers.
type chosen[T tensor.Float] struct {
	op               *program.Op
	xSlot, wSlot     string
	x, w, bias, ids  *tensor.Tensor
	n, places, width int
}

func newChosen[T tensor.Float](b *ops.Binding, x, w string, places int) *chosen[T] {
	c := &chosen[T]{op: b.Op(), xSlot: x, wSlot: w, x: b.In(x), w: b.In(w), bias: b.In("Bias"), places: places}
	dims := c.x.Dims()
	c.n, c.width = int(dims[0]), int(dims[1])
	c.ids = b.Scratch(tensor.Int64, c.n*places)
	return c
}

// of returns the elements of rows [from, to) of a tensor that has so many for each place.
func (c *chosen[T]) of(t *tensor.Tensor, from, to int) []T {
	return tensor.Data[T](t)[from*c.places : to*c.places]
}

// score computes the scores of rows [from, to) against the rows of w that ids has.
func (c *chosen[T]) score(out *tensor.Tensor, from, to int) {
	kernel.ChosenScores(c.of(out, from, to), tensor.Data[T](c.x)[from*c.width:to*c.width], tensor.Data[T](c.w), opkit.Data[T](c.bias),
		c.ids.Int64s()[from*c.places:to*c.places], c.places, c.width)
}

// gradients returns the loops that compute the gradients of x, w and Bias from the slopes of the scores, which loops before them have written, as the ids.
func (c *chosen[T]) gradients(b *ops.Binding, slopes *tensor.Tensor) []ops.Loop {
	dx, dw, dbias := b.Out(program.GradName(c.xSlot)), b.Out(program.GradName(c.wSlot)), b.Out("Bias@GRAD")
	var loops []ops.Loop
	if dx != nil {
		loops = append(loops, ops.Loop{N: c.n, Reads: []string{c.wSlot}, Whole: []string{c.wSlot}, Writes: []string{program.GradName(c.xSlot)}, Run: func(_, from, to int) error {
			kernel.ChosenInputGrad(tensor.Data[T](dx)[from*c.width:to*c.width], tensor.Data[T](c.w), c.of(slopes, from, to), c.ids.Int64s()[from*c.places:to*c.places], c.places, c.width)
			return nil
		}})
	}
	reads, writes := []string{c.xSlot}, []string{program.GradName(c.wSlot)}
	switch {
	case dw == nil:
	case dw.IsSelected():
		loops = append(loops, ops.Loop{N: 1, Apart: true, Reads: reads, Whole: reads, Writes: writes, Run: func(int, int, int) error {
			numbers, height := dw.Selected()
			rows := numbers.Int64s()
			if n := kernel.ChosenRowsGrad(tensor.Data[T](dw), rows, tensor.Data[T](c.x), tensor.Data[T](slopes), c.ids.Int64s(), c.places, c.width); n < len(rows) {
				rows[n] = height // there are no more
			}
			return nil
		}})
	default:
		loops = append(loops, ops.Loop{N: c.width, Least: leastColumns, Apart: true, Reads: reads, Whole: reads, Writes: writes, Run: func(_, from, to int) error {
			kernel.ChosenWeightGrad(tensor.Data[T](dw), tensor.Data[T](c.x), tensor.Data[T](slopes), c.ids.Int64s(), c.places, c.width, from, to)
			return nil
		}})
	}
	if dbias != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Reads: []string{}, Writes: []string{"Bias@GRAD"}, Run: func(int, int, int) error {
			kernel.ChosenBiasGrad(tensor.Data[T](dbias), tensor.Data[T](slopes), c.ids.Int64s())
			return nil
		}})
	}
	return loops
}

// leastColumns is how many columns of a gradient are worth a goroutine.
const leastColumns = 32

// check refuses an id in rows from on that is no row of w. slot is the variable that has it.
func (c *chosen[T]) check(slot string, ids []int64, from int) error {
	for k, id := range ids {
		if id >= c.w.Dims()[0] {
			return fault.E(fault.InvalidArgument, fault.On(c.op), fault.Var(c.op.In(slot)), fault.Gotf("row %d of %s in row %d", id, c.wSlot, from+k/c.places),
				fault.Wantf("below %d", c.w.Dims()[0]))
		}
	}
	return nil
}
