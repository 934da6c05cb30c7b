// Package random registers the ops that give parameters random initial values: uniform_random, gaussian_random and truncated_gaussian_random.
//
// The values do not come from a generator with state. Each element is a function of the seed, the name of the variable and the index of the
// element. So a startup program gives the same values on every machine and in every run. In a program that trains, such as one that drops paths or draws
// noise, the step counts too, and each step has new numbers. In Fluid, seed 0 means another seed each time; here it is a seed like any other. Variables with one seed still differ, because their names do.
//
// A slice of a variable has the values of these rows in the whole variable. The attributes origin and first_element say which variable that is and
// where the slice begins. Slice makes the op of a slice from the op of the whole.
package random

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Names of attributes that Slice rewrites.
const (
	shapeAttr   = "shape"
	originAttr  = "origin"
	firstAttr   = "first_element"
	stripedAttr = "striped_rows"
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
		real("mean", 0, "mean"), real("std", 1, "standard deviation before truncation"),
		kernel.TruncatedGaussianFill[float32], kernel.TruncatedGaussianFill[float64], checkDeviation)
}

// fill is a random fill of package kernel. a and b are the two parameters of the distribution.
type fill[T tensor.Float | uint16] func(out []T, seed int64, stream, first uint64, a, b float64)

// roomElements is how many elements are drawn before they are rounded to bfloat16.
const roomElements = 1024

// narrow makes a fill of bfloat16 of one of float32, with memory of its own.
func narrow(f fill[float32]) fill[uint16] {
	room := make([]float32, roomElements)
	return func(out []uint16, seed int64, stream, first uint64, a, b float64) {
		kernel.FillNarrow(out, room, func(to []float32, at int) { f(to, seed, stream, first+uint64(at), a, b) })
	}
}

func register(opType, doc string, a, b ops.Attr, f32 fill[float32], f64 fill[float64], check func(*ops.Shapes) error) {
	ops.Register(ops.Def{
		Type:  opType,
		Class: ops.Random,
		Doc: doc + " Each depends on seed, origin, the index of the element and, in a program that trains, the step. Where the first extent is that of the batch, the index is that in the " +
			"whole batch, so the numbers are the same for any number of trainers.",
		Inputs: []ops.Slot{{Name: "ShapeTensor", Doc: "numbers in place of shape", Dispensable: true},
			{Name: "ShapeTensorList", Doc: "variables of one number each, in place of shape", Dispensable: true, Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "the filled tensor"}},
		Attrs: []ops.Attr{
			{Name: shapeAttr, Kind: []int64{}, Doc: "extents of Out", Tensor: "ShapeTensor", Tensors: "ShapeTensorList"},
			{Name: "dtype", Default: int32(tensor.Float32), Doc: "element type of Out, as Fluid numbers it: float32 5, float64 6, or bfloat16 22: the numbers of float32, rounded to nearest"},
			a, b,
			{Name: "seed", Default: int64(0), Doc: "key of the generator; 0 is a seed like any other"},
			{Name: originAttr, Default: "", Doc: "the variable whose slice Out is; empty for Out itself"},
			{Name: firstAttr, Default: int64(0), Doc: "index in the origin of the first element of Out", Check: checkFirst},
			{Name: stripedAttr, Default: int64(0), Doc: "rows of the origin, if Out has rows of it in the order of stripes (kernel.Stripes), and first_element counts in this order; else 0"},
		},
		Infer: func(s *ops.Shapes) error {
			if err := check(s); err != nil {
				return err
			}
			return inferShape(s)
		},
		Cost:      opkit.PerElement(flops),
		MixesRows: opkit.Mixes,
		Bind:      opkit.BindBits("Out", binder(f32, a.Name, b.Name), binder(f64, a.Name, b.Name), nil, nil, nil, bindNarrow(f32, a.Name, b.Name)),
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
	dtype := tensor.BFloat16
	if s.Int("dtype") != int64(dtype) {
		var err error
		if dtype, err = opkit.DTypeAttr(s, "dtype"); err != nil {
			return err
		}
		if !dtype.IsFloat() {
			return opkit.UnsupportedAttr(s, "dtype", "float32 5, float64 6 or bfloat16 22")
		}
	}
	shape := s.Ints(shapeAttr)
	if slices.Contains(shape, ops.Open) {
		for i, extent := range shape {
			if extent == ops.Open {
				shape[i] = program.Unknown
			}
		}
		s.Set("Out", dtype, shape...)
		return nil
	}
	n, ok := tensor.Count(shape)
	if !ok {
		return opkit.BadAttr(s, shapeAttr, "extents of at least 0 whose product fits into memory")
	}
	if first := s.Int(firstAttr); first > math.MaxInt64-int64(n) {
		return opkit.BadAttr(s, firstAttr, "an index after which there are numbers for %d elements", n)
	}
	if total := s.Int(stripedAttr); total != 0 {
		if len(shape) < 1 || shape[0] > 0 && (n == 0 || s.Int(firstAttr)%(int64(n)/shape[0]) != 0 || s.Int(firstAttr)/(int64(n)/shape[0]) > total-shape[0]) {
			return opkit.BadAttr(s, stripedAttr, "rows of the origin, of which Out has some")
		}
	}
	s.Set("Out", dtype, shape...)
	return nil
}

func binder[T tensor.Float | uint16](f fill[T], a, b string) opkit.Binder {
	return func(binding *ops.Binding) (ops.Kernel, error) {
		out, p, q := binding.Out("Out"), binding.Float(a), binding.Float(b)
		seed, first := binding.Int("seed"), uint64(binding.Int(firstAttr))
		stream, step := kernel.StreamOf(originOf(binding.Op())), binding.Env.Step
		if total := binding.Int(stripedAttr); total != 0 && out.Len() > 0 {
			stripes, width := kernel.StripesOf(total), uint64(out.Len())/uint64(out.Dims()[0])
			return func(context.Context) error {
				position := int64(first / width)
				for row := range slices.Chunk(tensor.Data[T](out), int(width)) {
					f(row, seed, stream, uint64(stripes.Row(position))*width, p, q)
					position++
				}
				return nil
			}, nil
		}
		given, _ := binding.Op().Bool(ops.GivenAttr)
		fixed := !given && binding.In("Input") == nil // no dims of a batch: each trainer draws what one machine does
		return func(context.Context) error {
			now, place := stream, first
			if !fixed {
				place += opkit.FirstPlace(out, out.Len(), step)
			}
			if step.Round|step.Lane|step.Iteration != 0 {
				now = opkit.StreamAt(stream, step)
			}
			f(tensor.Data[T](out), seed, now, place, p, q)
			return nil
		}, nil
	}
}

// bindNarrow is binder for bfloat16.
func bindNarrow(f fill[float32], a, b string) opkit.Binder {
	return func(binding *ops.Binding) (ops.Kernel, error) {
		if out := binding.Out("Out"); out.DType() != tensor.BFloat16 {
			return nil, fault.E(fault.Unsupported, fault.Gotf("%v", out), fault.Want("float32, float64 or bfloat16"))
		}
		return binder(narrow(f), a, b)(binding)
	}
}

// originOf names the variable whose values an op computes, all or some of them.
func originOf(op *program.Op) string {
	if name, _ := op.Str(originAttr); name != "" {
		return name
	}
	return op.Out("Out")
}

// Slice returns an op that fills the variable out with rows [from, to) of axis 0 of the output of op. op is an op of this package, of a whole
// variable or of a slice. A scalar has one row. Slice fails for another op, and for rows that op does not fill.
func Slice(op *program.Op, out string, from, to int64) (*program.Op, error) {
	if def, ok := ops.Lookup(op.Type); !ok || def.Class != ops.Random {
		return nil, fault.E(fault.InvalidArgument, fault.On(op), fault.Got("an op that is not random"),
			fault.Want("a random initializer"))
	}
	shape, _ := op.Ints(shapeAttr)
	n, ok := tensor.Count(shape)
	scalar := len(shape) == 0
	if !ok || scalar && (from != 0 || to != 1) || !scalar && (from < 0 || to < from || to > shape[0]) {
		return nil, fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(op.Out("Out")),
			fault.Gotf("rows [%d, %d)", from, to), fault.Wantf("rows within shape %v", shape))
	}
	first, _ := op.Int(firstAttr)
	if first < 0 || first > math.MaxInt64-int64(n) {
		return nil, fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.Out("Out")),
			fault.Gotf("%s = %d", firstAttr, first), fault.Want("an index of the origin"))
	}
	if from > 0 {
		first += from * (int64(n) / shape[0])
	}
	if !scalar {
		shape[0] = to - from
	}
	part := op.Clone()
	part.Outputs = map[string][]string{"Out": {out}}
	part.SetAttr(shapeAttr, shape)
	part.SetAttr(originAttr, originOf(op))
	part.SetAttr(firstAttr, first)
	return part, nil
}

// Stripes is Slice for rows [from, to) of the order of stripes (kernel.Stripes) of the whole output of op, which is not a slice itself.
func Stripes(op *program.Op, out string, from, to int64) (*program.Op, error) {
	if first, _ := op.Int(firstAttr); first != 0 || originOf(op) != op.Out("Out") {
		return nil, fault.E(fault.InvalidArgument, fault.On(op), fault.Var(op.Out("Out")), fault.Got("a slice"), fault.Want("a whole variable"))
	}
	part, err := Slice(op, out, from, to)
	if err != nil {
		return nil, err
	}
	shape, _ := op.Ints(shapeAttr)
	if len(shape) == 0 {
		return nil, fault.E(fault.ShapeMismatch, fault.On(op), fault.Var(op.Out("Out")), fault.Got("a scalar"), fault.Want("rows"))
	}
	part.SetAttr(stripedAttr, shape[0])
	return part, nil
}
