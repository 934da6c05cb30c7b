package random

import (
	"context"
	"errors"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Names of attributes that Slice rewrites.
const (
	shapeAttr  = "shape"
	originAttr = "origin"
	firstAttr  = "first_element"
)

// flops is a rough count of operations per element: ten rounds of the generator and the transformation.
const flops = 60

func init() {
	register("uniform_random",
		"Fills Out with numbers between min and max, all equally likely.",
		real("min", -1, "lower end"), real("max", 1, "upper end"),
		kernel.UniformFill[float32], kernel.UniformFill[float64], checkRange)
	register("gaussian_random",
		"Fills Out with numbers of the normal distribution.",
		real("mean", 0, "mean"), real("std", 1, "standard deviation"),
		kernel.GaussianFill[float32], kernel.GaussianFill[float64], checkDeviation)
	register("truncated_gaussian_random",
		"Fills Out with numbers of the normal distribution that lie within two standard deviations of the mean.",
		real("mean", 0, "mean before truncation, which it leaves as it is"), real("std", 1, "standard deviation before truncation"),
		kernel.TruncatedGaussianFill[float32], kernel.TruncatedGaussianFill[float64], checkDeviation)
}

// fill is a random fill of package kernel; a and b are the two parameters of the distribution.
type fill[T tensor.Float] func(out []T, seed int64, stream, first uint64, a, b float64)

func register(opType, doc string, a, b ops.Attr, f32 fill[float32], f64 fill[float64], check func(*ops.Shapes) error) {
	ops.Register(ops.Def{
		Type:    opType,
		Class:   ops.Random,
		Doc:     doc + " Each depends on seed, origin and the index of the element alone.",
		Outputs: []ops.Slot{{Name: "Out", Doc: "the filled tensor"}},
		Attrs: []ops.Attr{
			{Name: shapeAttr, Kind: []int64{}, Doc: "extents of Out"},
			{Name: "dtype", Default: int32(tensor.Float32), Doc: "element type of Out, as Fluid numbers it: float32 5 or float64 6"},
			a, b,
			{Name: "seed", Default: int64(0), Doc: "key of the generator; 0 is a seed like any other"},
			{Name: originAttr, Default: "", Doc: "variable that Out is a slice of; empty for Out itself"},
			{Name: firstAttr, Default: int64(0), Doc: "index in the origin of the first element of Out", Check: checkFirst},
		},
		Infer: func(s *ops.Shapes) error {
			if err := check(s); err != nil {
				return err
			}
			return inferShape(s)
		},
		Cost: opkit.PerElement(flops),
		Bind: opkit.BindFloats("Out", binder(f32, a.Name, b.Name), binder(f64, a.Name, b.Name)),
	})
}

// real declares a finite parameter of a distribution.
func real(name string, value float32, doc string) ops.Attr {
	return ops.Attr{Name: name, Default: value, Doc: doc, Check: func(op *program.Op) error {
		if v, ok := op.Float(name); ok && (math.IsNaN(v) || math.IsInf(v, 0)) {
			return errors.New("a finite number")
		}
		return nil
	}}
}

func checkFirst(op *program.Op) error {
	if v, ok := op.Int(firstAttr); ok && v < 0 {
		return errors.New("an index from 0")
	}
	return nil
}

func checkRange(s *ops.Shapes) error {
	if low, high := s.Float("min"), s.Float("max"); low > high {
		return opkit.BadAttr(s, "min", "at most max, which is %v", high)
	}
	return nil
}

func checkDeviation(s *ops.Shapes) error {
	if s.Float("std") < 0 {
		return opkit.BadAttr(s, "std", "at least 0")
	}
	return nil
}

func inferShape(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	if !dtype.IsFloat() {
		return opkit.UnsupportedAttr(s, "dtype", "float32 5 or float64 6")
	}
	shape := s.Ints(shapeAttr)
	n, ok := tensor.Count(shape)
	if !ok {
		return opkit.BadAttr(s, shapeAttr, "extents of at least 0 whose product fits into memory")
	}
	if first := s.Int(firstAttr); first > math.MaxInt64-int64(n) {
		return opkit.BadAttr(s, firstAttr, "an index after which there are numbers for %d elements", n)
	}
	s.Set("Out", dtype, shape...)
	return nil
}

func binder[T tensor.Float](f fill[T], a, b string) opkit.Binder {
	return func(binding *ops.Binding) (ops.Kernel, error) {
		out, p, q := binding.Out("Out"), binding.Float(a), binding.Float(b)
		seed, first := binding.Int("seed"), uint64(binding.Int(firstAttr))
		stream := kernel.StreamOf(originOf(binding.Op()))
		return func(context.Context) error {
			f(tensor.Data[T](out), seed, stream, first, p, q)
			return nil
		}, nil
	}
}

// originOf names the variable whose values an op computes, whole or in part.
func originOf(op *program.Op) string {
	if name, _ := op.Str(originAttr); name != "" {
		return name
	}
	return op.Out("Out")
}
