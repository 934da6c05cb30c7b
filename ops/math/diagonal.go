package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file take or make diagonals of the matrices that two axes of a tensor span.

// A diagonals knows where the diagonals of the matrices along two axes lie.
type diagonals struct {
	diagonal
	firsts []int // where each matrix begins
}

// diagonalsAlong finds the diagonals of a tensor along two different axes.
func diagonalsAlong(dims []int64, offset int64, row, column int) diagonals {
	strides := make([]int, len(dims))
	step := 1
	for axis := len(dims) - 1; axis >= 0; axis-- {
		strides[axis] = step
		step *= int(dims[axis])
	}
	n := diagonalLength([]int64{dims[row], dims[column]}, offset)
	s := diagonals{diagonal: diagonal{int(n), 0, strides[row] + strides[column]}, firsts: []int{0}}
	if n > 0 {
		s.first = int(max(0, offset))*strides[column] + int(max(0, -offset))*strides[row]
	}
	for axis, extent := range dims {
		if axis == row || axis == column {
			continue
		}
		next := make([]int, 0, len(s.firsts)*int(extent))
		for _, at := range s.firsts {
			for i := range int(extent) {
				next = append(next, at+i*strides[axis])
			}
		}
		s.firsts = next
	}
	return s
}

// offset32 checks that an attribute names a diagonal.
func offset32(s *ops.Shapes, name string) error {
	if v := s.Int(name); v < math.MinInt32 || v > math.MaxInt32 {
		return opkit.BadAttr(s, name, "a number of 32 bits")
	}
	return nil
}

// twoAxes reads two different axes of a tensor of a rank.
func twoAxes(s opkit.Attributed, rank int, first, second string, a, b int64) (row, column int, err error) {
	if row, err = opkit.AxisAttr(s, first, a, rank); err != nil {
		return 0, 0, err
	}
	if column, err = opkit.AxisAttr(s, second, b, rank); err != nil {
		return 0, 0, err
	}
	if row == column {
		return 0, 0, opkit.BadAttr(s, second, "another axis than %s", first)
	}
	return row, column, nil
}

// offsetAttr says which diagonal an op means.
var offsetAttr = ops.Attr{Name: "offset", Doc: "which diagonal: 0 for the main one, above it for numbers above 0", Default: int32(0)}

func axisPair(first, second string, a, b int32) []ops.Attr {
	return []ops.Attr{offsetAttr, {Name: first, Doc: "the axis of rows; negative counts from the end", Default: a},
		{Name: second, Doc: "the axis of columns; negative counts from the end", Default: b}}
}

func init() {
	opkit.Register(ops.Def{
		Type:      "trace",
		Doc:       "Sums diagonals: Out is the sum of the diagonal of each matrix that the axes axis1 and axis2 of Input span.",
		Inputs:    in("Input", "numbers, rank 2 or more"),
		Outputs:   out("Out", "of the type of Input, its dims without the two axes; [1] if none is left"),
		Attrs:     axisPair("axis1", "axis2", 0, 1),
		Infer:     func(s *ops.Shapes) error { return inferDiagonal(s, true) },
		MixesRows: mixesAxes("Input", "axis1", "axis2"),
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("Input", bindTrace[float32], bindTrace[float64], bindTrace[int32], bindTrace[int64]),
	}, opkit.Gradient{
		Doc: "dInput = dOut on the diagonals and 0 elsewhere.", Inputs: []string{"Input"}, Wrt: []string{"Input"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Input", bindDiagonalGrad[float32](true), bindDiagonalGrad[float64](true)),
	})
	opkit.Register(ops.Def{
		Type:      "diagonal",
		Doc:       "Takes diagonals: Out has the diagonal of each matrix that the axes axis1 and axis2 of Input span, along its last axis.",
		Inputs:    in("Input", "numbers, rank 2 or more"),
		Outputs:   out("Out", "of the type of Input"),
		Attrs:     axisPair("axis1", "axis2", 0, 1),
		Infer:     func(s *ops.Shapes) error { return inferDiagonal(s, false) },
		MixesRows: mixesAxes("Input", "axis1", "axis2"),
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("Input", bindDiagonal[float32], bindDiagonal[float64], bindDiagonal[int32], bindDiagonal[int64]),
	}, opkit.Gradient{
		Doc: "dInput = dOut on the diagonals and 0 elsewhere.", Inputs: []string{"Input"}, Wrt: []string{"Input"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Input", bindDiagonalGrad[float32](false), bindDiagonalGrad[float64](false)),
	})
	opkit.Register(ops.Def{
		Type:      "diag_embed",
		Doc:       "Makes matrices with diagonals: each row of Input along its last axis becomes the diagonal of a matrix, 0 elsewhere, whose axes are dim1 and dim2 of Out.",
		Inputs:    in("Input", "numbers, rank 1 or more"),
		Outputs:   out("Out", "of the type of Input, with one more axis"),
		Attrs:     axisPair("dim1", "dim2", -2, -1),
		Infer:     inferDiagEmbed,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("Input", bindDiagEmbed[float32], bindDiagEmbed[float64], bindDiagEmbed[int32], bindDiagEmbed[int64]),
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return embedsFirst(s) || len(s.In("Input").Dims) == 1 },
	}, opkit.Gradient{
		Doc: "dInput = the diagonals of dOut.", Inputs: []string{"Input"}, Wrt: []string{"Input"}, StandIn: nil, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindDiagEmbedGrad[float32], bindDiagEmbedGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:    "fill_diagonal",
		Doc:     "Writes a value on the main diagonal: all indices of such an element are equal, but for offset along the last axis. With wrap, a tall matrix gets another diagonal after each square.",
		Inputs:  in("X", "numbers, rank 2 or more; from rank 3 on all extents are equal"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{{Name: "value", Doc: "what is written", Default: float32(0)}, offsetAttr,
			{Name: "wrap", Doc: "whether the diagonal of a tall matrix begins again", Default: false}},
		Infer:     inferFillDiagonal,
		MixesRows: opkit.Mixes,
		Cost:      opkit.PerElement(1),
		InPlace:   map[string]string{"Out": "X"},
		Bind:      opkit.BindNumbers("X", bindFillDiagonal[float32]("X", "Out"), bindFillDiagonal[float64]("X", "Out"), bindFillDiagonal[int32]("X", "Out"), bindFillDiagonal[int64]("X", "Out")),
	}, opkit.Gradient{
		Doc: "dX = dOut, and 0 on the diagonal.", Wrt: []string{"X"}, StandIn: map[string]string{"X": "Out@GRAD"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindFillDiagonal[float32]("Out@GRAD", "X@GRAD"), bindFillDiagonal[float64]("Out@GRAD", "X@GRAD")),
	})
	ops.Register(indicesOf("tril_indices", "lower", "rows", "cols", "offset"))
	ops.Register(indicesOf("triu_indices", "upper", "row", "col", "offset"))
}

// mixesAxes is the Mixing of an op that sums or moves along two axes.
func mixesAxes(slot, first, second string) opkit.Mixing {
	return func(s *ops.Shapes, _ func(string) bool) bool {
		rank := int64(len(s.In(slot).Dims))
		for _, axis := range []int64{s.Int(first), s.Int(second)} {
			if axis == 0 || axis == -rank {
				return true
			}
		}
		return false
	}
}

func inferDiagonal(s *ops.Shapes, sums bool) error {
	x := s.In("Input")
	if err := opkit.CheckType(s, "Input", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	row, column, err := twoAxes(s, len(x.Dims), "axis1", "axis2", s.Int("axis1"), s.Int("axis2"))
	if err != nil {
		return err
	}
	if err := offset32(s, "offset"); err != nil {
		return err
	}
	dims := []int64{}
	for axis, extent := range x.Dims {
		if axis != row && axis != column {
			dims = append(dims, extent)
		}
	}
	if !sums {
		dims = append(dims, diagonalLength([]int64{x.Dims[row], x.Dims[column]}, s.Int("offset")))
	} else if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", x.DType, dims...)
	if row > 0 && column > 0 {
		s.ShareLoD("Out", "Input")
	}
	return nil
}

// diagonalsOf finds the diagonals of the dims of the input.
func diagonalsOf(b *ops.Binding, dims []int64) diagonals {
	row, column, _ := twoAxes(b, len(dims), "axis1", "axis2", b.Int("axis1"), b.Int("axis2"))
	return diagonalsAlong(dims, b.Int("offset"), row, column)
}

func bindTrace[T tensor.Float | int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Input"), b.Out("Out")
	d := diagonalsOf(b, x.Dims())
	return b.Loops(ops.Loop{N: len(d.firsts), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			var sum T
			for k := range d.n {
				sum += tensor.Data[T](x)[d.firsts[i]+d.at(k)]
			}
			tensor.Data[T](to)[i] = sum
		}
		return nil
	}})
}

func bindDiagonal[T tensor.Float | int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Input"), b.Out("Out")
	d := diagonalsOf(b, x.Dims())
	return b.Loops(takeDiagonals[T](d, x, to))
}

// takeDiagonals copies diagonals to the rows of to.
func takeDiagonals[T tensor.Element](d diagonals, x, to *tensor.Tensor) ops.Loop {
	return ops.Loop{N: len(d.firsts), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			row := tensor.Data[T](to)[i*d.n:][:d.n]
			for k := range row {
				row[k] = tensor.Data[T](x)[d.firsts[i]+d.at(k)]
			}
		}
		return nil
	}}
}

// giveDiagonals fills to with zeros and writes rows of x, or with same one element of it for each diagonal, to its diagonals.
func giveDiagonals[T tensor.Element](d diagonals, x, to *tensor.Tensor, same bool) ops.Loop {
	return ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		values := tensor.Data[T](to)
		clear(values)
		for i, first := range d.firsts {
			for k := range d.n {
				at := i
				if !same {
					at = i*d.n + k
				}
				values[first+d.at(k)] = tensor.Data[T](x)[at]
			}
		}
		return nil
	}}
}

func bindDiagonalGrad[T tensor.Float](sums bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		dx := b.Out("Input@GRAD")
		return b.Loops(giveDiagonals[T](diagonalsOf(b, dx.Dims()), b.In("Out@GRAD"), dx, sums))
	}
}

// embedAxes returns the two axes of Out that diag_embed makes.
func embedAxes(s interface {
	opkit.Attributed
	Int(string) int64
}, rank int) (row, column int, err error) {
	return twoAxes(s, rank, "dim1", "dim2", s.Int("dim1"), s.Int("dim2"))
}

// embedsFirst reports whether the first axis of Out is one that diag_embed makes.
func embedsFirst(s *ops.Shapes) bool {
	row, column, err := embedAxes(s, len(s.In("Input").Dims)+1)
	return err != nil || row == 0 || column == 0
}

func inferDiagEmbed(s *ops.Shapes) error {
	x := s.In("Input")
	if len(x.Dims) == 0 || len(x.Dims) >= tensor.MaxRank {
		return s.Errorf("Input", "rank 1 to %d", tensor.MaxRank-1)
	}
	if err := opkit.CheckType(s, "Input", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	row, column, err := embedAxes(s, len(x.Dims)+1)
	if err != nil {
		return err
	}
	if err := offset32(s, "offset"); err != nil {
		return err
	}
	last := len(x.Dims) - 1
	n := x.Dims[last]
	if n != program.Unknown {
		n += max(s.Int("offset"), -s.Int("offset"))
	}
	dims := slices.Clone(x.Dims[:last])
	for _, axis := range []int{min(row, column), max(row, column)} {
		dims = slices.Insert(dims, axis, n)
	}
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return opkit.BadAttr(s, "offset", "one with which Out fits into memory")
	}
	s.Set("Out", x.DType, dims...)
	if !embedsFirst(s) {
		s.ShareLoD("Out", "Input")
	}
	return nil
}

func embeddedIn(b *ops.Binding, dims []int64) diagonals {
	row, column, _ := embedAxes(b, len(dims))
	return diagonalsAlong(dims, b.Int("offset"), row, column)
}

func bindDiagEmbed[T tensor.Float | int32 | int64](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	return b.Loops(giveDiagonals[T](embeddedIn(b, to.Dims()), b.In("Input"), to, false))
}

func bindDiagEmbedGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout := b.In("Out@GRAD")
	return b.Loops(takeDiagonals[T](embeddedIn(b, dout.Dims()), dout, b.Out("Input@GRAD")))
}

func inferFillDiagonal(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	if len(x.Dims) > 2 {
		for _, extent := range x.Dims[1:] {
			if !opkit.Agree(extent, x.Dims[0]) {
				return s.Errorf("X", "equal extents, or rank 2")
			}
		}
		if s.Int("offset") != 0 {
			return opkit.BadAttr(s, "offset", "0 for rank %d", len(x.Dims))
		}
	}
	s.Like("Out", "X")
	return nil
}

func bindFillDiagonal[T tensor.Float | int32 | int64](fromSlot, toSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In(fromSlot), b.Out(toSlot)
		value := T(b.Float("value"))
		if fromSlot != "X" {
			value = 0
		}
		dims, step, stride := x.Dims(), 0, 1
		for axis := len(dims) - 1; axis >= 0; axis-- {
			step += stride
			stride *= int(dims[axis])
		}
		columns, offset, wrap := dims[len(dims)-1], b.Int("offset"), b.Bool("wrap") && len(dims) == 2
		var places []int
		for i := 0; i < x.Len(); i += step {
			row, column := int64(i)/columns, int64(i)%columns
			if len(dims) == 2 && !wrap && row >= columns {
				break
			}
			if at := column + offset; len(dims) > 2 || at >= 0 && at < columns {
				places = append(places, int(row*columns+column+offset))
			}
		}
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			values := tensor.Data[T](to)
			copy(values, tensor.Data[T](x))
			for _, at := range places {
				values[at] = value
			}
			return nil
		}})
	}
}

// indicesOf makes an op that lists the elements of a triangle.
func indicesOf(name, which, rows, columns, offset string) ops.Def {
	lower := which == "lower"
	return ops.Def{
		Type:    name,
		Doc:     "Lists the elements of the " + which + " triangle of a matrix, row by row: Out[0] has their rows and Out[1] their columns.",
		Outputs: out("out", "of type dtype [2, elements]"),
		Attrs: []ops.Attr{{Name: rows, Doc: "rows of the matrix", Kind: int32(0)}, {Name: columns, Doc: "columns of the matrix", Kind: int32(0)},
			{Name: offset, Doc: "the last diagonal, or the first, that belongs to the triangle", Default: int32(0)},
			{Name: "dtype", Doc: "int32 2 or int64 3", Default: int32(tensor.Int64)}},
		Infer: func(s *ops.Shapes) error {
			m, n := s.Int(rows), s.Int(columns)
			if m < 0 || n < 0 || m > mostBins || n > mostBins {
				return opkit.BadAttr(s, rows, "extents from 0 to %d", mostBins)
			}
			if err := offset32(s, offset); err != nil {
				return err
			}
			dtype := tensor.DType(s.Int("dtype"))
			if dtype != tensor.Int32 && dtype != tensor.Int64 {
				return opkit.UnsupportedAttr(s, "dtype", "int32 2 or int64 3")
			}
			count := int64(0)
			for i := range m {
				first, end := triangleRow(i, n, s.Int(offset), lower)
				count += end - first
			}
			s.Set("out", dtype, 2, count)
			return nil
		},
		Bind: opkit.BindElements("out", nil, nil, bindIndices[int32](rows, columns, offset, lower), bindIndices[int64](rows, columns, offset, lower), nil),
	}
}

// triangleRow returns the columns [first, end) of a row that belong to the triangle.
func triangleRow(row, columns, offset int64, lower bool) (first, end int64) {
	if lower {
		return 0, min(max(row+offset+1, 0), columns)
	}
	return min(max(row+offset, 0), columns), columns
}

func bindIndices[T int32 | int64](rows, columns, offset string, lower bool) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		to, m, n, diagonal := b.Out("out"), b.Int(rows), b.Int(columns), b.Int(offset)
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			values := tensor.Data[T](to)
			at := 0
			for i := range m {
				first, end := triangleRow(i, n, diagonal, lower)
				for j := first; j < end; j++ {
					values[at], values[len(values)/2+at] = T(i), T(j)
					at++
				}
			}
			return nil
		}})
	}
}
