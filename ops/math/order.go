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

// Lanes are the elements of a tensor along an axis: it has the form [pre, extent, post].
type lanes struct{ pre, extent, post int }

// lanesAlong finds the lanes of an axis, which a negative number counts from the end. flat says that all elements are one lane.
func lanesAlong(dims []int64, axis int64, flat bool) lanes {
	if flat {
		return lanes{1, opkit.Count(dims), 1}
	}
	if axis < 0 {
		axis += int64(len(dims))
	}
	return lanes{opkit.Count(dims[:axis]), int(dims[axis]), opkit.Count(dims[axis+1:])}
}

var (
	laneAxis = ops.Attr{Name: "axis", Doc: "the axis; negative counts from the end", Default: int32(-1)}
	flatten  = ops.Attr{Name: "flatten", Doc: "whether X is one row of all its elements", Default: false}
)

// isNumbers checks that X holds numbers, and that the axis is one of X.
func isNumbers(s *ops.Shapes) (axis int, err error) {
	x := s.In("X")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return 0, err
	}
	return opkit.AxisAttr(s, "axis", s.Int("axis"), len(x.Dims))
}

func init() {
	for name, which := range map[string]string{"arg_max": "largest", "arg_min": "smallest"} {
		ops.Register(opkit.ByVariables(ops.Def{
			Type:    name,
			Doc:     "Finds the places of the " + which + " elements along an axis; of equal ones the first.",
			Inputs:  in("X", "numbers, rank 1 or more, with elements along the axis"),
			Outputs: out("Out", "of type dtype, X without the axis, or with 1 in its place; [1] when none is left"),
			Attrs: []ops.Attr{{Name: "axis", Doc: laneAxis.Doc, Default: int64(-1)}, {Name: "keepdims", Doc: "whether the axis stays, with an extent of 1", Default: false},
				flatten, {Name: "dtype", Doc: "int32 2 or int64 3, as Fluid numbers them; -1 for int64", Default: int32(tensor.Int64)}},
			Infer: inferArgBest,
			Cost:  opkit.PerElement(1),
			Bind:  opkit.BindNumbers("X", bindArgBest[float32], bindArgBest[float64], bindArgBest[int32], bindArgBest[int64]),

			MixesRows: mixesLanes,
		}, "axis"))
	}
	opkit.Register(ops.Def{
		Type:   "argsort",
		Doc:    "Sorts along an axis: Out has the elements of X in ascending order, and Indices their places. Equal elements keep their order.",
		Inputs: in("X", "numbers, rank 1 or more"),
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"},
			{Name: "Indices", Doc: "int64, of the shape of X"}},
		Attrs: []ops.Attr{laneAxis, {Name: "descending", Doc: "whether the largest comes first", Default: false}},
		Infer: func(s *ops.Shapes) error {
			axis, err := isNumbers(s)
			if err != nil {
				return err
			}
			setOrdered(s, axis, s.In("X").Dims)
			return nil
		},
		Cost: opkit.PerElement(20),
		Bind: opkit.BindNumbers("X", bindSort[float32], bindSort[float64], bindSort[int32], bindSort[int64]),

		MixesRows: mixesLanes,
	}, orderGradient(map[string]string{"X": "Out@GRAD"}))
	opkit.Register(ops.Def{
		Type: "top_k_v2",
		Doc:  "Finds the k largest elements along an axis in descending order, or the smallest in ascending order, and their places; of equal ones the first.",
		Inputs: []ops.Slot{{Name: "X", Doc: "numbers, rank 1 or more"},
			{Name: "K", Doc: "one number in place of k", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X; the axis has the extent k"}, {Name: "Indices", Doc: "int64, of the shape of Out"}},
		Attrs: []ops.Attr{{Name: "k", Doc: "how many", Default: int32(1), Tensor: "K", Opens: true}, laneAxis,
			{Name: "largest", Doc: "whether to find the largest", Default: true}, {Name: "sorted", Doc: "has no effect: the elements are always in order", Default: true}},
		Infer: func(s *ops.Shapes) error {
			axis, err := isNumbers(s)
			if err != nil {
				return err
			}
			dims := slices.Clone(s.In("X").Dims)
			k := s.Int("k")
			if k == ops.Open {
				k = program.Unknown
			} else if k < 1 || dims[axis] >= 0 && k > dims[axis] {
				return opkit.BadAttr(s, "k", "at least 1 and at most the extent of axis %d of X %v", axis, dims)
			}
			dims[axis] = k
			setOrdered(s, axis, dims)
			return nil
		},
		Cost: opkit.PerElement(4),
		Bind: opkit.BindNumbers("X", bindSort[float32], bindSort[float64], bindSort[int32], bindSort[int64]),

		MixesRows: mixesLanes,
	}, orderGradient(nil))
}

// mixesLanes is the MixesRows of an op that works along an axis, or on all elements.
func mixesLanes(s *ops.Shapes, _ func(string) bool) bool {
	axis := s.Int("axis")
	return axis == 0 || axis == -int64(len(s.In("X").Dims)) || s.Bool("flatten")
}

// setOrdered sets the values and places that an op has put in order along an axis.
func setOrdered(s *ops.Shapes, axis int, dims []int64) {
	s.Set("Out", s.In("X").DType, dims...)
	s.Set("Indices", tensor.Int64, dims...)
	if axis > 0 {
		s.ShareLoD("Out", "X")
		s.ShareLoD("Indices", "X")
	}
}

func inferArgBest(s *ops.Shapes) error {
	x := s.In("X").Dims
	var axis int
	var err error
	if s.Bool("flatten") {
		err = opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
	} else {
		axis, err = isNumbers(s)
	}
	if err != nil {
		return err
	}
	dtype := tensor.DType(s.Int("dtype"))
	if s.Int("dtype") == -1 {
		dtype = tensor.Int64
	}
	if dtype != tensor.Int64 && dtype != tensor.Int32 {
		return opkit.BadAttr(s, "dtype", "int32 2 or int64 3")
	}
	var dims []int64
	for i, extent := range x {
		switch along := i == axis || s.Bool("flatten"); {
		case along && extent == 0:
			return s.Errorf("X", "elements along the axis")
		case !along:
			dims = append(dims, extent)
		case s.Bool("keepdims"):
			dims = append(dims, 1)
		}
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", dtype, dims...)
	if axis > 0 {
		s.ShareLoD("Out", "X")
	}
	return nil
}

func bindArgBest[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	if b.Out("Out").DType() == tensor.Int32 {
		return argBest[T, int32](b)
	}
	return argBest[T, int64](b)
}

func argBest[T kernel.Number, I kernel.Index](b *ops.Binding) (ops.Kernel, error) {
	x, to, largest := b.In("X"), b.Out("Out"), b.Op().Type == "arg_max"
	l := lanesAlong(x.Dims(), b.Int("axis"), b.Bool("flatten"))
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"X"}, Run: func(_, from, till int) error {
		kernel.ArgBest(tensor.Data[I](to), tensor.Data[T](x), l.extent, l.post, largest, from, till)
		return nil
	}})
}

func bindSort[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x := b.In("X")
	l := lanesAlong(x.Dims(), b.Int("axis"), false)
	k, descending := l.extent, b.Bool("descending")
	if b.Op().Type == "top_k_v2" {
		k, descending = int(b.Int("k")), b.Bool("largest")
	}
	n := l.pre * k * l.post
	values, places := b.Out("Out"), b.Out("Indices")
	if values == nil {
		values = b.Scratch(tensor.Of[T](), n)
	}
	if places == nil {
		places = b.Scratch(tensor.Int64, n)
	}
	if l.post == 1 && descending && k < l.extent { // only some are needed
		return func(context.Context) error {
			kernel.TopK(tensor.Data[T](values), places.Int64s(), tensor.Data[T](x), l.pre, l.extent, k)
			return nil
		}, nil
	}
	order := b.Scratch(tensor.Int64, b.Parts()*l.extent)
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"X"}, Run: func(part, from, till int) error {
		kernel.SortLanes(tensor.Data[T](values), places.Int64s(), tensor.Data[T](x), l.extent, l.post, k, descending, ops.Part(order.Int64s(), part, l.extent),
			from, till)
		return nil
	}})
}

// orderGradient is the gradient of an op that puts elements in order. standIn is for an op whose gradient does not need X.
func orderGradient(standIn map[string]string) opkit.Gradient {
	g := opkit.Gradient{
		Doc: "dX = dOut at the places of Indices, and 0 elsewhere.", Outputs: []string{"Indices"}, From: []string{"Out"}, Wrt: []string{"X"}, StandIn: standIn,
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindOrderGrad[float32], bindOrderGrad[float64]),
	}
	if standIn == nil {
		g.Inputs = []string{"X"}
	}
	return g
}

func bindOrderGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dx, dout, places := b.Out("X@GRAD"), b.In("Out@GRAD"), b.In("Indices")
	l, ordered := lanesAlong(dx.Dims(), b.Int("axis"), false), lanesAlong(dout.Dims(), b.Int("axis"), false)
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"Out@GRAD", "Indices"}, Run: func(_, from, till int) error {
		at := kernel.SortLanesGrad(tensor.Data[T](dx), tensor.Data[T](dout), places.Int64s(), l.extent, l.post, ordered.extent, from, till)
		if at < 0 {
			return nil
		}
		return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Indices")), fault.Gotf("place %d", places.Int64s()[at]),
			fault.Wantf("0 to %d", l.extent-1))
	}})
}

func init() {
	opkit.Register(opkit.ByVariables(ops.Def{
		Type:    "cumsum",
		Doc:     "Sums along an axis up to each place: Out[i] = X[0] + ... + X[i].",
		Inputs:  in("X", "numbers, rank 1 or more"),
		Outputs: out("Out", "of the shape and type of X; rank 1 with flatten"),
		Attrs: []ops.Attr{laneAxis, flatten, {Name: "exclusive", Doc: "whether the element at a place does not count there", Default: false},
			{Name: "reverse", Doc: "whether the sums run from the end", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if !s.Bool("flatten") {
				s.Like("Out", "X")
				_, err := isNumbers(s)
				return err
			}
			s.Set("Out", s.In("X").DType, ops.Product(s.In("X").Dims))
			return opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindNumbers("X", bindCumSum[float32]("X", "Out"), bindCumSum[float64]("X", "Out"), bindCumSum[int32]("X", "Out"), bindCumSum[int64]("X", "Out")),

		MixesRows: mixesLanes,
	}, "axis"), opkit.Gradient{
		Doc: "dX[i] = dOut[i] + dOut[i+1] + ..., which is cumsum of dOut in the other direction.", Inputs: []string{"X"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindCumSum[float32]("Out@GRAD", "X@GRAD"), bindCumSum[float64]("Out@GRAD", "X@GRAD")),
	})
	opkit.Register(ops.Def{
		Type:    "logcumsumexp",
		Doc:     "The logarithm of sums of exponentials along an axis up to each place: Out[i] = log(exp(X[0]) + ... + exp(X[i])), without an overflow on the way.",
		Inputs:  in("X", "float, rank 1 or more"),
		Outputs: out("Out", "of the shape and type of X; rank 1 with flatten"),
		Attrs: []ops.Attr{laneAxis, flatten, {Name: "exclusive", Doc: "whether the element at a place does not count there; where none counts, Out is the lowest number that is finite", Default: false},
			{Name: "reverse", Doc: "whether the sums run from the end", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			if s.Bool("flatten") {
				s.Set("Out", s.In("X").DType, ops.Product(s.In("X").Dims))
				return nil
			}
			s.Like("Out", "X")
			_, err := isNumbers(s)
			return err
		},
		Cost:      opkit.PerElement(20),
		Bind:      opkit.BindFloats("X", bindLogCumSumExp[float32](-math.MaxFloat32), bindLogCumSumExp[float64](-math.MaxFloat64)),
		MixesRows: mixesLanes,
	}, opkit.Gradient{
		Doc: "dX[i] = dOut[i]*exp(X[i] - Out[i]) + dOut[i+1]*exp(X[i] - Out[i+1]) + ...", Inputs: []string{"X"}, Outputs: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(20),
		Bind: opkit.BindFloats("X", bindLogCumSumExpGrad[float32], bindLogCumSumExpGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "shard_index",
		Doc: "Numbers within a shard: index_num numbers are cut into nshards runs of equal length, and Out is the place of X within run shard_id, or ignore_value " +
			"if X is in another run.",
		Inputs:  in("X", "int32 or int64, from 0 to less than index_num"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{{Name: "index_num", Doc: "how many numbers there are", Kind: int32(0)}, {Name: "nshards", Doc: "how many shards", Kind: int32(0)},
			{Name: "shard_id", Doc: "the shard", Kind: int32(0)}, {Name: "ignore_value", Doc: "for numbers of other shards", Default: int32(-1)}},
		Infer: func(s *ops.Shapes) error {
			if s.Int("index_num") < 1 {
				return opkit.BadAttr(s, "index_num", "at least 1")
			}
			if s.Int("nshards") < 1 {
				return opkit.BadAttr(s, "nshards", "at least 1")
			}
			if id := s.Int("shard_id"); id < 0 || id >= s.Int("nshards") {
				return opkit.BadAttr(s, "shard_id", "from 0 to less than nshards, which is %d", s.Int("nshards"))
			}
			s.Like("Out", "X")
			return isIndex(s, "X")
		},
		Cost: opkit.PerElement(2),
		Bind: opkit.BindElements("X", nil, nil, bindShard[int32], bindShard[int64], nil),
	})
}

// bindCumSum sums the elements of a slot. The gradient, which has the other direction, sums those of Out@GRAD.
func bindCumSum[T kernel.Number](fromSlot, toSlot string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to := b.In(fromSlot), b.Out(toSlot)
		reverse := b.Bool("reverse") != (fromSlot != "X")
		l := lanesAlong(b.In("X").Dims(), b.Int("axis"), b.Bool("flatten"))
		exclusive := b.Bool("exclusive")
		return b.Loops(ops.Loop{N: l.pre, Reads: []string{fromSlot}, Run: func(_, from, till int) error {
			kernel.CumSum(tensor.Data[T](to), tensor.Data[T](x), l.extent, l.post, exclusive, reverse, from, till)
			return nil
		}})
	}
}

func bindLogCumSumExp[T tensor.Float](lowest T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, to, exclusive, reverse := b.In("X"), b.Out("Out"), b.Bool("exclusive"), b.Bool("reverse")
		l := lanesAlong(x.Dims(), b.Int("axis"), b.Bool("flatten"))
		return b.Loops(ops.Loop{N: l.pre, Reads: []string{"X"}, Run: func(_, from, till int) error {
			kernel.LogCumSumExp(tensor.Data[T](to), tensor.Data[T](x), l.extent, l.post, exclusive, reverse, lowest, from, till)
			return nil
		}})
	}
}

func bindLogCumSumExpGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, made, dout, dx, exclusive, reverse := b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Bool("exclusive"), b.Bool("reverse")
	l := lanesAlong(x.Dims(), b.Int("axis"), b.Bool("flatten"))
	return b.Loops(ops.Loop{N: l.pre, Reads: []string{"X", "Out", "Out@GRAD"}, Run: func(_, from, till int) error {
		kernel.LogCumSumExpGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](made), tensor.Data[T](dout), l.extent, l.post, exclusive, reverse, from, till)
		return nil
	}})
}

func bindShard[T kernel.Index](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	size := (b.Int("index_num") + b.Int("nshards") - 1) / b.Int("nshards")
	shard, other, numbers := b.Int("shard_id"), T(b.Int("ignore_value")), b.Int("index_num")
	return b.Loops(ops.Loop{N: x.Len(), Run: func(_, from, till int) error {
		for i, v := range tensor.Data[T](x)[from:till] {
			n := int64(v)
			if n < 0 || n >= numbers {
				return badShard(b.Op(), n, from+i, numbers)
			}
			at := other
			if n/size == shard {
				at = T(n % size)
			}
			tensor.Data[T](to)[from+i] = at
		}
		return nil
	}})
}

func badShard(op *program.Op, n int64, row int, numbers int64) error {
	return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")), fault.Gotf("%d at element %d", n, row), fault.Wantf("0 to %d", numbers-1))
}
