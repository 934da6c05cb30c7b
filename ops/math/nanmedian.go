package math

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:   "nanmedian",
		Doc:    "Finds the medians of the elements along axes that are not NaN: the one in the middle, or the mean of the two there. It is NaN where all are.",
		Inputs: in("X", "numbers, with elements along the axes"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X, without the axes or with extents of 1; [1] when none is left"},
			{Name: "MedianIndex", Doc: "int64, the dims of Out and 2: the places along the axes of the elements whose mean the median is; -1 where all are NaN", Intermediate: true}},
		Attrs: []ops.Attr{{Name: "axis", Doc: "the axes; a negative number counts from the end; none: all", Default: []int32{}},
			{Name: "keepdim", Doc: "whether the axes stay, with extents of 1", Default: true}},
		Infer: inferMedian,
		Cost:  opkit.PerElement(20),
		Bind:  opkit.BindNumbers("X", bindMedian[float32], bindMedian[float64], bindMedian[int32], bindMedian[int64]),

		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.Ints("axis")) == 0 || opkit.MixesAlongAny("X", "axis")(s, divided)
		},
	}, opkit.Gradient{
		Doc: "dX has dOut at the place of the median, or half of it at each of two places, and is 0 elsewhere.", Inputs: []string{"X"}, Outputs: []string{"MedianIndex"}, Wrt: []string{"X"},
		Cost: opkit.PerElement(1), Bind: opkit.BindFloats("X", bindMedianGrad[float32], bindMedianGrad[float64]),
	})
}

// medianAxes says of each axis of X whether it is reduced.
func medianAxes(s opkit.Attributed, list []int64, rank int) ([]bool, error) {
	reduced := make([]bool, rank)
	for _, axis := range list {
		i, err := opkit.AxisAttr(s, "axis", axis, rank)
		if err != nil {
			return nil, err
		}
		if reduced[i] {
			return nil, opkit.BadAttr(s, "axis", "each axis once")
		}
		reduced[i] = true
	}
	if len(list) == 0 {
		for i := range reduced {
			reduced[i] = true
		}
	}
	return reduced, nil
}

func inferMedian(s *ops.Shapes) error {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	reduced, err := medianAxes(s, s.Ints("axis"), len(x.Dims))
	if err != nil {
		return err
	}
	var dims []int64
	for i, extent := range x.Dims {
		switch {
		case !reduced[i]:
			dims = append(dims, extent)
		case extent == 0:
			return s.Errorf("X", "elements along the axes")
		case s.Bool("keepdim"):
			dims = append(dims, 1)
		}
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", x.DType, dims...)
	s.Set("MedianIndex", tensor.Int64, append(slices.Clone(dims), 2)...)
	if len(reduced) > 0 && !reduced[0] {
		s.ShareLoD("Out", "X")
		s.ShareLoD("MedianIndex", "X")
	}
	return nil
}

// medians says where the elements of a median lie.
type medians struct {
	dims, strides [2][]int64 // of the axes that stay, and of those that are reduced
	count, extent int
}

func mediansOf(b *ops.Binding, dims []int64) (*medians, error) {
	reduced, err := medianAxes(b, b.Ints("axis"), len(dims))
	if err != nil {
		return nil, err
	}
	m, stride := &medians{}, int64(1)
	for i := len(dims) - 1; i >= 0; i-- {
		kind := 0
		if reduced[i] {
			kind = 1
		}
		m.dims[kind], m.strides[kind] = append(m.dims[kind], dims[i]), append(m.strides[kind], stride)
		stride *= dims[i]
	}
	m.count, m.extent = opkit.Count(m.dims[0]), opkit.Count(m.dims[1])
	return m, nil
}

// at returns the element of X at a place of the axes that stay, or of those that are reduced.
func (m *medians) at(kind, place int) int {
	rest, at := int64(place), int64(0)
	for i, extent := range m.dims[kind] { // the last axis first
		at += rest % extent * m.strides[kind][i]
		rest /= extent
	}
	return int(at)
}

func bindMedian[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to, places := b.In("X"), b.Out("Out"), b.Out("MedianIndex")
	m, err := mediansOf(b, x.Dims())
	if err != nil {
		return nil, err
	}
	lane, order := b.Scratch(tensor.Of[T](), b.Parts()*m.extent), b.Scratch(tensor.Int64, b.Parts()*m.extent)
	return b.Loops(ops.Loop{N: m.count, Apart: true, Run: func(part, from, till int) error {
		row := ops.Part(tensor.Data[T](lane), part, m.extent)
		for i := from; i < till; i++ {
			first := m.at(0, i)
			for k := range row {
				row[k] = tensor.Data[T](x)[first+m.at(1, k)]
			}
			median, low, high := kernel.Median(row, ops.Part(order.Int64s(), part, m.extent))
			if to != nil {
				tensor.Data[T](to)[i] = median
			}
			if places != nil {
				places.Int64s()[2*i], places.Int64s()[2*i+1] = low, high
			}
		}
		return nil
	}})
}

func bindMedianGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx, dout, places := b.Out(program.GradName("X")), b.In(program.GradName("Out")), b.In("MedianIndex")
	m, err := mediansOf(b, dx.Dims())
	if err != nil {
		return nil, err
	}
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		clear(tensor.Data[T](dx))
		for i, g := range tensor.Data[T](dout) {
			low, high := places.Int64s()[2*i], places.Int64s()[2*i+1]
			inside := func(place int64) bool { return place >= 0 && place < int64(m.extent) }
			if none := low == -1 && high == -1; !none && !(inside(low) && inside(high)) {
				return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("MedianIndex")), fault.Gotf("places %d and %d", low, high), fault.Wantf("both 0 to %d, or -1", m.extent-1))
			}
			switch first := m.at(0, i); {
			case low < 0:
			case low == high:
				tensor.Data[T](dx)[first+m.at(1, int(low))] = g
			default:
				tensor.Data[T](dx)[first+m.at(1, int(low))] = g / 2
				tensor.Data[T](dx)[first+m.at(1, int(high))] = g / 2
			}
		}
		return nil
	}})
}
