package nn

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	ops.Register(ops.Def{
		Type: "random_crop", Class: ops.Random,
		Doc: "Cuts a part of the given shape out of each record, at a random place: shape has the extents of the last axes, and every combination of places of the others is cut by itself. The places depend on the " +
			"name of Out, Seed, startup_seed, the step and the place in the whole batch, so they are new in every step and the same for any number of trainers. In testing the middle is cut. SeedOut is Seed.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "numbers, with more axes than shape"}, {Name: "Seed", Doc: "int64 [1]"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the type of X"}, {Name: "SeedOut", Doc: "int64 [1]"}},
		Attrs: []ops.Attr{{Name: "shape", Doc: "extents of the part, up to those of X", Kind: []int32{}}, {Name: "startup_seed", Doc: "key of the places", Default: int32(0)},
			{Name: "is_test", Doc: "testing; Fluid has no such attribute", Default: false}},
		Infer: inferCrop,
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool {
			return divided("Seed")
		},
		Cost: opkit.PerElement(2),
		Bind: opkit.BindNumbers("X", bindCrop[float32], bindCrop[float64], bindCrop[int32], bindCrop[int64]),
	})
}

func inferCrop(s *ops.Shapes) error {
	x, shape := s.In("X"), s.Ints("shape")
	if err := opkit.CheckType(s, "X", x.DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	if len(shape) == 0 || len(shape) >= len(x.Dims) {
		return opkit.BadAttr(s, "shape", "extents of the last axes of X %v, but for the first", x.Dims)
	}
	first := len(x.Dims) - len(shape)
	for i, extent := range shape {
		if in := x.Dims[first+i]; extent < 1 || in >= 0 && extent > in {
			return opkit.BadAttr(s, "shape", "extents from 1 to those of X %v", x.Dims)
		}
	}
	if _, ok := tensor.Count(shape); !ok {
		return opkit.BadAttr(s, "shape", "extents whose product fits into memory")
	}
	if n := ops.Product(s.In("Seed").Dims); !opkit.Agree(n, 1) || s.In("Seed").DType != tensor.Int64 {
		return s.Errorf("Seed", "one int64")
	}
	x.Dims = slices.Concat(x.Dims[:first], shape)
	s.SetAt("Out", 0, x)
	s.Set("SeedOut", tensor.Int64, 1)
	return nil
}

func bindCrop[T kernel.Number](b *ops.Binding) (ops.Kernel, error) {
	x, seed, to, next, step, key, shape := b.In("X"), b.In("Seed"), b.Out("Out"), b.Out("SeedOut"), batchOf(b, "X"), b.Int("startup_seed"), b.Ints("shape")
	test := b.Bool("is_test")
	name := kernel.StreamOf("random_crop", b.Op().Out("Out"))
	rank := len(shape)
	extents := x.Dims()[len(x.Dims())-rank:]
	size, part := opkit.Count(extents), opkit.Count(shape)
	width := int(shape[rank-1])
	rows, each := part/width, int(x.Dims()[0])
	records := x.Len() / size / max(each, 1) // of a row
	return b.Loops(ops.Loop{N: each, Apart: true, Run: func(_, from, till int) error {
		if next != nil && from == 0 {
			next.Int64s()[0] = seed.Int64s()[0]
		}
		if to == nil {
			return nil
		}
		stream := opkit.StreamAt(name, step.Step)
		eachRowRun(x, step, from, till, func(at, end int, place uint64) {
			var u [1]float64
			for i := at * records; i < end*records; i++ {
				index := (place*uint64(records) + uint64(i-at*records)) * uint64(rank)
				begin, stride := 0, 1
				for axis := rank - 1; axis >= 0; axis-- {
					place := (extents[axis] - shape[axis]) / 2
					if !test {
						kernel.UniformFill(u[:], seed.Int64s()[0]+key, stream, index+uint64(axis), 0, float64(extents[axis]-shape[axis]+1))
						place = min(int64(u[0]), extents[axis]-shape[axis])
					}
					begin += int(place) * stride
					stride *= int(extents[axis])
				}
				in, made := tensor.Data[T](x)[i*size:][:size], tensor.Data[T](to)[i*part:][:part]
				for row := range rows {
					from, rest, stride := begin, row, int(extents[rank-1])
					for axis := rank - 2; axis >= 0; axis-- {
						from += rest % int(shape[axis]) * stride
						rest /= int(shape[axis])
						stride *= int(extents[axis])
					}
					copy(made[row*width:][:width], in[from:])
				}
			}
		})
		return nil
	}})
}
