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
		Type: "index_put",
		Doc: "Writes values to elements of a copy of x: out[indices[0][i], indices[1][i], ...] = value[i]. Indices are integers, one tensor for each of the first axes of x, and repeat where their extents " +
			"are 1; negative ones count from the end. Or they are one mask. With accumulate the values are added. Of several values of an element the last counts; all get its gradient.",
		Inputs: []ops.Slot{{Name: "x", Doc: "any type, rank 1 or more"}, {Name: "indices", Doc: "int32 or int64 tensors, or one of bool with the first extents of x", Duplicable: true},
			{Name: "value", Doc: "of the type of x; dims are those of all indices together, or the number of elements that are true, and the axes of x that have no index; it repeats where extents are 1"}},
		Outputs:   out("out", "of the shape and type of x"),
		Attrs:     []ops.Attr{{Name: "accumulate", Doc: "whether values are added to what is there", Default: false}},
		Infer:     inferIndexPut,
		MixesRows: mixesIndexPut,
		Cost:      opkit.PerElement(1),
		Bind: opkit.BindElements("x", bindIndexPut(accumulate[float32]), bindIndexPut(accumulate[float64]), bindIndexPut(accumulate[int32]), bindIndexPut(accumulate[int64]),
			bindIndexPut[bool](nil)),
	}, opkit.Gradient{
		Doc:    "dx = dout, and 0 where values were written without accumulate; dvalue = dout there, summed where the value repeats.",
		Inputs: []string{"indices", "value"}, Wrt: []string{"x", "value"}, StandIn: map[string]string{"x": "out@GRAD"}, Cost: opkit.PerElement(2),
		Bind: opkit.BindFloats("out@GRAD", bindIndexPutGrad[float32], bindIndexPutGrad[float64]),
	})
}

// pointDims returns the dims of all indices together, and how many axes of x they take. Those of a mask are [Unknown].
func pointDims(s *ops.Shapes) (dims []int64, axes int, err error) {
	x, indices := s.In("x").Dims, s.Ins("indices")
	for _, index := range indices {
		if index.DType != tensor.Bool {
			continue
		}
		if len(indices) > 1 {
			return nil, 0, fault.E(fault.Unsupported, fault.On(s.Op()), fault.Var(s.Op().In("indices")), fault.Gotf("%d tensors with a mask among them", len(indices)),
				fault.Want("one mask, or integers"))
		}
		if n := len(index.Dims); n == 0 || n > len(x) || !ops.Compatible(index.Dims, x[:n]) {
			return nil, 0, s.Errorf("indices", "a mask with the first extents of x %v", x)
		}
		return []int64{program.Unknown}, len(index.Dims), nil
	}
	if len(indices) == 0 || len(indices) > len(x) {
		return nil, 0, s.Errorf("indices", "1 to %d tensors, for axes of x %v", len(x), x)
	}
	if err := isIndex(s, "indices"); err != nil {
		return nil, 0, err
	}
	if err := s.SameType("indices"); err != nil {
		return nil, 0, err
	}
	for _, index := range indices {
		next, ok := broadcastDims(dims, index.Dims)
		if !ok {
			return nil, 0, s.Errorf("indices", "dims that differ from %v only where an extent is 1", dims)
		}
		dims = next
	}
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return nil, 0, s.Errorf("indices", "dims that together fit into memory")
	}
	return dims, len(indices), nil
}

func inferIndexPut(s *ops.Shapes) error {
	x, value := s.In("x"), s.In("value").Dims
	points, axes, err := pointDims(s)
	if err != nil {
		return err
	}
	if err := s.SameType("x", "value"); err != nil {
		return err
	}
	want := slices.Concat(points, x.Dims[axes:])
	if all, ok := broadcastDims(want, value); !ok || len(all) != len(want) || !ops.Compatible(all, want) {
		return s.Errorf("value", "dims %v, or 1 in place of some", want)
	}
	if x.DType == tensor.Bool && s.Bool("accumulate") {
		return opkit.CheckType(s, "x", false, "numbers, which can be added")
	}
	s.Like("out", "x")
	return nil
}

// mixesIndexPut says that rows stay apart where each has a mask, or a place of one, and all have the same value.
func mixesIndexPut(s *ops.Shapes, divided func(string) bool) bool {
	_, axes, err := pointDims(s)
	mask := err == nil && s.Ins("indices")[0].DType == tensor.Bool
	return !mask || !divided("x") || !divided("indices") || divided("value") || len(s.In("value").Dims) > len(s.In("x").Dims)-axes && !opkit.Agree(s.In("value").Dims[0], 1)
}

// A putting tells where index_put writes. N points of x each have post elements.
type putting struct {
	b       *ops.Binding
	indices []*tensor.Tensor
	extents []int64 // of x
	places  [][]int // of each index, for each point; nil where they are the same
	post    int
	points  int   // N of integers
	value   []int // which elements of value the elements of all points take, of integers; of one point, of a mask
	step    int   // from the value of an element of a mask to that of the next
	count   int   // how many elements of a mask must be true, -1 for any
}

func puttingOf(b *ops.Binding, x, value *tensor.Tensor) *putting {
	p := &putting{b: b, indices: b.Ins("indices"), extents: x.Dims(), count: -1}
	mask := p.indices[0]
	if mask.DType() != tensor.Bool {
		dims := alignedDims(p.indices...)
		for _, index := range p.indices {
			p.places = append(p.places, placesIn(index.Dims(), dims))
		}
		rest := p.extents[len(p.indices):]
		p.post, p.points = opkit.Count(rest), opkit.Count(dims)
		p.value = placesIn(value.Dims(), slices.Concat(dims, rest))
		return p
	}
	rest, of := p.extents[len(mask.Dims()):], value.Dims()
	p.post = opkit.Count(rest)
	if len(of) > len(rest) {
		if of[0] != 1 {
			p.count, p.step = int(of[0]), opkit.Count(of[1:])
		}
		of = of[1:]
	}
	p.value = placesIn(of, rest)
	return p
}

// each calls put for each point with the elements of x from at on and the place of the first of the value. It looks at all indices before.
func (p *putting) each(put func(at, value int)) error {
	if p.indices[0].DType() == tensor.Bool {
		return p.eachTrue(put)
	}
	for point := range p.points {
		if _, err := p.at(point); err != nil {
			return err
		}
	}
	for point := range p.points {
		at, err := p.at(point)
		if err != nil {
			return err
		}
		put(at*p.post, point*p.post)
	}
	return nil
}

// at returns the place of a point among those of the axes that have an index.
func (p *putting) at(point int) (place int, err error) {
	for axis, index := range p.indices {
		var i int64
		if which := at(p.places[axis], point); index.DType() == tensor.Int32 {
			i = int64(index.Int32s()[which])
		} else {
			i = index.Int64s()[which]
		}
		extent := p.extents[axis]
		if i < -extent || i >= extent {
			return 0, fault.E(fault.InvalidArgument, fault.On(p.b.Op()), fault.Var(p.b.Op().Inputs["indices"][axis]), fault.Gotf("%d at point %d", i, point),
				fault.Wantf("-%d to %d, an element of axis %d of x %v", extent, extent-1, axis, p.extents))
		}
		if i < 0 {
			i += extent
		}
		place = place*int(extent) + int(i)
	}
	return place, nil
}

func (p *putting) eachTrue(put func(at, value int)) error {
	mask := p.indices[0].Bools()
	if p.count >= 0 {
		count := 0
		for _, set := range mask {
			if set {
				count++
			}
		}
		if count != p.count {
			return fault.E(fault.ShapeMismatch, fault.On(p.b.Op()), fault.Var(p.b.Op().In("value")), fault.Gotf("%d values", p.count), fault.Wantf("%d, one for each element of the mask that is true", count))
		}
	}
	value := 0
	for i, set := range mask {
		if set {
			put(i*p.post, value)
			value += p.step
		}
	}
	return nil
}

// from returns the element of value that element i of a point takes, whose first is value.
func (p *putting) from(value, i int) int {
	if p.indices[0].DType() == tensor.Bool {
		return value + at(p.value, i)
	}
	return at(p.value, value+i)
}

func accumulate[T kernel.Number](to *T, v T) { *to += v }

func bindIndexPut[T tensor.Element](add func(to *T, v T)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, value, to := b.In("x"), b.In("value"), b.Out("out")
		p, put := puttingOf(b, x, value), func(to *T, v T) { *to = v }
		if b.Bool("accumulate") {
			put = add
		}
		write := func(at, of int) {
			for i := range p.post {
				put(&tensor.Data[T](to)[at+i], tensor.Data[T](value)[p.from(of, i)])
			}
		}
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			copy(tensor.Data[T](to), tensor.Data[T](x))
			return p.each(write)
		}})
	}
}

func bindIndexPutGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, value, dx, dv := b.In("out@GRAD"), b.In("value"), b.Out("x@GRAD"), b.Out("value@GRAD")
	p, keep := puttingOf(b, dout, value), b.Bool("accumulate")
	write := func(at, of int) {
		for i := range p.post {
			if dv != nil {
				tensor.Data[T](dv)[p.from(of, i)] += tensor.Data[T](dout)[at+i]
			}
			if dx != nil && !keep {
				tensor.Data[T](dx)[at+i] = 0
			}
		}
	}
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		copy(opkit.Data[T](dx), tensor.Data[T](dout))
		clear(opkit.Data[T](dv))
		return p.each(write)
	}})
}
