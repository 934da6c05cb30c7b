package math

import (
	"context"
	"errors"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	for name, doc := range map[string]string{"share_data": "Copies: Out = X. In Fluid both share one memory.", "conj": "The complex conjugate, which for the real numbers of this build is X itself."} {
		ops.Register(ops.Def{
			Type: name, Doc: doc, Inputs: in("X", "any type"), Outputs: out("Out", "of the shape and type of X"),
			Infer:    func(s *ops.Shapes) error { s.Like("Out", "X"); return nil },
			Gradient: assignGradient, Bind: bindCopy, RowSliced: true, InPlace: map[string]string{"Out": "X"},
		})
	}
	opkit.Register(ops.Def{
		Type:    "fill_any",
		Doc:     "Fills a tensor with one number: value_float for floats, value_int for whole numbers.",
		Inputs:  in("X", "numbers"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "value_float", Doc: "for floats", Default: float32(0)}, {Name: "value_int", Doc: "for whole numbers", Default: int32(0)}},
		Infer:   inferNumbersLike,
		Bind:    opkit.BindNumbers("X", bindFillAny[float32], bindFillAny[float64], bindFillAny[int32], bindFillAny[int64]),

		RowSliced: true,
	}, opkit.Gradient{
		Doc: "dX = 0.", Wrt: []string{"X"}, StandIn: map[string]string{"X": "Out@GRAD"},
		Bind: opkit.BindFloats("Out@GRAD", bindZero[float32], bindZero[float64]),
	})
	ops.Register(ops.Def{
		Type:    "empty",
		Doc:     "A tensor whose elements mean nothing, of dims that shape gives. They are 0, so that every run computes the same.",
		Inputs:  []ops.Slot{tensorOf("ShapeTensor", "shape"), tensorsOf("ShapeTensorList", "shape")},
		Outputs: out("Out", "of type dtype"),
		Attrs:   []ops.Attr{{Name: "shape", Doc: "extents of Out", Default: []int64{}, Tensor: "ShapeTensor", Tensors: "ShapeTensorList"}, dtypeAttr},
		Infer: func(s *ops.Shapes) error {
			dtype, err := opkit.DTypeAttr(s, "dtype")
			if err != nil {
				return err
			}
			dims := s.Ints("shape")
			known := true
			for i, extent := range dims {
				if extent == ops.Open {
					dims[i], known = program.Unknown, false
				}
			}
			if _, ok := tensor.Count(dims); known && !ok {
				return opkit.BadAttr(s, "shape", "extents of at least 0 whose product fits into memory")
			}
			s.Set("Out", dtype, dims...)
			return nil
		},
		Bind: opkit.BindElements("Out", bindEmpty[float32], bindEmpty[float64], bindEmpty[int32], bindEmpty[int64], bindEmpty[bool]),
	})
	ops.Register(ops.Def{
		Type:    "fill",
		Doc:     "A tensor of given values, as assign_value, for programs of the first releases.",
		Outputs: out("Out", "of type dtype and dims shape"),
		Attrs:   []ops.Attr{{Name: "value", Doc: "the elements", Kind: []float32{}}, {Name: "shape", Doc: "dims of Out", Kind: []int32{}}, dtypeAttr},
		Infer: func(s *ops.Shapes) error {
			dtype, err := opkit.DTypeAttr(s, "dtype")
			if err != nil {
				return err
			}
			if dtype == tensor.Bool {
				return opkit.UnsupportedAttr(s, "dtype", "a type of numbers")
			}
			values, _ := s.Op().Floats("value")
			if n, ok := tensor.Count(s.Ints("shape")); !ok || n != len(values) {
				return opkit.BadAttr(s, "shape", "dims of %d elements, as many as value has", len(values))
			}
			s.Set("Out", dtype, s.Ints("shape")...)
			return nil
		},
		Bind: opkit.BindNumbers("Out", bindFilled[float32], bindFilled[float64], bindFilled[int32], bindFilled[int64]),
	})
	ops.Register(ops.Def{
		Type: "bincount", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Counts how often each number occurs: Out[v] is the number of elements of X that are v, or the sum of their Weights. It has minlength elements, or one more than the largest " +
			"number says, which is known only when the op has run. No gradient flows through it.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "int32 or int64 from 0, rank 1"}, {Name: "Weights", Doc: "numbers, of the shape of X", Dispensable: true}},
		Outputs: out("Out", "int64 counts, or sums of the type of Weights, rank 1"),
		Attrs: []ops.Attr{{Name: "minlength", Doc: "the least length of Out", Default: int32(0), Check: func(op *program.Op) error {
			if n, ok := op.Int("minlength"); ok && (n < 0 || n > mostBins) {
				return errors.New("0 to 16777216")
			}
			return nil
		}}},
		Infer: func(s *ops.Shapes) error {
			if err := s.Rank("X", 1); err != nil {
				return err
			}
			dtype := tensor.Int64
			if s.Has("Weights") {
				w := s.In("Weights")
				if dtype = w.DType; !ops.Compatible(w.Dims, s.In("X").Dims) {
					return s.Errorf("Weights", "dims %v as X", s.In("X").Dims)
				}
				if err := opkit.CheckType(s, "Weights", dtype != tensor.Bool, "numbers"); err != nil {
					return err
				}
			}
			s.Set("Out", dtype, program.Unknown)
			return isIndex(s, "X")
		},
		MixesRows: opkit.Mixes,
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			switch w := b.In("Weights"); {
			case w == nil || w.DType() == tensor.Int64:
				return bindBinCount[int64](b)
			case w.DType() == tensor.Float32:
				return bindBinCount[float32](b)
			case w.DType() == tensor.Float64:
				return bindBinCount[float64](b)
			}
			return bindBinCount[int32](b)
		},
	})
	ops.Register(ops.Def{
		Type: "unique_consecutive", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Keeps the first of neighbours that are equal: Out has them in their order, Index says of each element of X where its value stands in Out, and Counts how many neighbours each has been. How many " +
			"there are is known only when the op has run. NaN equals nothing.",
		Inputs:  in("X", "numbers; its elements count as one row"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X, rank 1"}, {Name: "Index", Doc: "of the type that dtype says", Dispensable: true}, {Name: "Counts", Doc: "likewise, as many as Out has elements", Dispensable: true}},
		Attrs: []ops.Attr{{Name: "return_inverse", Doc: "has no effect: Index is made where it is wanted", Default: false}, {Name: "return_counts", Doc: "has no effect: Counts are made where they are wanted", Default: false},
			{Name: "axis", Doc: "only empty: all elements", Default: []int32{}}, {Name: "dtype", Doc: "element type of Index and Counts: int32 2 or int64 3", Default: int32(tensor.Int64)}},
		Infer: func(s *ops.Shapes) error {
			if len(s.Ints("axis")) > 0 {
				return opkit.UnsupportedAttr(s, "axis", "no axis: all elements")
			}
			index := tensor.DType(s.Int("dtype"))
			if index != tensor.Int32 && index != tensor.Int64 {
				return opkit.UnsupportedAttr(s, "dtype", "int32 2 or int64 3")
			}
			x := s.In("X")
			s.Set("Out", x.DType, program.Unknown)
			s.Set("Index", index, ops.Product(x.Dims))
			s.Set("Counts", index, program.Unknown)
			return opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers")
		},
		MixesRows: opkit.Mixes,
		Bind:      byElement("X", bindConsecutive[float32], bindConsecutive[float64], bindConsecutive[int32], bindConsecutive[int64], nil),
	})
}

func bindFillAny[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to, value := b.Out("Out"), T(b.Float("value_float"))
	if !to.DType().IsFloat() {
		value = T(b.Int("value_int"))
	}
	return b.Loops(ops.Loop{N: to.Len(), Reads: []string{}, Run: func(_, from, till int) error {
		kernel.Fill(tensor.Data[T](to)[from:till], value)
		return nil
	}})
}

func bindFilled[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	values, _ := b.Op().Floats("value")
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		for i, v := range values {
			tensor.Data[T](to)[i] = T(v)
		}
		return nil
	}})
}

func bindZero[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx := b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: dx.Len(), Reads: []string{}, Run: func(_, from, till int) error {
		clear(tensor.Data[T](dx)[from:till])
		return nil
	}})
}

func bindEmpty[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	return b.Loops(ops.Loop{N: to.Len(), Run: func(_, from, till int) error {
		clear(tensor.Data[T](to)[from:till])
		return nil
	}})
}

func bindBinCount[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, weights, to, least := b.In("X"), b.In("Weights"), b.Out("Out"), b.Int("minlength")
	var counts []T
	size := []int64{0}
	number := func(i int) int64 {
		if x.DType() == tensor.Int32 {
			return int64(x.Int32s()[i])
		}
		return x.Int64s()[i]
	}
	return func(context.Context) error {
		length := least
		for i := range x.Len() {
			v := number(i)
			if v < 0 || v >= mostBins {
				return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("X")), fault.Gotf("%d at element %d", v, i), fault.Wantf("0 to %d", mostBins-1))
			}
			length = max(length, v+1)
		}
		if int64(cap(counts)) < length {
			counts = make([]T, length)
		}
		counts = counts[:length]
		clear(counts)
		for i := range x.Len() {
			w := T(1)
			if weights != nil {
				w = tensor.Data[T](weights)[i]
			}
			counts[number(i)] += w
		}
		return give(to, counts, size)
	}, nil
}

func bindConsecutive[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, index, count, wide := b.In("X"), b.Out("Out"), b.Out("Index"), b.Out("Counts"), b.Int("dtype") == int64(tensor.Int64)
	var values []T
	var places, counts []int64
	numbers := integersOf(wide)
	size := []int64{0}
	return func(context.Context) error {
		values, places, counts = values[:0], places[:0], counts[:0]
		for i, v := range tensor.Data[T](x) {
			if i == 0 || v != values[len(values)-1] {
				values, counts = append(values, v), append(counts, 0)
			}
			counts[len(counts)-1]++
			places = append(places, int64(len(values)-1))
		}
		return errors.Join(give(to, values, size), numbers(index, places), numbers(count, counts))
	}, nil
}
