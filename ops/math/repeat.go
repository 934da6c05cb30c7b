package math

import (
	"math"
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
		Type: "repeat_interleave",
		Doc:  "Repeats each place of an axis, the copies one after the other: Repeats times, or each as often as RepeatsTensor says.",
		Inputs: []ops.Slot{{Name: "X", Doc: "any type, rank 1 or more"},
			{Name: "RepeatsTensor", Doc: "int32 or int64, a number of at least 0 for each place of the axis, in place of Repeats", Dispensable: true, Decides: true}},
		Outputs: out("Out", "of the type of X; the axis has the sum of the repetitions"),
		Attrs: []ops.Attr{{Name: "Repeats", Doc: "how often, at least 1; it has no effect with RepeatsTensor", Default: int32(0)},
			{Name: "dim", Doc: "the axis; negative counts from the end", Default: int32(0)}},
		Infer:    inferRepeatInterleave,
		MakesLoD: func(op *program.Op) bool { return op.In("RepeatsTensor") != "" },
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return opkit.MixesAlong("X", "dim")(s, divided) || divided("RepeatsTensor")
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("X", bindRepeat[float32], bindRepeat[float64], bindRepeat[int32], bindRepeat[int64], bindRepeat[bool]),
	}, opkit.Gradient{
		Doc: "dX sums dOut over the copies of each place.", Inputs: []string{"X", "RepeatsTensor"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindRepeatGrad[float32], bindRepeatGrad[float64]),
	})
}

func inferRepeatInterleave(s *ops.Shapes) error {
	x := s.In("X")
	axis, err := opkit.AxisAttr(s, "dim", s.Int("dim"), len(x.Dims))
	if err != nil {
		return err
	}
	dims := slices.Clone(x.Dims)
	if !s.Has("RepeatsTensor") {
		times := s.Int("Repeats")
		if times < 1 || dims[axis] > 0 && times > math.MaxInt64/dims[axis] {
			return opkit.BadAttr(s, "Repeats", "at least 1, and a product with the extent %d that does not overflow", dims[axis])
		}
		dims[axis] = ops.Product([]int64{dims[axis], times})
	} else if dims[axis], err = sumOfRepeats(s, dims[axis]); err != nil {
		return err
	}
	s.Set("Out", x.DType, dims...)
	if axis > 0 {
		s.ShareLoD("Out", "X")
	}
	return nil
}

// sumOfRepeats checks RepeatsTensor for an axis of an extent, and returns the sum of its numbers, program.Unknown while they are not known.
func sumOfRepeats(s *ops.Shapes, extent int64) (int64, error) {
	if err := isIndex(s, "RepeatsTensor"); err != nil {
		return 0, err
	}
	if !ops.Compatible(s.In("RepeatsTensor").Dims, []int64{extent}) {
		return 0, s.Errorf("RepeatsTensor", "dims [%d], a number for each place of the axis", extent)
	}
	repeats, sum := ops.Decide(s, "RepeatsTensor"), int64(0)
	if repeats == nil {
		return program.Unknown, nil
	}
	for i, n := range repeats {
		if n < 0 || n > math.MaxInt32 {
			return 0, fault.E(fault.InvalidArgument, fault.On(s.Op()), fault.Var(s.Op().In("RepeatsTensor")), fault.Gotf("%d at element %d", n, i), fault.Wantf("0 to %d", math.MaxInt32))
		}
		if sum += n; sum > math.MaxInt32 {
			return 0, s.Errorf("RepeatsTensor", "numbers whose sum is at most %d", math.MaxInt32)
		}
	}
	return sum, nil
}

// A repetition is what repeat_interleave does with lanes of x, which become lanes of another extent.
type repetition struct {
	lanes
	made   int // the extent of Out
	op     *program.Op
	given  *tensor.Tensor // RepeatsTensor, or nil
	counts []int64
}

func repetitionOf(b *ops.Binding, x, out *tensor.Tensor) *repetition {
	l := lanesAlong(x.Dims(), b.Int("dim"), false)
	r := &repetition{lanes: l, made: lanesAlong(out.Dims(), b.Int("dim"), false).extent, op: b.Op(), given: b.In("RepeatsTensor")}
	if r.given == nil {
		r.counts = slices.Repeat([]int64{b.Int("Repeats")}, l.extent)
	} else if r.given.DType() == tensor.Int32 {
		r.counts = make([]int64, l.extent)
	}
	return r
}

// repeats returns the numbers of the run. They must make the extent that the plan was compiled for.
func (r *repetition) repeats() ([]int64, error) {
	counts, sum := r.counts, int64(0)
	switch {
	case r.given == nil:
		return counts, nil
	case r.given.DType() == tensor.Int64:
		counts = r.given.Int64s()
	default:
		for i, n := range r.given.Int32s() {
			counts[i] = int64(n)
		}
	}
	for _, n := range counts {
		if n < 0 || n > int64(r.made) {
			sum = -1
			break
		}
		sum += n
	}
	if sum != int64(r.made) {
		return nil, fault.E(fault.InvalidArgument, fault.On(r.op), fault.Var(r.op.In("RepeatsTensor")), fault.Got("other numbers"),
			fault.Wantf("numbers from 0 whose sum is %d, for which the plan was compiled", r.made))
	}
	return counts, nil
}

func bindRepeat[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	r := repetitionOf(b, x, to)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		counts, err := r.repeats()
		if err == nil {
			kernel.Repeat(tensor.Data[T](to), tensor.Data[T](x), counts, r.pre, r.post)
		}
		return err
	}})
}

func bindRepeatGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	r := repetitionOf(b, dx, dout)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		counts, err := r.repeats()
		if err == nil {
			kernel.RepeatGrad(tensor.Data[T](dx), tensor.Data[T](dout), counts, r.pre, r.post)
		}
		return err
	}})
}
