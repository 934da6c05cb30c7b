package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file broadcast their inputs as NumPy does: dims are aligned from the end, and extents of 1 repeat.

func init() {
	opkit.Register(ops.Def{
		Type:    "lerp",
		Doc:     "Interpolates linearly: Out = X + Weight*(Y - X), for each element of the dims that all have when extents of 1 repeat.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}, {Name: "Y", Doc: "of the type of X"}, {Name: "Weight", Doc: "of the type of X; no gradient flows to it"}},
		Outputs: out("Out", "of the type of X"),
		Infer: func(s *ops.Shapes) error {
			dims, err := aligned(s, "X", "Y", "Weight")
			if err != nil {
				return err
			}
			m := s.In("X")
			if len(m.Dims) != len(dims) || len(dims) > 0 && m.Dims[0] != dims[0] {
				m = m.WithoutLoD()
			}
			m.Dims = dims
			s.SetAt("Out", 0, m)
			return nil
		},
		MixesRows: mixesAligned("X", "Y", "Weight"),
		Cost:      opkit.PerElement(3),
		Bind:      opkit.BindFloats("X", bindLerp[float32], bindLerp[float64]),
	}, opkit.Gradient{
		Doc: "dX = dOut*(1 - Weight), dY = dOut*Weight, summed where they repeat.", Inputs: []string{"X", "Y", "Weight"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(4),
		Bind: opkit.BindFloats("X", bindLerpGrad[float32], bindLerpGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type: "dist",
		Doc: "The distance of two tensors: Out is the norm of order p of X - Y, whose extents of 1 repeat: the largest magnitude for infinity, the smallest for minus infinity, the number of " +
			"elements that are not 0 for 0.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}, {Name: "Y", Doc: "of the type of X"}},
		Outputs: out("Out", "of the type of X [1]"),
		Attrs:   []ops.Attr{{Name: "p", Doc: "order of the norm", Default: float32(2)}},
		Infer: func(s *ops.Shapes) error {
			if _, err := aligned(s, "X", "Y"); err != nil {
				return err
			}
			s.Set("Out", s.In("X").DType, 1)
			return nil
		},
		MixesRows: opkit.Mixes,
		Cost:      opkit.PerElement(8),
		Bind:      opkit.BindFloats("X", bindDist[float32], bindDist[float64]),
	}, opkit.Gradient{
		Doc: "dX = dOut*sign(X - Y)*(|X - Y|/Out)**(p - 1), summed where X repeats, and dY = -dX; 0 for p = 0, and at the extreme magnitude alone for infinity.", Inputs: []string{"X", "Y"},
		Outputs: []string{"Out"}, Wrt: []string{"X", "Y"}, Cost: opkit.PerElement(16), Bind: opkit.BindFloats("X", bindDistGrad[float32], bindDistGrad[float64]),
	})
}

// aligned returns the dims of what several inputs of one float type make together.
func aligned(s *ops.Shapes, slots ...string) ([]int64, error) {
	if err := s.IsFloat(slots[0]); err != nil {
		return nil, err
	}
	if err := s.SameType(slots...); err != nil {
		return nil, err
	}
	dims := s.In(slots[0]).Dims
	for _, slot := range slots[1:] {
		next, ok := broadcastDims(dims, s.In(slot).Dims)
		if !ok {
			return nil, s.Errorf(slot, "dims that differ from %v only where an extent is 1", dims)
		}
		dims = next
	}
	if _, ok := tensor.Count(dims); !ok && !slices.Contains(dims, program.Unknown) {
		return nil, s.Errorf(slots[0], "dims that together fit into memory")
	}
	return dims, nil
}

// mixesAligned is the Mixing of an op of aligned inputs: those with the first axis of the result have the rows of the batch, and only those.
func mixesAligned(slots ...string) opkit.Mixing {
	return func(s *ops.Shapes, divided func(string) bool) bool {
		dims, err := aligned(s, slots...)
		if err != nil || len(dims) == 0 {
			return true
		}
		return slices.ContainsFunc(slots, func(slot string) bool {
			own := s.In(slot).Dims
			return divided(slot) != (len(own) == len(dims) && (own[0] != 1 || dims[0] == 1))
		})
	}
}

// placesIn returns for each element of the result which element of an input stands there, nil where they are the same.
func placesIn(dims, all []int64) []int {
	if slices.Equal(dims, all) {
		return nil
	}
	n, _ := tensor.Count(all)
	places := make([]int, n)
	step, stride := 1, n
	strides := make([]int, len(all))
	for axis := len(all) - 1; axis >= 0; axis-- {
		if own := axis - (len(all) - len(dims)); own >= 0 && dims[own] != 1 {
			strides[axis] = step
			step *= int(dims[own])
		}
	}
	for axis, extent := range all {
		stride /= int(max(1, extent))
		for i := range places {
			places[i] += i / stride % int(extent) * strides[axis]
		}
	}
	return places
}

func at(places []int, i int) int {
	if places == nil {
		return i
	}
	return places[i]
}

// alignedDims is aligned for tensors.
func alignedDims(tensors ...*tensor.Tensor) []int64 {
	dims := tensors[0].Dims()
	for _, t := range tensors[1:] {
		dims, _ = broadcastDims(dims, t.Dims())
	}
	return dims
}

func bindLerp[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, weight, to := b.In("X"), b.In("Y"), b.In("Weight"), b.Out("Out")
	ofX, ofY, ofWeight := placesIn(x.Dims(), to.Dims()), placesIn(y.Dims(), to.Dims()), placesIn(weight.Dims(), to.Dims())
	return b.Loops(ops.Loop{N: to.Len(), Apart: true, Run: func(_, from, till int) error {
		for i := from; i < till; i++ {
			u := tensor.Data[T](x)[at(ofX, i)]
			tensor.Data[T](to)[i] = u + T(tensor.Data[T](weight)[at(ofWeight, i)]*(tensor.Data[T](y)[at(ofY, i)]-u))
		}
		return nil
	}})
}

func bindLerpGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, weight, dout, dx, dy := b.In("X"), b.In("Y"), b.In("Weight"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD")
	ofX, ofY, ofWeight := placesIn(x.Dims(), dout.Dims()), placesIn(y.Dims(), dout.Dims()), placesIn(weight.Dims(), dout.Dims())
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		a, c := opkit.Data[T](dx), opkit.Data[T](dy)
		clear(a)
		clear(c)
		for i, d := range tensor.Data[T](dout) {
			w := tensor.Data[T](weight)[at(ofWeight, i)]
			if a != nil {
				a[at(ofX, i)] += d * (1 - w)
			}
			if c != nil {
				c[at(ofY, i)] += d * w
			}
		}
		return nil
	}})
}

func bindDist[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, to, p := b.In("X"), b.In("Y"), b.Out("Out"), b.Float("p")
	all := alignedDims(x, y)
	n := opkit.Count(all)
	ofX, ofY := placesIn(x.Dims(), all), placesIn(y.Dims(), all)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		sum := 0.0
		if math.IsInf(p, -1) && n > 0 {
			sum = math.Inf(1)
		}
		for i := range n {
			d := math.Abs(float64(tensor.Data[T](x)[at(ofX, i)]) - float64(tensor.Data[T](y)[at(ofY, i)]))
			switch {
			case math.IsInf(p, 1):
				sum = max(sum, d)
			case math.IsInf(p, -1):
				sum = min(sum, d)
			case p == 0:
				if d != 0 {
					sum++
				}
			case p == 2:
				sum += d * d
			default:
				sum += math.Pow(d, p)
			}
		}
		if p == 2 {
			sum = math.Sqrt(sum)
		} else if p != 0 && !math.IsInf(p, 0) {
			sum = math.Pow(sum, 1/p)
		}
		tensor.Data[T](to)[0] = T(sum)
		return nil
	}})
}

func bindDistGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, y, made, dout, dx, dy, p := b.In("X"), b.In("Y"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD"), b.Out("Y@GRAD"), b.Float("p")
	all := alignedDims(x, y)
	n := opkit.Count(all)
	ofX, ofY := placesIn(x.Dims(), all), placesIn(y.Dims(), all)
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		a, c := opkit.Data[T](dx), opkit.Data[T](dy)
		kernel.Fill(a, 0)
		kernel.Fill(c, 0)
		norm, d := float64(tensor.Data[T](made)[0]), float64(tensor.Data[T](dout)[0])
		for i := range n {
			v := float64(tensor.Data[T](x)[at(ofX, i)]) - float64(tensor.Data[T](y)[at(ofY, i)])
			share := 0.0
			switch size := math.Abs(v); {
			case p == 0 || v == 0:
			case math.IsInf(p, 0):
				if T(size) == T(norm) {
					share = d
				}
			default:
				share = d * math.Pow(size/norm, p-1)
			}
			share = math.Copysign(1, v) * share
			if a != nil {
				a[at(ofX, i)] += T(share)
			}
			if c != nil {
				c[at(ofY, i)] -= T(share)
			}
		}
		return nil
	}})
}
