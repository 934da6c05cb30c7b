package math

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file find one element of each lane along an axis, or multiply along it.

func init() {
	keep := ops.Attr{Name: "keepdim", Doc: "whether the axis stays, with an extent of 1", Default: false}
	chosen := func(name, doc string, attrs []ops.Attr, infer func(*ops.Shapes, int) error, f32, f64, i32, i64 opkit.Binder) {
		opkit.Register(ops.Def{
			Type: name, Doc: doc, Inputs: in("X", "numbers, rank 1 or more"),
			Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X; without the axis, or [1] if none is left"}, {Name: "Indices", Doc: "int64, of the shape of Out"}},
			Attrs:   append(attrs, laneAxis, keep),
			Infer: func(s *ops.Shapes) error {
				axis, err := isNumbers(s)
				if err != nil {
					return err
				}
				if err := infer(s, axis); err != nil {
					return err
				}
				dims := slices.Clone(s.In("X").Dims)
				if dims[axis] = 1; !s.Bool("keepdim") && len(dims) > 1 {
					dims = slices.Delete(dims, axis, axis+1)
				}
				setOrdered(s, axis, dims)
				return nil
			},
			Cost: opkit.PerElement(20), Bind: opkit.BindNumbers("X", f32, f64, i32, i64), MixesRows: mixesLane,
		}, opkit.Gradient{
			Doc: "dX = dOut at the places of Indices, and 0 elsewhere.", Inputs: []string{"X"}, Outputs: []string{"Indices"}, From: []string{"Out"}, Wrt: []string{"X"},
			Cost: opkit.PerElement(1), Bind: opkit.BindFloats("Out@GRAD", bindChosenGrad[float32], bindChosenGrad[float64]),
		})
	}
	chosen("kthvalue", "Finds the k-th smallest element along an axis and its place; of equal ones the first.",
		[]ops.Attr{{Name: "k", Doc: "which element, from 1", Default: int32(1)}}, func(s *ops.Shapes, axis int) error {
			if k, n := s.Int("k"), s.In("X").Dims[axis]; k < 1 || n >= 0 && k > n {
				return opkit.BadAttr(s, "k", "at least 1 and at most the extent of axis %d of X %v", axis, s.In("X").Dims)
			}
			return nil
		}, bindKth[float32], bindKth[float64], bindKth[int32], bindKth[int64])
	chosen("mode", "Finds the most frequent element along an axis, of several the smallest, and its last place.", nil, func(s *ops.Shapes, axis int) error {
		if s.In("X").Dims[axis] == 0 {
			return s.Errorf("X", "elements along the axis")
		}
		return nil
	}, bindMode[float32], bindMode[float64], bindMode[int32], bindMode[int64])
	opkit.Register(ops.Def{
		Type:    "cumprod",
		Doc:     "Multiplies along an axis up to each place: Out[i] = X[0]*...*X[i].",
		Inputs:  in("X", "numbers, rank 1 or more"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "dim", Doc: "the axis; negative counts from the end", Default: int32(-1)}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			if err := opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			_, err := opkit.AxisAttr(s, "dim", s.Int("dim"), len(s.In("X").Dims))
			return err
		},
		MixesRows: opkit.MixesAlong("X", "dim"),
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("X", bindCumProd[float32], bindCumProd[float64], bindCumProd[int32], bindCumProd[int64]),
	}, opkit.Gradient{
		Doc:    "dX[i] = the sum over j >= i of dOut[j] times the product of X[0] to X[j] without X[i].",
		Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(4), Bind: opkit.BindFloats("X", bindCumProdGrad[float32], bindCumProdGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "searchsorted",
		Doc: "Finds where values belong in sorted rows: Out is the number of elements of the row of SortedSequence that are less than the value, or with right not greater. " +
			"A SortedSequence of one row serves all values.",
		Inputs:  []ops.Slot{{Name: "SortedSequence", Doc: "numbers, ascending along the last axis"}, {Name: "Values", Doc: "of the type of SortedSequence; the first axes are its"}},
		Outputs: out("Out", "int64 or int32, of the shape of Values"),
		Attrs: []ops.Attr{{Name: "out_int32", Doc: "whether Out is int32", Default: false},
			{Name: "right", Doc: "whether a value belongs after elements that equal it", Default: false}},
		Infer: inferSearch,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return divided("SortedSequence") && (len(s.In("SortedSequence").Dims) == 1 || !divided("Values"))
		},
		Cost: opkit.PerElement(16),
		Bind: opkit.BindNumbers("SortedSequence", bindSearch[float32], bindSearch[float64], bindSearch[int32], bindSearch[int64]),
	})
}

// mixesLane is mixesLanes for an op that cannot flatten.
func mixesLane(s *ops.Shapes, _ func(string) bool) bool {
	axis := s.Int("axis")
	return axis == 0 || axis == -int64(len(s.In("X").Dims))
}

func bindKth[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	k := int(b.Int("k"))
	return bindChosen[T](b, func(_ []T, order []int64, _ func(int64) T) int64 { return order[k-1] })
}

func bindMode[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	return bindChosen[T](b, func(_ []T, order []int64, at func(int64) T) int64 {
		best, most, count := order[0], 0, 0
		for i, place := range order {
			if i > 0 && at(place) != at(order[i-1]) {
				count = 0
			}
			if count++; count >= most && (count > most || at(place) == at(best)) {
				best, most = place, count
			}
		}
		return best
	})
}

// bindChosen binds an op that picks one place of each lane. choose sees the places in ascending order of their elements; equal ones keep their order.
func bindChosen[T kernel.Number](b *ops.Binding, choose func(x []T, order []int64, at func(int64) T) int64) (ops.Kernel, error) {
	x, to, places := b.In("X"), b.Out("Out"), b.Out("Indices")
	l := lanesAlong(x.Dims(), b.Int("axis"), false)
	size := l.extent
	order, sorted, ranks := b.Scratch(tensor.Int64, b.Parts()*size), b.Scratch(tensor.Of[T](), b.Parts()*size), b.Scratch(tensor.Int64, b.Parts()*size)
	lane := b.Scratch(tensor.Of[T](), b.Parts()*size)
	find := make([]func(int64) T, b.Parts())
	for part := range find {
		find[part] = func(place int64) T { return ops.Part(tensor.Data[T](lane), part, size)[place] }
	}
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"X"}, Run: func(part, from, till int) error {
		row := ops.Part(tensor.Data[T](lane), part, size)
		for p := from; p < till; p++ {
			for q := range l.post {
				for i := range row {
					row[i] = tensor.Data[T](x)[(p*size+i)*l.post+q]
				}
				kernel.SortLanes(ops.Part(tensor.Data[T](sorted), part, size), ops.Part(ranks.Int64s(), part, size), row, size, 1, size, false, ops.Part(order.Int64s(), part, size), 0, 1)
				place := choose(row, ops.Part(ranks.Int64s(), part, size), find[part])
				if to != nil {
					tensor.Data[T](to)[p*l.post+q] = row[place]
				}
				if places != nil {
					places.Int64s()[p*l.post+q] = place
				}
			}
		}
		return nil
	}})
}

func bindChosenGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx, dout, places := b.Out("X@GRAD"), b.In("Out@GRAD"), b.In("Indices")
	l := lanesAlong(dx.Dims(), b.Int("axis"), false)
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"Out@GRAD", "Indices"}, Run: func(_, from, till int) error {
		at := kernel.SortLanesGrad(tensor.Data[T](dx), tensor.Data[T](dout), places.Int64s(), l.extent, l.post, 1, from, till)
		if at < 0 {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Indices")), fault.Gotf("place %d", places.Int64s()[at]), fault.Wantf("0 to %d", l.extent-1))
	}})
}

func bindCumProd[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	l := lanesAlong(x.Dims(), b.Int("dim"), false)
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.CumProd(tensor.Data[T](to), tensor.Data[T](x), l.extent, l.post, from, till)
		return nil
	}})
}

func bindCumProdGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	l := lanesAlong(x.Dims(), b.Int("dim"), false)
	return b.Loops(ops.Loop{N: l.pre, Run: func(_, from, till int) error {
		kernel.CumProdGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](dout), l.extent, l.post, from, till)
		return nil
	}})
}

func inferSearch(s *ops.Shapes) error {
	x, values := s.In("SortedSequence"), s.In("Values")
	if err := opkit.CheckType(s, "SortedSequence", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if err := s.SameType("SortedSequence", "Values"); err != nil {
		return err
	}
	last := len(x.Dims) - 1
	if last < 0 {
		return s.Errorf("SortedSequence", "rank 1 or more")
	}
	if last > 0 && (len(values.Dims) != len(x.Dims) || !ops.Compatible(values.Dims[:last], x.Dims[:last])) {
		return s.Errorf("Values", "the first extents %v of SortedSequence, and one more", x.Dims[:last])
	}
	values.DType = tensor.Int64
	if s.Bool("out_int32") {
		values.DType = tensor.Int32
	}
	s.SetAt("Out", 0, values)
	return nil
}

func bindSearch[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, values, to, right := b.In("SortedSequence"), b.In("Values"), b.Out("Out"), b.Bool("right")
	extent := int(x.Dims()[len(x.Dims())-1])
	each := values.Len() // values of a row
	if len(x.Dims()) > 1 {
		each = int(values.Dims()[len(values.Dims())-1])
	}
	return b.Loops(ops.Loop{N: values.Len(), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			row, v := tensor.Data[T](x)[i/each*extent:][:extent], tensor.Data[T](values)[i]
			low, high := 0, extent
			for low < high {
				middle := (low + high) / 2
				if row[middle] < v || right && row[middle] == v {
					low = middle + 1
				} else {
					high = middle
				}
			}
			if to.DType() == tensor.Int32 {
				to.Int32s()[i] = int32(low)
			} else {
				to.Int64s()[i] = int64(low)
			}
		}
		return nil
	}})
}
