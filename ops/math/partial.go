package math

import (
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	columns := []ops.Attr{{Name: "start_index", Doc: "the first column; negative counts from the end", Default: int32(0)}, {Name: "length", Doc: "how many columns; -1 for all that follow", Default: int32(-1)}}
	inputs := []ops.Slot{{Name: "X", Doc: "numbers [N, M], all of one shape", Duplicable: true}}
	for _, c := range []struct {
		name, doc, grad string
		sums            bool
	}{
		{"partial_concat", "Takes some columns of each X and puts them side by side.", "dX = the columns of dOut that show it, and 0 in the other columns.", false},
		{"partial_sum", "Takes some columns of each X and adds them up.", "dX = dOut in its columns, and 0 in the others.", true},
	} {
		opkit.Register(ops.Def{
			Type: c.name, Doc: c.doc, Inputs: inputs, Outputs: out("Out", "of the type of X, rank 2"), Attrs: columns,
			Infer:     func(s *ops.Shapes) error { return inferPartial(s, c.sums) },
			MixesRows: opkit.MixesUnlike,
			Cost:      opkit.PerElement(1),
			Bind:      opkit.BindNumbers("X", bindPartial[float32](c.sums), bindPartial[float64](c.sums), bindPartial[int32](c.sums), bindPartial[int64](c.sums)),
		}, opkit.Gradient{
			Doc: c.grad, Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1), Bind: opkit.BindFloats("Out@GRAD", bindPartialGrad[float32](c.sums), bindPartialGrad[float64](c.sums)),
		})
	}
}

// partialColumns returns the columns [first, first+n) of a matrix that the attributes name.
func partialColumns(s interface {
	opkit.Attributed
	Int(string) int64
}, width int64) (first, n int64, err error) {
	first, n = s.Int("start_index"), s.Int("length")
	if first < -width || first >= width {
		return 0, 0, opkit.BadAttr(s, "start_index", "-%d to %d", width, width-1)
	}
	if first < 0 {
		first += width
	}
	if n == -1 {
		n = width - first
	}
	if n < 1 || n > width-first {
		return 0, 0, opkit.BadAttr(s, "length", "1 to %d, the columns from start_index on, or -1", width-first)
	}
	return first, n, nil
}

func inferPartial(s *ops.Shapes, sums bool) error {
	all := s.Ins("X")
	if err := s.SameType("X"); err != nil {
		return err
	}
	if len(all) == 0 || len(all) > math.MaxInt16 {
		return s.Errorf("X", "1 to %d variables", math.MaxInt16)
	}
	if err := opkit.CheckType(s, "X", all[0].DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	m := all[0]
	width := int64(program.Unknown)
	for _, x := range all {
		if len(x.Dims) != 2 || !ops.Compatible(x.Dims, all[0].Dims) {
			return s.Errorf("X", "matrices of one shape")
		}
		if x.Dims[1] >= 0 {
			width = x.Dims[1]
		}
	}
	n := int64(program.Unknown)
	if width >= 0 {
		var err error
		if _, n, err = partialColumns(s, width); err != nil {
			return err
		}
		if !sums {
			n *= int64(len(all))
		}
	}
	m.Dims = []int64{m.Dims[0], n}
	s.SetAt("Out", 0, m)
	return nil
}

func bindPartial[T tensor.Float | int32 | int64](sums bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		xs, to := b.Ins("X"), b.Out("Out")
		rows, width := int(xs[0].Dims()[0]), int(xs[0].Dims()[1])
		first, n, err := partialColumns(b, int64(width))
		if err != nil {
			return nil, err
		}
		begin, count := int(first), int(n)
		return b.Loops(ops.Loop{N: rows, Run: func(_, from, till int) error {
			for row := from; row < till; row++ {
				for i, x := range xs {
					own := tensor.Data[T](x)[row*width+begin:][:count]
					switch {
					case !sums:
						copy(tensor.Data[T](to)[(row*len(xs)+i)*count:], own)
					case i == 0:
						copy(tensor.Data[T](to)[row*count:], own)
					default:
						for k, v := range own {
							tensor.Data[T](to)[row*count+k] += v
						}
					}
				}
			}
			return nil
		}})
	}
}

func bindPartialGrad[T tensor.Float](sums bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		xs, dout, dxs := b.Ins("X"), b.In("Out@GRAD"), b.Outs("X@GRAD")
		rows, width := int(xs[0].Dims()[0]), int(xs[0].Dims()[1])
		first, n, err := partialColumns(b, int64(width))
		if err != nil {
			return nil, err
		}
		begin, count := int(first), int(n)
		return b.Loops(ops.Loop{N: rows, Reads: []string{"Out@GRAD"}, Run: func(_, from, till int) error {
			for i, dx := range dxs {
				if dx == nil {
					continue
				}
				for row := from; row < till; row++ {
					own := tensor.Data[T](dx)[row*width:][:width]
					clear(own)
					at := row * count
					if !sums {
						at = (row*len(xs) + i) * count
					}
					copy(own[begin:begin+count], tensor.Data[T](dout)[at:])
				}
			}
			return nil
		}})
	}
}
