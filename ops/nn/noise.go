package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	registerNoise("uniform_random_batch_size_like", "numbers between min and max, all equally likely", [2]string{"min", "max"}, -1,
		kernel.UniformFill[float32], kernel.UniformFill[float64])
	registerNoise("gaussian_random_batch_size_like", "numbers of the normal distribution with the deviation std around mean", [2]string{"mean", "std"}, 0,
		kernel.GaussianFill[float32], kernel.GaussianFill[float64])
}

// noiseFill is a random fill of package kernel. a and b are the parameters of the distribution.
type noiseFill[T tensor.Float] func(out []T, seed int64, stream, first uint64, a, b float64)

// registerNoise registers an op that draws numbers for each row of a batch. first is the default of the first parameter; that of the second is 1.
func registerNoise(name, what string, parameters [2]string, first float32, f32 noiseFill[float32], f64 noiseFill[float64]) {
	ops.Register(ops.Def{
		Type:  name,
		Class: ops.Random,
		Doc: "Fills Out with " + what + "; extent output_dim_idx of Out is extent input_dim_idx of Input, the batch. What is drawn depends on seed, the name of Out, the step and " +
			"the place of the element in the whole batch, so it is new in every step and the same for any number of trainers. Out has the LoD of Input, where Fluid gives it none: the place of a row follows from its sequence.",
		Inputs:  []ops.Slot{{Name: "Input", Doc: "tensor whose batch Out takes; its elements are not read"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "tensor of dims shape but for one extent"}},
		Attrs: append([]ops.Attr{
			{Name: "shape", Doc: "extents of Out", Kind: []int64{}},
			{Name: "dtype", Doc: "element type of Out, as Fluid numbers it: float32 5 or float64 6", Default: int32(tensor.Float32)},
			{Name: parameters[0], Doc: "parameter of the distribution", Default: first},
			{Name: parameters[1], Doc: "parameter of the distribution", Default: float32(1)},
			{Name: "seed", Doc: "key of the random numbers", Default: int32(0)}}, opkit.BatchAttrs...),
		Infer: func(s *ops.Shapes) error {
			dtype, err := opkit.DTypeAttr(s, "dtype")
			if err != nil {
				return err
			}
			if !dtype.IsFloat() {
				return opkit.UnsupportedAttr(s, "dtype", "float32 5 or float64 6")
			}
			a, b := s.Float(parameters[0]), s.Float(parameters[1])
			if ordered := parameters[0] != "min" && b >= 0 || parameters[0] == "min" && a <= b; !ordered || a-a != 0 || b-b != 0 {
				return opkit.BadAttr(s, parameters[1], "a finite number, at least 0 for a deviation, and at least min for max")
			}
			shape, err := opkit.BatchSizeLike(s)
			if err != nil {
				return err
			}
			s.Set("Out", dtype, shape...)
			if !opkit.MixesBatch(s, nil) {
				s.ShareLoD("Out", "Input")
			}
			return nil
		},
		Cost:      opkit.PerElement(60),
		Bind:      opkit.BindFloats("Out", bindNoise(f32, parameters), bindNoise(f64, parameters)),
		MixesRows: opkit.MixesBatch,
	})
}

func bindNoise[T tensor.Float](fill noiseFill[T], parameters [2]string) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		to, p, q := b.Out("Out"), b.Float(parameters[0]), b.Float(parameters[1])
		seed, name, step := b.Int("seed"), kernel.StreamOf("noise", b.Op().Out("Out")), batchOf(b, "Out")
		return b.Loops(ops.Loop{N: to.Len(), Reads: []string{}, Run: func(_, from, till int) error {
			stream := opkit.StreamAt(name, step.Step)
			eachRun(to, step, from, till, func(at, end int, place uint64) {
				fill(tensor.Data[T](to)[at:end], seed, stream, place, p, q)
			})
			return nil
		}})
	}
}

func init() {
	ops.Register(ops.Def{
		Type:    "seed",
		Doc:     "A key of random numbers: Out[0] = seed. A seed of 0 is one like any other, while Fluid draws one.",
		Outputs: []ops.Slot{{Name: "Out", Doc: "int32, dims [1]"}},
		Attrs:   []ops.Attr{{Name: "seed", Doc: "the key", Default: int32(0)}, {Name: "deterministic", Doc: "has no effect", Default: false}, {Name: "rng_name", Doc: "has no effect", Default: ""}},
		Infer:   func(s *ops.Shapes) error { s.Set("Out", tensor.Int32, 1); return nil },
		Bind: func(b *ops.Binding) (ops.Kernel, error) {
			to, seed := b.Out("Out"), int32(b.Int("seed"))
			if to == nil {
				return opkit.Nop, nil
			}
			return opkit.Loop(b, 1, func(from, till int) { kernel.Fill(to.Int32s()[from:till], seed) })
		},
	})
}
