package nn

import (
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

// keyDoc says what the numbers of the ops of this file follow from.
const keyDoc = " What is drawn depends on seed, the name of Out and the step, so it is new in every step and the same on all trainers."

func init() {
	seed := ops.Attr{Name: "seed", Doc: "key of the random numbers", Default: int32(0)}
	integers := func(name string) ops.Attr {
		return ops.Attr{Name: name, Doc: "element type of Out: int32 2 or int64 3", Default: int32(tensor.Int64)}
	}
	ops.Register(ops.Def{
		Type:    "randint",
		Class:   ops.Random,
		Doc:     "Fills Out with whole numbers from low to high - 1, all equally likely." + keyDoc,
		Outputs: []ops.Slot{{Name: "Out", Doc: "of dims shape"}},
		Attrs: []ops.Attr{{Name: "shape", Doc: "extents of Out", Kind: []int64{}}, {Name: "low", Doc: "the smallest number", Default: int32(0)},
			{Name: "high", Doc: "above the largest number", Kind: int32(0)}, integers("dtype"), seed},
		Infer: func(s *ops.Shapes) error {
			if s.Int("low") >= s.Int("high") {
				return opkit.BadAttr(s, "high", "above low, which is %d", s.Int("low"))
			}
			shape := s.Ints("shape")
			if _, ok := tensor.Count(shape); !ok {
				return opkit.BadAttr(s, "shape", "extents of at least 0 whose product fits into memory")
			}
			return setIntegers(s, shape...)
		},
		Cost: opkit.PerElement(60),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			low, high := b.Int("low"), b.Int("high")
			return drawIntegers(b, func(draw func(i int) float64, n int, put func(i int, v int64)) {
				for i := range n {
					put(i, low+int64(draw(i)*float64(high-low)))
				}
			})
		},
	})
	ops.Register(ops.Def{
		Type:    "randperm",
		Class:   ops.Random,
		Doc:     "A random order of the numbers from 0 to n - 1, all orders equally likely." + keyDoc,
		Outputs: []ops.Slot{{Name: "Out", Doc: "[n]"}},
		Attrs:   []ops.Attr{{Name: "n", Doc: "how many numbers, from 1", Kind: int32(0)}, integers("dtype"), seed},
		Infer: func(s *ops.Shapes) error {
			if n := s.Int("n"); n < 1 || n > math.MaxInt32 {
				return opkit.BadAttr(s, "n", "1 to %d", math.MaxInt32)
			}
			return setIntegers(s, s.Int("n"))
		},
		Cost: opkit.PerElement(60),
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			order := b.Scratch(tensor.Int64, int(b.Int("n")))
			return drawIntegers(b, func(draw func(i int) float64, n int, put func(i int, v int64)) {
				o := order.Int64s()
				for i := range o { // Fisher and Yates, from the front
					j := int(draw(i) * float64(i+1))
					o[i] = o[j]
					o[j] = int64(i)
				}
				for i, v := range o {
					put(i, v)
				}
			})
		},
	})
	ops.Register(ops.Def{
		Type:  "bernoulli",
		Class: ops.Random,
		Doc: "Draws 1 with the probability X and else 0, for each element. What is drawn depends on the name of Out, the step and the place of the element in the whole batch, so it " +
			"is new in every step and the same for any number of trainers. No gradient flows through it.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float, probabilities"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			return s.IsFloat("X")
		},
		Cost: opkit.PerElement(60),
		Bind: opkit.BindFloats("X", bindBernoulli[float32], bindBernoulli[float64]),
	})
}

func setIntegers(s *ops.Shapes, dims ...int64) error {
	dtype := tensor.DType(s.Int("dtype"))
	if dtype != tensor.Int32 && dtype != tensor.Int64 {
		return opkit.UnsupportedAttr(s, "dtype", "int32 2 or int64 3")
	}
	s.Set("Out", dtype, dims...)
	return nil
}

// drawIntegers binds an op whose Out fill writes with put. draw returns a number between 0 and 1 for an index.
func drawIntegers(b *ops.Binding, fill func(draw func(i int) float64, n int, put func(i int, v int64))) (ops.Kernel, error) {
	to, seed, step, name := b.Out("Out"), b.Int("seed"), b.Env.Step, kernel.StreamOf(b.Op().Type, b.Op().Out("Out"))
	if to == nil {
		return opkit.Nop, nil
	}
	var stream uint64
	var u [1]float64
	draw := func(i int) float64 {
		kernel.UniformFill(u[:], seed, stream, uint64(i), 0, 1)
		return u[0]
	}
	put := func(i int, v int64) { to.Int64s()[i] = v }
	if to.DType() == tensor.Int32 {
		put = func(i int, v int64) { to.Int32s()[i] = int32(v) }
	}
	n := to.Len()
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		stream = opkit.StreamAt(name, step)
		fill(draw, n, put)
		return nil
	}})
}

func bindBernoulli[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	op, x, to, step, name := b.Op(), b.In("X"), b.Out("Out"), batchOf(b, "X"), kernel.StreamOf("bernoulli", b.Op().Out("Out"))
	return b.Loops(ops.Loop{N: x.Len(), Run: func(_, from, till int) error {
		for i, p := range tensor.Data[T](x)[from:till] {
			if !(p >= 0 && p <= 1) {
				return fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.In("X")), fault.Gotf("%v in element %d", p, from+i), fault.Want("a probability, 0 to 1"))
			}
		}
		stream := opkit.StreamAt(name, step.Step)
		eachRun(x, step, from, till, func(at, end int, place uint64) {
			out := tensor.Data[T](to)[at:end]
			kernel.UniformFill(out, 0, stream, place, 0, 1)
			for i, p := range tensor.Data[T](x)[at:end] {
				if out[i] < p {
					out[i] = 1
				} else {
					out[i] = 0
				}
			}
		})
		return nil
	}})
}
