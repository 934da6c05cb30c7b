package math

import (
	"errors"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	put := ops.Def{
		Type: "put_along_axis",
		Doc: "Writes to places of each lane of a copy of Input: Result[Index[i, j], j] = Value[i, j] for axis 0. Of several for one place the last counts. With another Reduce it takes their sum, " +
			"product, mean, least or greatest, and that of Input at the place, unless Include_self is false. A mean of integers is cut to one.",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "numbers"}, alongIndex, {Name: "Value", Doc: "of the type of Input and the shape of Index, or one number"}},
		Outputs: out("Result", "of the shape and type of Input"),
		Attrs: []ops.Attr{alongAxis, {Name: "Reduce", Doc: "assign, add, mul, also called multiply, mean, amin, or amax", Default: "assign", Check: checkReduce},
			{Name: "Include_self", Doc: "whether what Input has at a place counts, too", Default: true}},
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
		MixesRows: mixesAlong,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindNumbers("Input", bindPut[float32], bindPut[float64], bindPut[int32], bindPut[int64]),
	}
	opkit.Register(put, opkit.Gradient{
		Doc: "dInput = dResult, at the places of Index times the slope of Reduce by Input, which is 0 with assign and without Include_self; dValue = dResult at its place times the slope by that value, with assign " +
			"0 where it was overwritten. Of several that are the least or greatest each has an equal share.",
		Inputs: []string{"Input", "Index", "Value"}, Wrt: []string{"Input", "Value"}, Cost: opkit.PerElement(8),
		Bind: opkit.BindFloats("Input", bindPutGrad[float32], bindPutGrad[float64]),
	})
}

func checkReduce(op *program.Op) error {
	switch kind, _ := op.Str("Reduce"); kind {
	case "assign", "add", "mul", "multiply", "mean", "amin", "amax":
		return nil
	}
	return errors.New("assign, add, mul, mean, amin or amax")
}

// A combining is what put_along_axis does at a place.
type combining[T kernel.Number] struct {
	kind string // assign, add, mul, mean, amin or amax
	self bool   // whether Input counts
}

func combiningOf[T kernel.Number](b *ops.Binding) combining[T] {
	p := combining[T]{kind: b.Str("Reduce"), self: b.Bool("Include_self")}
	if p.kind == "multiply" {
		p.kind = "mul"
	}
	p.self = p.self && p.kind != "assign"
	return p
}

// first reports whether the value that comes to a place after count others takes the place of what is there.
func (p combining[T]) first(count int64) bool { return p.kind == "assign" || count == 0 && !p.self }

// add returns what is at a place with one value more. The sum of a mean is divided at the end.
func (p combining[T]) add(have, v T) T {
	switch p.kind {
	case "mul":
		return have * v
	case "amin":
		return min(have, v)
	case "amax":
		return max(have, v)
	}
	return have + v
}

// of returns how many numbers a mean is of, where count values come to a place.
func (p combining[T]) of(count int64) T {
	if p.self {
		count++
	}
	return T(count)
}

// valueAt returns element i of a tensor, or its only one.
func valueAt[T tensor.Element](t *tensor.Tensor, i int) T {
	if t.Len() == 1 {
		return tensor.Data[T](t)[0]
	}
	return tensor.Data[T](t)[i]
}

func bindPut[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, value, to := b.In("Input"), b.In("Value"), b.Out("Result")
	a, p := alongOf(b, x), combiningOf[T](b)
	counts := b.Scratch(tensor.Int64, x.Len())
	return b.Loops(ops.Loop{N: a.pre, Apart: true, Run: func(_, from, till int) error {
		first, end := from*a.extent*a.post, till*a.extent*a.post
		copy(tensor.Data[T](to)[first:end], tensor.Data[T](x)[first:end])
		return p.put(b, &a, from, till, value, tensor.Data[T](to), counts.Int64s())
	}})
}

// put changes to, which holds Input, in the lanes from until till, and counts how many values come to each place.
func (p combining[T]) put(b *ops.Binding, a *along, from, till int, value *tensor.Tensor, to []T, counts []int64) error {
	first, end := from*a.extent*a.post, till*a.extent*a.post
	clear(counts[first:end])
	err := a.visit(b, from, till, func(i, place int) {
		v := valueAt[T](value, i)
		if !p.first(counts[place]) {
			v = p.add(to[place], v)
		}
		to[place] = v
		counts[place]++
	})
	if err != nil || p.kind != "mean" {
		return err
	}
	for place, n := range counts[first:end] {
		if n > 0 {
			to[first+place] /= p.of(n)
		}
	}
	return nil
}

// bindPutGrad goes over the places one after the other, because one number may be the value of all.
func bindPutGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, value, dout, dx, dv := b.In("Input"), b.In("Value"), b.In("Result@GRAD"), b.Out("Input@GRAD"), b.Out("Value@GRAD")
	a, p := alongOf(b, x), combiningOf[T](b)
	result, scratch, last := b.Scratch(tensor.Of[T](), x.Len()), b.Scratch(tensor.Int64, x.Len()), b.Scratch(tensor.Int64, x.Len())
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		g := combiningGrad[T]{combining: p, b: b, a: &a, value: value, x: tensor.Data[T](x), result: tensor.Data[T](result), counts: scratch.Int64s(), last: last.Int64s()}
		copy(g.result, g.x)
		if err := p.put(b, &a, 0, a.pre, value, g.result, g.counts); err != nil {
			return err
		}
		if err := g.share(); err != nil {
			return err
		}
		d := tensor.Data[T](dout)
		if dx != nil {
			for place, v := range d {
				tensor.Data[T](dx)[place] = v * g.bySelf(place)
			}
		}
		if dv == nil {
			return nil
		}
		values := tensor.Data[T](dv)
		clear(values)
		return a.visit(b, 0, a.pre, func(i, place int) {
			v := d[place] * g.byValue(i, place)
			if len(values) == 1 {
				i = 0
			}
			values[i] += v
		})
	}})
}

// A combiningGrad has the slopes of a combining.
type combiningGrad[T tensor.Float] struct {
	combining[T]
	b            *ops.Binding
	a            *along
	value        *tensor.Tensor
	x, result    []T
	counts, last []int64 // of each place: its values, or those that are the least or greatest; the last element of Index that names it, from 1 on, and 0 for none
}

// share finds the last element of Index for each place, and of amin and amax how many numbers share their gradient.
func (g *combiningGrad[T]) share() error {
	clear(g.last)
	extreme := g.kind == "amin" || g.kind == "amax"
	if extreme {
		for place := range g.counts {
			g.counts[place] = 0
			if g.self && g.x[place] == g.result[place] {
				g.counts[place] = 1
			}
		}
	}
	return g.a.visit(g.b, 0, g.a.pre, func(i, place int) {
		g.last[place] = int64(i) + 1
		if extreme && valueAt[T](g.value, i) == g.result[place] {
			g.counts[place]++
		}
	})
}

// bySelf is the slope of the result at a place by Input.
func (g *combiningGrad[T]) bySelf(place int) T {
	switch {
	case g.last[place] == 0:
		return 1
	case !g.self:
		return 0
	case g.kind == "mean":
		return 1 / g.of(g.counts[place])
	case g.kind == "mul":
		return g.othersAt(-1, place)
	case g.kind == "add":
		return 1
	}
	return g.shareOf(g.x[place], place)
}

// byValue is the slope of the result at a place by element i of Value.
func (g *combiningGrad[T]) byValue(i, place int) T {
	switch g.kind {
	case "assign":
		if g.last[place] != int64(i)+1 {
			return 0
		}
		return 1
	case "add":
		return 1
	case "mean":
		return 1 / g.of(g.counts[place])
	case "mul":
		if g.self {
			return g.x[place] * g.othersAt(i, place)
		}
		return g.othersAt(i, place)
	}
	return g.shareOf(valueAt[T](g.value, i), place)
}

// shareOf is the slope of the least or greatest number of a place by one of value v.
func (g *combiningGrad[T]) shareOf(v T, place int) T {
	if v != g.result[place] {
		return 0
	}
	return 1 / T(g.counts[place])
}

// othersAt multiplies the values of all elements of Index but i that name a place.
func (g *combiningGrad[T]) othersAt(i, place int) T {
	a, product := g.a, T(1)
	size := a.each * a.post
	first := place / (a.extent * a.post) * size
	for j := first + place%a.post; j < first+size; j += a.post {
		if at, err := a.place(g.b, j); err == nil && at == place && j != i {
			product *= valueAt[T](g.value, j)
		}
	}
	return product
}
