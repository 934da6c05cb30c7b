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

// givenValues says by element type which attribute of set_value has the values.
var givenValues = map[tensor.DType]string{tensor.Bool: "bool_values", tensor.Int32: "int32_values", tensor.Int64: "int64_values", tensor.Float32: "fp32_values", tensor.Float64: "fp64_values"}

func init() {
	numbers := func(name, title, doc string) ops.Attr {
		return ops.Attr{Name: name, Doc: doc, Default: []int64{}, Tensors: title + "TensorList"}
	}
	attrs := []ops.Attr{{Name: "dtype", Doc: "element type of the values, that of Input", Default: int32(tensor.Float32)},
		{Name: "axes", Doc: "axes that are cut", Default: []int64{}},
		numbers("starts", "Starts", "where on each axis it begins; negative counts from the end"),
		numbers("ends", "Ends", "where on each axis it ends, exclusive; negative counts from the end, and beyond the end means the end"),
		numbers("steps", "Steps", "steps, other than 0; empty for 1"),
		{Name: "decrease_axes", Doc: "axes that the values do not have", Default: []int64{}}, {Name: "none_axes", Doc: "axes of extent 1 that the values have in addition", Default: []int64{}},
		{Name: "shape", Doc: "dims of the values that an attribute gives", Default: []int64{}}}
	for _, dtype := range []tensor.DType{tensor.Bool, tensor.Int32, tensor.Int64, tensor.Float32, tensor.Float64} {
		like := map[tensor.DType]program.Attr{tensor.Bool: []int32{}, tensor.Int32: []int32{}, tensor.Int64: []int64{}, tensor.Float32: []float32{}, tensor.Float64: []float64{}}[dtype]
		attrs = append(attrs, ops.Attr{Name: givenValues[dtype], Doc: "the values, if dtype is " + dtype.String(), Default: like})
	}
	opkit.Register(ops.Def{
		Type: "set_value",
		Doc:  "Writes values to a part of a copy of Input: on each of axes, to the positions from starts to ends. The values are ValueTensor, or those of an attribute; they repeat where their extents are 1.",
		Inputs: []ops.Slot{{Name: "Input", Doc: "any type"}, {Name: "ValueTensor", Doc: "of the type of Input", Dispensable: true},
			tensorsOf("StartsTensorList", "starts"), tensorsOf("EndsTensorList", "ends"), tensorsOf("StepsTensorList", "steps")},
		Outputs: out("Out", "of the shape and type of Input"),
		Attrs:   attrs,
		Infer:   inferSetValue,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			spans, err := setSpans(s, s.In("Input").Dims)
			whole := err == nil && len(spans) > 0 && spans[0] == span{0, s.In("Input").Dims[0], 1} && !slices.Contains(s.Ints("decrease_axes"), 0)
			dims, value := setDims(s, spans), setValueDims(s)
			return !whole || !divided("Input") || s.Has("ValueTensor") && divided("ValueTensor") != (len(value) == len(dims) && len(value) > 0 && value[0] != 1)
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindElements("Input", bindSetValue[float32], bindSetValue[float64], bindSetValue[int32], bindSetValue[int64], bindSetValue[bool]),
	}, opkit.Gradient{
		Doc: "dInput = dOut, and 0 where values were written; dValueTensor = dOut there, summed where they repeat.", Inputs: []string{"ValueTensor"}, Wrt: []string{"Input", "ValueTensor"},
		StandIn: map[string]string{"Input": "Out@GRAD"}, Cost: opkit.PerElement(1), Bind: opkit.BindFloats("Out@GRAD", bindSetValueGrad[float32], bindSetValueGrad[float64]),
	})
}

// stepped gives sliceSpans the steps of set_value, which are 1 where it has none.
type stepped struct{ attributes }

func (s stepped) Ints(name string) []int64 {
	list := s.attributes.Ints(name)
	switch {
	case name == "steps" && len(list) == 0:
		return slices.Repeat([]int64{1}, len(s.attributes.Ints("axes")))
	case name == "decrease_axis":
		return s.attributes.Ints("decrease_axes")
	}
	return list
}

func setSpans(a attributes, x []int64) ([]span, error) { return sliceSpans(stepped{a}, "steps", x) }

// setDims returns the dims of the part that is written, as the values see it.
func setDims(a attributes, spans []span) (dims []int64) {
	rank := int64(len(spans))
	for i, v := range spans {
		if d := a.Ints("decrease_axes"); !slices.Contains(d, int64(i)) && !slices.Contains(d, int64(i)-rank) {
			dims = append(dims, v.n)
		}
	}
	axes := slices.Clone(a.Ints("none_axes"))
	slices.Sort(axes)
	for _, axis := range axes {
		if axis >= 0 && axis <= int64(len(dims)) && len(dims) < tensor.MaxRank {
			dims = slices.Insert(dims, int(axis), 1)
		}
	}
	return dims
}

// setValueDims returns the dims of the values.
func setValueDims(s *ops.Shapes) []int64 {
	if s.Has("ValueTensor") {
		return s.In("ValueTensor").Dims
	}
	return s.Ints("shape")
}

func inferSetValue(s *ops.Shapes) error {
	x := s.In("Input")
	spans, err := setSpans(s, x.Dims)
	if err != nil {
		return err
	}
	for _, axis := range s.Ints("decrease_axes") {
		at, err := opkit.AxisAttr(s, "decrease_axes", axis, len(x.Dims))
		if err != nil {
			return err
		}
		if !opkit.Agree(spans[at].n, 1) {
			return opkit.BadAttr(s, "decrease_axes", "axes of which one position is written, not %d of axis %d", spans[at].n, at)
		}
	}
	value := setValueDims(s)
	if dims := setDims(s, spans); !repeats(value, dims) {
		if s.Has("ValueTensor") {
			return s.Errorf("ValueTensor", "dims that repeat to %v", dims)
		}
		return opkit.BadAttr(s, "shape", "dims that repeat to %v", dims)
	}
	if !s.Has("ValueTensor") {
		n, ok := tensor.Count(value)
		if have := givenCount(s, x.DType); !ok || have != n {
			return opkit.BadAttr(s, givenValues[x.DType], "%d values of shape %v", n, value)
		}
	}
	s.Like("Out", "Input")
	return s.SameType("Input", "ValueTensor")
}

// repeats reports whether values of some dims can repeat to others. Leading extents of 1 do not count.
func repeats(value, dims []int64) bool {
	for len(value) > len(dims) && value[0] == 1 {
		value = value[1:]
	}
	if len(value) > len(dims) {
		return false
	}
	for i, extent := range value {
		if other := dims[len(dims)-len(value)+i]; extent != 1 && !opkit.Agree(extent, other) {
			return false
		}
	}
	return true
}

// givenCount returns how many values the attribute of an element type has.
func givenCount(s interface{ Op() *program.Op }, dtype tensor.DType) int {
	if list, ok := s.Op().Floats(givenValues[dtype]); ok {
		return len(list)
	}
	list, _ := s.Op().Ints(givenValues[dtype])
	return len(list)
}

// A placed knows which elements of Input are written, and which value each gets.
type placed struct{ at, value []int }

func placedOf(b *ops.Binding, x, value []int64) placed {
	spans, _ := setSpans(b, x)
	dims := setDims(b, spans)
	for len(value) > len(dims) {
		value = value[1:]
	}
	p := placed{at: []int{0}, value: placesIn(value, dims)}
	stride := opkit.Count(x)
	for i, v := range spans {
		stride /= int(max(x[i], 1))
		next := make([]int, 0, len(p.at)*int(v.n))
		for _, first := range p.at {
			for k := range v.n {
				next = append(next, first+int(v.from+k*v.step)*stride)
			}
		}
		p.at = next
	}
	return p
}

func bindSetValue[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	x, given, to := b.In("Input"), b.In("ValueTensor"), b.Out("Out")
	dims := b.Ints("shape")
	if given != nil {
		dims = given.Dims()
	} else {
		values, err := tensor.New(x.DType(), dims...)
		if err != nil {
			return nil, err
		}
		if err := setElements(b, values); err != nil {
			return nil, err
		}
		given = values
	}
	p := placedOf(b, x.Dims(), dims)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		all := tensor.Data[T](to)
		copy(all, tensor.Data[T](x))
		for i, place := range p.at {
			all[place] = tensor.Data[T](given)[at(p.value, i)]
		}
		return nil
	}})
}

// setElements takes values from their attribute.
func setElements(b *ops.Binding, to *tensor.Tensor) error {
	name := givenValues[to.DType()]
	integers, floats := b.Ints(name), []float64(nil)
	if to.DType().IsFloat() {
		floats, _ = b.Op().Floats(name)
	}
	if max(len(integers), len(floats)) != to.Len() {
		return fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Gotf("%d values", max(len(integers), len(floats))), fault.Wantf("%d", to.Len()))
	}
	for i := range to.Len() {
		switch to.DType() {
		case tensor.Float32:
			to.Float32s()[i] = float32(floats[i])
		case tensor.Float64:
			to.Float64s()[i] = floats[i]
		case tensor.Int32:
			to.Int32s()[i] = int32(integers[i])
		case tensor.Int64:
			to.Int64s()[i] = integers[i]
		default:
			to.Bools()[i] = integers[i] != 0
		}
	}
	return nil
}

func bindSetValueGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	given, dout, dx, dvalue := b.In("ValueTensor"), b.In("Out@GRAD"), b.Out("Input@GRAD"), b.Out("ValueTensor@GRAD")
	dims := b.Ints("shape")
	if given != nil {
		dims = given.Dims()
	}
	p := placedOf(b, dout.Dims(), dims)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		from, to, values := tensor.Data[T](dout), opkit.Data[T](dx), opkit.Data[T](dvalue)
		copy(to, from)
		kernel.Fill(values, 0)
		for i, place := range p.at {
			if to != nil {
				to[place] = 0
			}
			if values != nil {
				values[at(p.value, i)] += from[place]
			}
		}
		return nil
	}})
}
