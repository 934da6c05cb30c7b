package math

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	dtype := ops.Attr{Name: "dtype", Doc: "element type of the numbers: int32 2 or int64 3", Default: int32(tensor.Int64), Check: func(op *program.Op) error {
		if d, ok := op.Int("dtype"); ok && d != int64(tensor.Int32) && d != int64(tensor.Int64) {
			return errors.New("int32 2 or int64 3")
		}
		return nil
	}}
	unique := ops.Def{
		Type: "unique", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Keeps one of equal elements of X. Out has them in the order in which they first occur, or with is_sorted, as Paddle 2 writes, in ascending order. Index says of each element of X where " +
			"its value stands in Out. With is_sorted X may have any rank, and is read as a list; with axis the slices of X along it are compared in place of elements, the first elements first. " +
			"How many there are is known only when the op has run. NaN equals nothing, but with is_sorted itself.",
		Inputs: in("X", "numbers, rank 1, with is_sorted any"),
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "of the type of X, rank 1, with axis of the rank of X"},
			{Name: "Index", Doc: "of the type that dtype says: a number for each element of X, with axis for each slice", Dispensable: true},
			{Name: "Indices", Doc: "with is_sorted: where each element of Out occurs first", Dispensable: true},
			{Name: "Counts", Doc: "with is_sorted: how often each element of Out occurs", Dispensable: true}},
		Attrs: []ops.Attr{dtype,
			{Name: "is_sorted", Doc: "whether Out is sorted", Default: false},
			{Name: "axis", Doc: "with is_sorted: the axis of the slices, none for elements", Default: []int32{}},
			{Name: "return_index", Doc: "whether somebody wants Indices, which is computed if it has a name", Default: false},
			{Name: "return_inverse", Doc: "whether somebody wants Index, which is computed if it has a name", Default: false},
			{Name: "return_counts", Doc: "whether somebody wants Counts, which is computed if it has a name", Default: false}},
		MixesRows: opkit.Mixes,
		Infer:     inferUnique,
		Bind:      byElement("X", bindUnique[float32], bindUnique[float64], bindUnique[int32], bindUnique[int64], nil),
	}
	ops.Register(unique)
	ops.Register(ops.Def{
		Type: "unique_with_counts", Class: ops.Control, Exempt: ops.RowsOfData,
		Doc: "Keeps the first of equal elements of X: Out has them in the order in which they first occur, and Index says of each element of X where its value stands in Out. How many " +
			"there are is known only when the op has run. NaN equals nothing. Count says how often each occurs.",
		Inputs: in("X", "numbers, rank 1"),
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "of the type of X, rank 1"},
			{Name: "Index", Doc: "of the type that dtype says, as many as X has elements"},
			{Name: "Count", Doc: "of the type of Index, as many as Out has elements"}},
		Attrs:     []ops.Attr{dtype},
		MixesRows: opkit.Mixes,
		Infer:     inferUnique,
		Bind:      byElement("X", bindUnique[float32], bindUnique[float64], bindUnique[int32], bindUnique[int64], nil),
	})
}

// uniqueAxis returns the axis whose slices a unique compares, -1 for elements.
func uniqueAxis(s *ops.Shapes) (int, error) {
	switch axes := s.Ints("axis"); len(axes) {
	case 0:
		return -1, nil
	case 1:
		return opkit.AxisAttr(s, "axis", axes[0], len(s.In("X").Dims))
	default:
		return 0, opkit.BadAttr(s, "axis", "one axis or none")
	}
}

func inferUnique(s *ops.Shapes) error {
	if err := dense(s, "X"); err != nil {
		return err
	}
	x, index := s.In("X"), tensor.DType(s.Int("dtype"))
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	for _, slot := range []string{"Indices", "Counts", "Count"} {
		s.Set(slot, index, program.Unknown)
	}
	if !s.Bool("is_sorted") {
		if err := s.Rank("X", 1); err != nil {
			return err
		}
		s.Set("Out", x.DType, program.Unknown)
		s.Set("Index", index, x.Dims...)
		return nil
	}
	axis, err := uniqueAxis(s)
	switch {
	case err != nil:
		return err
	case axis < 0:
		s.Set("Out", x.DType, program.Unknown)
		s.Set("Index", index, ops.Product(x.Dims))
	default:
		dims := slices.Clone(x.Dims)
		dims[axis] = program.Unknown
		s.Set("Out", x.DType, dims...)
		s.Set("Index", index, x.Dims[axis])
	}
	return nil
}

// A uniques finds equal elements or slices, and keeps its memory for later runs.
type uniques[T kernel.Number] struct {
	at                     map[T]int64
	values                 []T
	places, counts, firsts []int64
	order                  []int // of slices, sorted
}

func bindUnique[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, index, wide := b.In("X"), b.Out("Out"), b.Out("Index"), b.Int("dtype") == int64(tensor.Int64)
	indices, counts := b.Out("Indices"), b.Out("Counts")
	if count := b.Out("Count"); count != nil {
		counts = count
	}
	u := &uniques[T]{at: map[T]int64{}}
	numbers := integersOf(wide)
	if !b.Bool("is_sorted") {
		if indices != nil {
			return nil, fault.E(fault.Unsupported, fault.On(b.Op()), fault.Var(b.Op().Out("Indices")), fault.Got("output Indices without is_sorted"), fault.Want("is_sorted"))
		}
		size := []int64{0}
		return func(context.Context) error {
			u.list(tensor.Data[T](x))
			return errors.Join(give(to, u.values, size), numbers(index, u.places), numbers(counts, u.counts))
		}, nil
	}
	axes := b.Ints("axis")
	var dims []int64
	return func(context.Context) error {
		l := lanes{pre: 1, extent: x.Len(), post: 1}
		dims = append(dims[:0], int64(x.Len()))
		axis := 0
		if len(axes) > 0 {
			l = lanesAlong(x.Dims(), axes[0], false)
			dims = append(dims[:0], x.Dims()...)
			if axis = int(axes[0]); axis < 0 {
				axis += len(dims)
			}
		}
		from := tensor.Data[T](x)
		u.sort(from, l)
		if to != nil {
			dims[axis] = int64(len(u.firsts))
			if err := tensor.Resize(to, x.DType(), dims...); err != nil {
				return err
			}
			out := tensor.Data[T](to)
			for p := range l.pre {
				for k, first := range u.firsts {
					copy(out[(p*len(u.firsts)+k)*l.post:][:l.post], from[(p*l.extent+int(first))*l.post:][:l.post])
				}
			}
		}
		return errors.Join(numbers(index, u.places), numbers(indices, u.firsts), numbers(counts, u.counts))
	}, nil
}

// list finds the first of equal elements, in their order.
func (u *uniques[T]) list(x []T) {
	clear(u.at)
	u.values, u.places, u.counts = u.values[:0], u.places[:0], u.counts[:0]
	for _, v := range x {
		place, ok := u.at[v]
		if !ok {
			place = int64(len(u.values))
			u.at[v], u.values, u.counts = place, append(u.values, v), append(u.counts, 0)
		}
		u.counts[place]++
		u.places = append(u.places, place)
	}
}

// sort finds the first of equal slices, in the order of their elements.
func (u *uniques[T]) sort(x []T, l lanes) {
	compare := func(a, b int) int {
		for p := range l.pre {
			if c := slices.Compare(x[(p*l.extent+a)*l.post:][:l.post], x[(p*l.extent+b)*l.post:][:l.post]); c != 0 {
				return c
			}
		}
		return 0
	}
	u.order, u.places, u.counts, u.firsts = u.order[:0], u.places[:0], u.counts[:0], u.firsts[:0]
	for k := range l.extent {
		u.order, u.places = append(u.order, k), append(u.places, 0)
	}
	slices.SortFunc(u.order, func(a, b int) int { return cmp.Or(compare(a, b), cmp.Compare(a, b)) })
	for i, k := range u.order {
		if i == 0 || compare(u.order[i-1], k) != 0 {
			u.firsts, u.counts = append(u.firsts, int64(k)), append(u.counts, 0)
		}
		u.places[k] = int64(len(u.firsts) - 1)
		u.counts[len(u.counts)-1]++
	}
}
