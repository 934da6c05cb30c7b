package math

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// range, linspace and logspace take their numbers from tensors alone. How many numbers they make follows from the values, which must be known when a plan is
// compiled, as those of a shape (see ops.Attr). So each slot has an attribute of its name, which no program sets.

// given is a number that a slot gives, as an attribute.
func given(slot string) ops.Attr {
	return ops.Attr{Name: "value_of_" + slot, Doc: "the number that " + slot + " gives", Default: []float64{}, Tensor: slot}
}

// takeGiven returns the number that a slot gives: NaN while it is unknown.
func takeGiven(s interface{ Op() *program.Op }, slot string) float64 {
	values, _ := s.Op().Floats("value_of_" + slot)
	if len(values) != 1 {
		return math.NaN()
	}
	return values[0]
}

// oneNumber describes a slot that gives a number.
func oneNumber(name, doc string) ops.Slot {
	return ops.Slot{Name: name, Doc: doc + "; one element that the program computes from constants and dims", Dispensable: true}
}

func init() {
	ops.Register(ops.Def{
		Type:    "range",
		Doc:     "The numbers from Start, by steps of Step, up to but without End: Out[i] = Out[i-1] + Step.",
		Inputs:  []ops.Slot{oneNumber("Start", "number"), oneNumber("End", "of the type of Start"), oneNumber("Step", "of the type of Start, not 0")},
		Outputs: out("Out", "of the type of Start, rank 1"),
		Attrs:   []ops.Attr{given("Start"), given("End"), given("Step")},
		Infer:   inferRange,
		Bind:    opkit.BindNumbers("Out", bindRange[float32], bindRange[float64], bindRange[int32], bindRange[int64]),

		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:    "linspace",
		Doc:     "Num numbers at equal distances from Start to Stop, both included.",
		Inputs:  []ops.Slot{oneNumber("Start", "number"), oneNumber("Stop", "number"), oneNumber("Num", "int32, at least 1")},
		Outputs: out("Out", "of type dtype, [Num]"),
		Attrs:   []ops.Attr{dtypeAttr, given("Start"), given("Stop"), given("Num")},
		Infer:   inferLinspace,
		Bind:    opkit.BindNumbers("Out", bindLinspace[float32], bindLinspace[float64], bindLinspace[int32], bindLinspace[int64]),

		MixesRows: opkit.Mixes,
	})
	ops.Register(ops.Def{
		Type:   "logspace",
		Doc:    "Num powers of Base whose exponents are at equal distances from Start to Stop, both included. Start, Stop and Base are converted to dtype before.",
		Inputs: []ops.Slot{oneNumber("Start", "number"), oneNumber("Stop", "number"), oneNumber("Num", "int32, at least 1"), oneNumber("Base", "number")},

		Outputs: out("Out", "of type dtype, [Num]"),
		Attrs:   []ops.Attr{dtypeAttr, given("Start"), given("Stop"), given("Num"), given("Base")},
		Infer: func(s *ops.Shapes) error {
			if err := needs(s, "Base"); err != nil {
				return err
			}
			return inferLinspace(s)
		},
		Bind: opkit.BindNumbers("Out", bindLogspace[float32], bindLogspace[float64], bindLogspace[int32], bindLogspace[int64]),

		MixesRows: opkit.Mixes,
	})
}

// needs checks that slots hold one number each. All are needed, though inference removes those whose value it takes.
func needs(s *ops.Shapes, slots ...string) error {
	for _, slot := range slots {
		if len(s.Ins(slot)) != 1 || s.In(slot).Kind == 0 {
			return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Got("nothing in slot "+slot), fault.Want("a variable of one number"))
		}
		if n := ops.Product(s.In(slot).Dims); !opkit.Agree(n, 1) {
			return s.Errorf(slot, "one number")
		}
	}
	return nil
}

func inferRange(s *ops.Shapes) error {
	if err := needs(s, "Start", "End", "Step"); err != nil {
		return err
	}
	dtype := s.In("Start").DType
	if err := opkit.CheckType(s, "Start", dtype != tensor.Bool, "a number"); err != nil {
		return err
	}
	for _, slot := range []string{"End", "Step"} {
		if err := opkit.CheckType(s, slot, s.In(slot).DType == dtype, dtype.String()+" as Start"); err != nil {
			return err
		}
	}
	start, end, step := takeGiven(s, "Start"), takeGiven(s, "End"), takeGiven(s, "Step")
	n := math.Ceil((end - start) / step)
	switch {
	case math.IsNaN(start) || math.IsNaN(end) || math.IsNaN(step):
		s.Set("Out", dtype, program.Unknown)
		return nil
	case step == 0 || !(n >= 0) || n > math.MaxInt32:
		return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Gotf("from %v to %v by steps of %v", start, end, step),
			fault.Wantf("a step that leads from Start to End, and at most %d numbers", math.MaxInt32))
	}
	s.Set("Out", dtype, int64(n))
	return nil
}

func bindRange[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, start, step := b.Out("Out"), T(takeGiven(b, "Start")), T(takeGiven(b, "Step"))
	return func(context.Context) error {
		v := start
		for i := range tensor.Data[T](to) {
			tensor.Data[T](to)[i] = v
			v += step
		}
		return nil
	}, nil
}

func inferLinspace(s *ops.Shapes) error {
	if err := needs(s, "Start", "Stop", "Num"); err != nil {
		return err
	}
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	if dtype == tensor.Bool {
		return opkit.UnsupportedAttr(s, "dtype", "a type of numbers")
	}
	num := takeGiven(s, "Num")
	switch {
	case math.IsNaN(num):
		s.Set("Out", dtype, program.Unknown)
		return nil
	case !(num >= 1) || num > math.MaxInt32:
		return fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Gotf("Num = %v", num), fault.Wantf("from 1 to %d", math.MaxInt32))
	}
	s.Set("Out", dtype, int64(num))
	return nil
}

func bindLinspace[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, start, stop := b.Out("Out"), takeGiven(b, "Start"), takeGiven(b, "Stop")
	return func(context.Context) error {
		values := tensor.Data[T](to)
		n := len(values)
		step := (stop - start) / float64(max(1, n-1))
		for i := range values {
			if i < (n+1)/2 {
				values[i] = T(start + step*float64(i))
			} else {
				values[i] = T(stop - step*float64(n-1-i))
			}
		}
		return nil
	}, nil
}

func bindLogspace[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	number := func(slot string) float64 { return float64(T(takeGiven(b, slot))) }
	to, start, stop, base := b.Out("Out"), number("Start"), number("Stop"), number("Base")
	return func(context.Context) error {
		values := tensor.Data[T](to)
		n := len(values)
		step := (stop - start) / float64(max(1, n-1))
		for i := range values {
			exponent := start + step*float64(i)
			if i >= n/2 && n > 1 {
				exponent = stop - step*float64(n-1-i)
			}
			values[i] = T(math.Pow(base, exponent))
		}
		return nil
	}, nil
}

func init() {
	ops.Register(ops.Def{
		Type:    "eye",
		Doc:     "A matrix with ones on the diagonal and zeros elsewhere.",
		Outputs: out("Out", "of type dtype [num_rows, num_columns]"),
		Attrs: []ops.Attr{
			{Name: "num_rows", Doc: "rows", Kind: int64(0)},
			{Name: "num_columns", Doc: "columns; -1 for as many as rows", Default: int64(-1)}, dtypeAttr},
		Infer: func(s *ops.Shapes) error {
			dtype, err := opkit.DTypeAttr(s, "dtype")
			if err != nil {
				return err
			}
			if dtype == tensor.Bool {
				return opkit.UnsupportedAttr(s, "dtype", "a type of numbers")
			}
			rows, columns := s.Int("num_rows"), s.Int("num_columns")
			if columns == -1 {
				columns = rows
			}
			if _, ok := tensor.Count([]int64{rows, columns}); !ok {
				return opkit.BadAttr(s, "num_rows", "extents of at least 0 whose product fits into memory")
			}
			s.Set("Out", dtype, rows, columns)
			return nil
		},
		Bind: opkit.BindNumbers("Out", bindEye[float32], bindEye[float64], bindEye[int32], bindEye[int64]),
	})
	ops.Register(ops.Def{
		Type:    "diag",
		Doc:     "A square matrix with Diagonal on its diagonal and zeros elsewhere. No gradient flows through it.",
		Inputs:  in("Diagonal", "numbers, rank 1"),
		Outputs: out("Out", "[N, N], of the type of Diagonal"),
		Infer: func(s *ops.Shapes) error {
			d := s.In("Diagonal")
			if err := s.Rank("Diagonal", 1); err != nil {
				return err
			}
			s.Set("Out", d.DType, d.Dims[0], d.Dims[0])
			return opkit.CheckType(s, "Diagonal", d.DType != tensor.Bool, "numbers")
		},
		Bind:      opkit.BindNumbers("Out", bindDiag[float32], bindDiag[float64], bindDiag[int32], bindDiag[int64]),
		MixesRows: opkit.Mixes,
	})
	opkit.Register(ops.Def{
		Type: "diag_v2",
		Doc: "Makes a matrix with X on a diagonal and padding_value elsewhere, or takes a diagonal of a matrix X. The diagonal offset is the main one " +
			"for 0, above it for numbers above 0.",
		Inputs:  in("X", "numbers, rank 1 or 2"),
		Outputs: out("Out", "of the type of X, a square matrix for rank 1, else the diagonal"),
		Attrs: []ops.Attr{{Name: "offset", Doc: "which diagonal", Default: int32(0)},
			{Name: "padding_value", Doc: "what stands beside the diagonal", Default: float32(0)}},
		Infer:     inferDiagV2,
		Bind:      opkit.BindNumbers("X", bindDiagV2[float32], bindDiagV2[float64], bindDiagV2[int32], bindDiagV2[int64]),
		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc: "dX = the diagonal of dOut, or a matrix with dOut on the diagonal and 0 elsewhere.", Inputs: []string{"X"}, Wrt: []string{"X"},
		Bind: opkit.BindFloats("Out@GRAD", bindDiagV2Grad[float32], bindDiagV2Grad[float64]),
	})
}

func bindEye[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	d := diagonalOf(to.Dims(), 0)
	return func(context.Context) error {
		values := tensor.Data[T](to)
		clear(values)
		for i := range d.n {
			values[d.at(i)] = 1
		}
		return nil
	}, nil
}

func bindDiag[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	return setDiagonal[T](b.In("Diagonal"), b.Out("Out"), 0, 0), nil
}

// setDiagonal fills a matrix and puts from on its diagonal.
func setDiagonal[T kernel.Number](from, to *tensor.Tensor, offset int64, fill T) ops.Kernel {
	d := diagonalOf(to.Dims(), offset)
	return func(context.Context) error {
		values := tensor.Data[T](to)
		kernel.Fill(values, fill)
		for i, v := range tensor.Data[T](from)[:d.n] {
			values[d.at(i)] = v
		}
		return nil
	}
}

// takeDiagonal copies the diagonal of a matrix.
func takeDiagonal[T kernel.Number](from, to *tensor.Tensor, offset int64) ops.Kernel {
	d := diagonalOf(from.Dims(), offset)
	return func(context.Context) error {
		values := tensor.Data[T](from)
		for i := range tensor.Data[T](to)[:d.n] {
			tensor.Data[T](to)[i] = values[d.at(i)]
		}
		return nil
	}
}

// A diagonal is where the elements of a diagonal lie in a matrix.
type diagonal struct{ n, first, step int }

func (d diagonal) at(i int) int { return d.first + i*d.step }

// diagonalOf finds a diagonal of a matrix of these dims: above the main one for an offset above 0.
func diagonalOf(dims []int64, offset int64) diagonal {
	n := diagonalLength(dims, offset)
	first := max(0, offset) + max(0, -offset)*dims[1]
	if n == 0 {
		first = 0
	}
	return diagonal{int(n), int(first), int(dims[1] + 1)}
}

// diagonalLength returns how many elements a diagonal has, program.Unknown if that is open.
func diagonalLength(dims []int64, offset int64) int64 {
	if slices.Contains(dims, program.Unknown) {
		return program.Unknown
	}
	return max(0, min(dims[0]-max(0, -offset), dims[1]-max(0, offset)))
}

func inferDiagV2(s *ops.Shapes) error {
	x, offset := s.In("X"), s.Int("offset")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if offset < math.MinInt32 || offset > math.MaxInt32 {
		return opkit.BadAttr(s, "offset", "a number of 32 bits")
	}
	switch len(x.Dims) {
	case 1:
		n := x.Dims[0]
		if n >= 0 {
			n += max(offset, -offset)
		}
		s.Set("Out", x.DType, n, n)
	case 2:
		s.Set("Out", x.DType, diagonalLength(x.Dims, offset))
	default:
		return s.Errorf("X", "rank 1 or 2")
	}
	return nil
}

func bindDiagV2[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, offset := b.In("X"), b.Out("Out"), b.Int("offset")
	if len(x.Dims()) == 1 {
		return setDiagonal(x, to, offset, T(b.Float("padding_value"))), nil
	}
	return takeDiagonal[T](x, to, offset), nil
}

func bindDiagV2Grad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx, offset := b.In("Out@GRAD"), b.Out("X@GRAD"), b.Int("offset")
	if len(dx.Dims()) == 1 {
		return takeDiagonal[T](dout, dx, offset), nil
	}
	return setDiagonal(dout, dx, offset, T(0)), nil
}
