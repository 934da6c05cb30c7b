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

// An along is what take_along_axis and put_along_axis do with places of an axis: Index has the extents of Input but along the axis.
type along struct {
	lanes
	index *tensor.Tensor
	each  int // places of a lane of Index
}

func inferAlong(s *ops.Shapes) (axis int, err error) {
	x, index := s.In("Input"), s.In("Index")
	if err := opkit.CheckType(s, "Input", x.DType != tensor.Bool, "numbers"); err != nil {
		return 0, err
	}
	if axis, err = opkit.AxisAttr(s, "Axis", s.Int("Axis"), len(x.Dims)); err != nil {
		return 0, err
	}
	want := slices.Clone(x.Dims)
	want[axis] = program.Unknown
	if !ops.Compatible(index.Dims, want) {
		if len(index.Dims) == len(want) { // Paddle takes it with broadcast=False
			return 0, fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("Index")), fault.Gotf("Index %v of Input %v", index, x),
				fault.Wantf("the extents of Input but along axis %d: a slice of Input before the op has those", axis))
		}
		return 0, s.Errorf("Index", "the extents of Input %v but along axis %d", x.Dims, axis)
	}
	return axis, isIndex(s, "Index")
}

func alongOf(b *ops.Binding, x *tensor.Tensor) along {
	index := b.In("Index")
	l := lanesAlong(x.Dims(), b.Int("Axis"), false)
	return along{lanes: l, index: index, each: lanesAlong(index.Dims(), b.Int("Axis"), false).extent}
}

// place returns the element of Input that element i of Index names; a negative place counts from the end.
func (a *along) place(b *ops.Binding, i int) (int, error) {
	var k int
	if a.index.DType() == tensor.Int32 {
		k = int(a.index.Int32s()[i])
	} else {
		k = int(a.index.Int64s()[i])
	}
	if k < -a.extent || k >= a.extent {
		return 0, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Var(b.Op().In("Index")), fault.Gotf("place %d in element %d", k, i), fault.Wantf("-%d to %d", a.extent, a.extent-1))
	}
	if k < 0 {
		k += a.extent
	}
	return (i/(a.each*a.post)*a.extent+k)*a.post + i%a.post, nil
}

// visit calls f with each element of Index from the lanes [from, till) of pre, and the element of Input that it names.
func (a *along) visit(b *ops.Binding, from, till int, f func(i, place int)) error {
	for i := from * a.each * a.post; i < till*a.each*a.post; i++ {
		place, err := a.place(b, i)
		if err != nil {
			return err
		}
		f(i, place)
	}
	return nil
}

// What take_along_axis and put_along_axis have in common.
var (
	alongAxis  = ops.Attr{Name: "Axis", Doc: "the axis; negative counts from the end", Default: int32(0)}
	alongIndex = ops.Slot{Name: "Index", Doc: "int32 or int64 places along the axis, with the other extents of Input"}
)

func mixesAlong(s *ops.Shapes, divided func(string) bool) bool {
	return opkit.MixesAlong("Input", "Axis")(s, divided) || opkit.MixesUnlike(s, divided)
}

func init() {
	opkit.Register(ops.Def{
		Type:    "take_along_axis",
		Doc:     "Takes places of each lane: Result[i, j] = Input[Index[i, j], j] for axis 0.",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "numbers"}, alongIndex},
		Outputs: out("Result", "of the type of Input and the shape of Index"),
		Attrs:   []ops.Attr{alongAxis},
		Infer: func(s *ops.Shapes) error {
			if _, err := inferAlong(s); err != nil {
				return err
			}
			m := s.In("Index")
			m.DType = s.In("Input").DType
			s.SetAt("Result", 0, m)
			return nil
		},
		MixesRows: mixesAlong,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("Input", bindTake[float32], bindTake[float64], bindTake[int32], bindTake[int64]),
	}, opkit.Gradient{
		Doc: "dInput sums dResult at the places that Index names.", Inputs: []string{"Input", "Index"}, Wrt: []string{"Input"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Input", bindTakeGrad[float32], bindTakeGrad[float64]),
	})
}

func bindTake[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("Input"), b.Out("Result")
	a := alongOf(b, x)
	return b.Loops(ops.Loop{N: a.pre, Apart: true, Run: func(_, from, till int) error {
		return a.visit(b, from, till, func(i, place int) { tensor.Data[T](to)[i] = tensor.Data[T](x)[place] })
	}})
}

func bindTakeGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Result@GRAD"), b.Out("Input@GRAD")
	a := alongOf(b, dx)
	return b.Loops(ops.Loop{N: a.pre, Apart: true, Run: func(_, from, till int) error {
		clear(tensor.Data[T](dx)[from*a.extent*a.post : till*a.extent*a.post])
		return a.visit(b, from, till, func(i, place int) { tensor.Data[T](dx)[place] += tensor.Data[T](dout)[i] })
	}})
}
