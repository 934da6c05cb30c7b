package math

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	attrs := []ops.Attr{{Name: "offset", Doc: offsetAttr.Doc, Default: int64(0)}, {Name: "dim1", Doc: "the axis of rows; negative counts from the end", Default: int32(0)},
		{Name: "dim2", Doc: "the axis of columns; negative counts from the end", Default: int32(1)}}
	opkit.Register(ops.Def{
		Type:    "fill_diagonal_tensor",
		Doc:     "Writes Y to the diagonals of X: that of each matrix that the axes dim1 and dim2 span has a row of Y.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers, rank 2 or more"}, {Name: "Y", Doc: "of the type of X; the other axes of X, and last the length of the diagonals"}},
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   attrs,
		Infer:   inferFillDiagonals,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return mixesAxes("X", "dim1", "dim2")(s, divided) || opkit.MixesUnlike(s, divided)
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindFillDiagonals[float32], bindFillDiagonals[float64], bindFillDiagonals[int32], bindFillDiagonals[int64]),
	}, opkit.Gradient{
		Doc: "dX is dOut, and 0 on the diagonals; dY is dOut there.", Inputs: []string{"X", "Y"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(1),
		StandIn: map[string]string{"X": program.GradName("Out")},
		Bind:    opkit.BindFloats(program.GradName("Out"), bindFillDiagonalsGrad[float32], bindFillDiagonalsGrad[float64]),
	})
}

func inferFillDiagonals(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if err := s.SameType("X", "Y"); err != nil {
		return err
	}
	row, column, err := twoAxes(s, len(x.Dims), "dim1", "dim2", s.Int("dim1"), s.Int("dim2"))
	if err != nil {
		return err
	}
	if err := offset32(s, "offset"); err != nil {
		return err
	}
	var want []int64
	for axis, extent := range x.Dims {
		if axis != row && axis != column {
			want = append(want, extent)
		}
	}
	want = append(want, diagonalLength([]int64{x.Dims[row], x.Dims[column]}, s.Int("offset")))
	if !ops.Compatible(s.In("Y").Dims, want) {
		return s.Errorf("Y", "dims %v: the other axes of X %v, and the length of the diagonals", want, x.Dims)
	}
	s.Like("Out", "X")
	return nil
}

// filledDiagonals finds the diagonals that the op writes.
func filledDiagonals(b *ops.Binding, dims []int64) diagonals {
	row, column, _ := twoAxes(b, len(dims), "dim1", "dim2", b.Int("dim1"), b.Int("dim2"))
	return diagonalsAlong(dims, b.Int("offset"), row, column)
}

func bindFillDiagonals[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	d := filledDiagonals(b, x.Dims())
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		values := tensor.Data[T](to)
		copy(values, tensor.Data[T](x))
		for i, first := range d.firsts {
			for k, v := range tensor.Data[T](y)[i*d.n:][:d.n] {
				values[first+d.at(k)] = v
			}
		}
		return nil
	}})
}

func bindFillDiagonalsGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, dy := b.In(program.GradName("Out")), b.Out(program.GradName("X")), b.Out(program.GradName("Y"))
	d := filledDiagonals(b, dout.Dims())
	var loops []ops.Loop
	if dy != nil {
		loops = append(loops, takeDiagonals[T](d, dout, dy))
	}
	if dx != nil {
		loops = append(loops, ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			values := tensor.Data[T](dx)
			copy(values, tensor.Data[T](dout))
			for _, first := range d.firsts {
				for k := range d.n {
					values[first+d.at(k)] = 0
				}
			}
			return nil
		}})
	}
	return b.Loops(loops...)
}
