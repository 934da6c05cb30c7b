package math

import (
	"errors"
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

func init() {
	axis := ops.Attr{Name: "Axis", Doc: "the axis; negative counts from the end", Default: int32(0)}
	mixes := func(s *ops.Shapes, divided func(string) bool) bool {
		return opkit.MixesAlong("Input", "Axis")(s, divided) || opkit.MixesUnlike(s, divided)
	}
	index := ops.Slot{Name: "Index", Doc: "int32 or int64 places along the axis, with the other extents of Input"}
	opkit.Register(ops.Def{
		Type:    "take_along_axis",
		Doc:     "Takes places of each lane: Result[i, j] = Input[Index[i, j], j] for axis 0.",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "numbers"}, index},
		Outputs: out("Result", "of the type of Input and the shape of Index"),
		Attrs:   []ops.Attr{axis},
		Infer: func(s *ops.Shapes) error {
			if _, err := inferAlong(s); err != nil {
				return err
			}
			m := s.In("Index")
			m.DType = s.In("Input").DType
			s.SetAt("Result", 0, m)
			return nil
		},
		MixesRows: mixes,
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindNumbers("Input", bindTake[float32], bindTake[float64], bindTake[int32], bindTake[int64]),
	}, opkit.Gradient{
		Doc: "dInput sums dResult at the places that Index names.", Inputs: []string{"Input", "Index"}, Wrt: []string{"Input"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Input", bindTakeGrad[float32], bindTakeGrad[float64]),
	})
	put := ops.Def{
		Type: "put_along_axis",
		Doc: "Writes to places of each lane of a copy of Input: Result[Index[i, j], j] = Value[i, j] for axis 0. Of several for one place the last counts. With Reduce add it adds " +
			"them, and with mul it multiplies by them.",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "numbers"}, index, {Name: "Value", Doc: "of the type of Input and the shape of Index, or one number"}},
		Outputs: out("Result", "of the shape and type of Input"),
		Attrs:   []ops.Attr{axis, {Name: "Reduce", Doc: "assign, add, or mul, also called multiply", Default: "assign", Check: checkReduce}},
		Infer: func(s *ops.Shapes) error {
			if _, err := inferAlong(s); err != nil {
				return err
			}
			value := s.In("Value").Dims
			if n := ops.Product(value); !ops.Compatible(value, s.In("Index").Dims) && !opkit.Agree(n, 1) {
				return s.Errorf("Value", "the dims %v of Index, or one number", s.In("Index").Dims)
			}
			s.Like("Result", "Input")
			return s.SameType("Input", "Value")
		},
		MixesRows: mixes,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindNumbers("Input", bindPut[float32], bindPut[float64], bindPut[int32], bindPut[int64]),
	}
	opkit.Register(put, opkit.Gradient{
		Doc:    "dInput = dResult, with assign 0 at the places of Index, with mul times the values; dValue = dResult at its place, with mul times what else was multiplied there, with assign 0 where it was overwritten.",
		Inputs: []string{"Input", "Index", "Value"}, Wrt: []string{"Input", "Value"}, Cost: opkit.PerElement(4),
		Bind: opkit.BindFloats("Input", bindPutGrad[float32], bindPutGrad[float64]),
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

func checkReduce(op *program.Op) error {
	switch kind, _ := op.Str("Reduce"); kind {
	case "assign", "add", "mul", "multiply":
		return nil
	}
	return errors.New("assign, add or mul")
}

// reduceKind returns add, mul or assign.
func reduceKind(b *ops.Binding) string {
	if kind := b.Str("Reduce"); kind != "multiply" {
		return kind
	}
	return "mul"
}

// valueAt returns element i of a tensor, or its only one.
func valueAt[T tensor.Element](t *tensor.Tensor, i int) T {
	if t.Len() == 1 {
		return tensor.Data[T](t)[0]
	}
	return tensor.Data[T](t)[i]
}

func bindPut[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, value, to, kind := b.In("Input"), b.In("Value"), b.Out("Result"), reduceKind(b)
	a := alongOf(b, x)
	return b.Loops(ops.Loop{N: a.pre, Apart: true, Run: func(_, from, till int) error {
		first, end := from*a.extent*a.post, till*a.extent*a.post
		copy(tensor.Data[T](to)[first:end], tensor.Data[T](x)[first:end])
		return a.visit(b, from, till, func(i, place int) {
			v := valueAt[T](value, i)
			switch kind {
			case "add":
				v += tensor.Data[T](to)[place]
			case "mul":
				v *= tensor.Data[T](to)[place]
			}
			tensor.Data[T](to)[place] = v
		})
	}})
}

// bindPutGrad goes over the places one after the other, because one number may be the value of all.
func bindPutGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, value, dout, dx, dv, kind := b.In("Input"), b.In("Value"), b.In("Result@GRAD"), b.Out("Input@GRAD"), b.Out("Value@GRAD"), reduceKind(b)
	a := alongOf(b, x)
	// factor is dResult/dInput of each place; last is the last element of Index that names it.
	factor, last := b.Scratch(tensor.Of[T](), x.Len()), b.Scratch(tensor.Int64, x.Len())
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		f, final, d := tensor.Data[T](factor), last.Int64s(), tensor.Data[T](dout)
		kernel.Fill(f, 1)
		err := a.visit(b, 0, a.pre, func(i, place int) {
			switch final[place] = int64(i); kind {
			case "assign":
				f[place] = 0
			case "mul":
				f[place] *= valueAt[T](value, i)
			}
		})
		if err != nil {
			return err
		}
		if dx != nil {
			for i, v := range d {
				tensor.Data[T](dx)[i] = v * f[i]
			}
		}
		if dv == nil {
			return nil
		}
		values := tensor.Data[T](dv)
		clear(values)
		return a.visit(b, 0, a.pre, func(i, place int) {
			g := d[place]
			switch {
			case kind == "assign" && final[place] != int64(i):
				return
			case kind == "mul":
				g *= tensor.Data[T](x)[place] * othersAt[T](b, &a, value, i, place)
			}
			if len(values) == 1 {
				i = 0
			}
			values[i] += g
		})
	}})
}

// othersAt multiplies the values of all elements of Index but i that name a place.
func othersAt[T tensor.Float](b *ops.Binding, a *along, value *tensor.Tensor, i, place int) T {
	product, size := T(1), a.each*a.post
	first := i / size * size
	for j := first + i%a.post; j < first+size; j += a.post {
		if at, err := a.place(b, j); err == nil && at == place && j != i {
			product *= valueAt[T](value, j)
		}
	}
	return product
}
