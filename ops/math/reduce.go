package math

import (
	"context"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:    "mean",
		Doc:     "The mean of all elements: Out[0] = sum(X)/count(X), 0 for none.",
		Inputs:  in("X", "float"),
		Outputs: out("Out", "dims [1]"),
		Infer:   inferNumber,
		Cost:    opkit.PerElement(1),
		Bind:    opkit.BindFloats("X", bindMean[float32], bindMean[float64]),

		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc:    "dX[i] = dOut[0]/count(X).",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindMeanGrad[float32], bindMeanGrad[float64]),
	})
}

// inferNumber gives Out one number of the type of X.
func inferNumber(s *ops.Shapes) error {
	s.Set("Out", s.In("X").DType, 1)
	return opkit.FloatSoFar(s, "X")
}

func bindMean[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	return func(context.Context) error {
		tensor.Data[T](to)[0] = kernel.Mean(tensor.Data[T](x))
		return nil
	}, nil
}

func bindMeanGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: dx.Len(), Reads: []string{"Out@GRAD"}, Whole: []string{"Out@GRAD"}, Run: func(_, from, to int) error {
		kernel.Fill(tensor.Data[T](dx)[from:to], T(float64(tensor.Data[T](dout)[0])/float64(dx.Len())))
		return nil
	}})
}

func init() {
	registerReduction("reduce_sum", "the sum", "dOut of the sum that the element fell into", nil,
		opkit.BindNumbers("X", bindReduction(kernel.ReduceSum[float32]), bindReduction(kernel.ReduceSum[float64]), bindFold(0, plus[int32]), bindFold(0, plus[int64])),
		opkit.BindFloats("X", bindSpread(kernel.ReduceSumGrad[float32]), bindSpread(kernel.ReduceSumGrad[float64])))
	registerReduction("reduce_mean", "the mean", "dOut of the mean that the element fell into, over the number of its elements", nil,
		opkit.BindFloats("X", bindReduction(kernel.ReduceMean[float32]), bindReduction(kernel.ReduceMean[float64])),
		opkit.BindFloats("X", bindSpread(kernel.ReduceMeanGrad[float32]), bindSpread(kernel.ReduceMeanGrad[float64])))
	registerReduction("reduce_max", "the largest element", "dOut for every element that equals the largest, 0 for the others", []string{"Out"},
		opkit.BindNumbers("X", bindReduction(kernel.ReduceMax[float32]), bindReduction(kernel.ReduceMax[float64]),
			bindFold(math.MinInt32, larger[int32]), bindFold(math.MinInt64, larger[int64])),
		opkit.BindFloats("X", bindExtremeGrad[float32], bindExtremeGrad[float64]))
	registerReduction("reduce_min", "the smallest element", "dOut for every element that equals the smallest, 0 for the others", []string{"Out"},
		opkit.BindNumbers("X", bindReduction(kernel.ReduceMin[float32]), bindReduction(kernel.ReduceMin[float64]),
			bindFold(math.MaxInt32, smaller[int32]), bindFold(math.MaxInt64, smaller[int64])),
		opkit.BindFloats("X", bindExtremeGrad[float32], bindExtremeGrad[float64]))
	registerReduction("reduce_prod", "the product", "dOut*Out/X, with dOut and Out of the product that the element fell into", []string{"Out"},
		opkit.BindNumbers("X", bindFold(1, times[float32]), bindFold(1, times[float64]), bindFold(1, times[int32]), bindFold(1, times[int64])),
		opkit.BindFloats("X", bindReduceGrad(productSlope[float32]), bindReduceGrad(productSlope[float64])))
	for name, all := range map[string]bool{"reduce_all": true, "reduce_any": false} {
		def := reduction(name, "whether "+map[bool]string{true: "all elements are", false: "an element is"}[all]+" true")
		def.Inputs[0].Doc = "bool"
		def.Infer = func(s *ops.Shapes) error {
			if err := opkit.CheckType(s, "X", s.In("X").DType == tensor.Bool, "bool"); err != nil {
				return err
			}
			return inferReduced(s)
		}
		def.Bind = opkit.BindElements("X", nil, nil, nil, nil, bindFold(all, func(a, b bool) bool { return a && b || !all && (a || b) }))
		ops.Register(def)
	}
}

func plus[T kernel.Number](a, b T) T    { return a + b }
func times[T kernel.Number](a, b T) T   { return a * b }
func larger[T kernel.Number](a, b T) T  { return max(a, b) }
func smaller[T kernel.Number](a, b T) T { return min(a, b) }

// productSlope is the derivative of a product by one of its factors x.
func productSlope[T tensor.Float](x, product, dout T) T { return dout * product / x }

func registerReduction(name, what, gradient string, outputs []string, forward, backward opkit.Binder) {
	def := reduction(name, what)
	def.Bind = forward
	if name == "reduce_mean" {
		def.Inputs[0].Doc = "float"
		def.Infer = func(s *ops.Shapes) error {
			if err := opkit.FloatSoFar(s, "X"); err != nil {
				return err
			}
			return inferReduced(s)
		}
	}
	opkit.Register(def, opkit.Gradient{
		Doc: "dX is " + gradient + ".", Inputs: []string{"X"}, Outputs: outputs, Wrt: []string{"X"},
		Cost: opkit.PerElement(1),
		Bind: backward,
	})
}

// reduction defines an op that reduces axes, but for its kernel.
func reduction(name, what string) ops.Def {
	return opkit.ByVariables(ops.Def{
		Type:    name,
		Doc:     "Takes " + what + " along the axes dim of X.",
		Inputs:  in("X", "numbers"),
		Outputs: out("Out", "X without the axes dim, or with 1 in their place; [1] when none is left"),
		Attrs: []ops.Attr{
			{Name: "dim", Doc: "axes to reduce; negative counts from the end", Default: []int32{0}},
			{Name: "keep_dim", Doc: "whether reduced axes stay, with an extent of 1", Default: false},
			{Name: "reduce_all", Doc: "whether all axes are reduced, whatever dim says", Default: false}},
		Infer: func(s *ops.Shapes) error {
			if err := opkit.CheckType(s, "X", s.In("X").DType != tensor.Bool, "numbers"); err != nil {
				return err
			}
			return inferReduced(s)
		},
		Cost: opkit.PerElement(1),

		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			reduced, _ := markReduced(axesOf(s), s.Bool("reduce_all"), len(s.In("X").Dims))
			return len(reduced) == 0 || reduced[0]
		},
	}, "dim")
}

// axesOf returns the axes that a reduction removes. Some ops call the attribute axis in later releases.
func axesOf(s interface {
	Op() *program.Op
	Ints(name string) []int64
}) []int64 {
	if _, later := s.Op().Attrs["axis"]; later {
		return s.Ints("axis")
	}
	return s.Ints("dim")
}

// markReduced returns which axes of a tensor of a rank are reduced. ok is false if an axis is out of range or occurs twice.
func markReduced(dim []int64, all bool, rank int) (reduced []bool, ok bool) {
	reduced = make([]bool, rank)
	if all {
		return slices.Repeat([]bool{true}, rank), true
	}
	for _, axis := range dim {
		if axis < 0 {
			axis += int64(rank)
		}
		if axis < 0 || axis >= int64(rank) || reduced[axis] {
			return nil, false
		}
		reduced[axis] = true
	}
	return reduced, len(dim) > 0
}

// inferReduced gives Out the dims that are left of X.
func inferReduced(s *ops.Shapes) error {
	x := s.In("X")
	reduced, ok := markReduced(axesOf(s), s.Bool("reduce_all"), len(x.Dims))
	if !ok {
		return opkit.BadAttr(s, "dim", "one or more axes of X %v, each once", x.Dims)
	}
	var dims []int64
	for axis, extent := range x.Dims {
		switch {
		case !reduced[axis]:
			dims = append(dims, extent)
		case s.Bool("keep_dim") || s.Bool("keepdim"):
			dims = append(dims, 1)
		}
	}
	if len(dims) == 0 {
		dims = []int64{1}
	}
	s.Set("Out", x.DType, dims...)
	if len(reduced) > 0 && !reduced[0] {
		s.ShareLoD("Out", "X")
	}
	return nil
}

func reducePlan(b *ops.Binding) *kernel.ReducePlan {
	dims := b.In("X").Dims()
	reduced, _ := markReduced(axesOf(b), b.Bool("reduce_all"), len(dims))
	plan := kernel.NewReducePlan(ints(dims), reduced)
	return &plan
}

func bindReduction[T tensor.Float](f func(plan *kernel.ReducePlan, out, x []T, from, to int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		plan, x, to := reducePlan(b), b.In("X"), b.Out("Out")
		n, inputToo := plan.Iterations()
		return b.Loops(ops.Loop{N: n, Apart: !inputToo, Reads: []string{"X"}, Run: func(_, from, till int) error {
			f(plan, tensor.Data[T](to), tensor.Data[T](x), from, till)
			return nil
		}})
	}
}

// bindFold folds the elements of each result.
func bindFold[T tensor.Element](start T, fold func(folded, v T) T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		plan, x, to := reducePlan(b), b.In("X"), b.Out("Out")
		n, inputToo := plan.Iterations()
		return b.Loops(ops.Loop{N: n, Apart: !inputToo, Reads: []string{"X"}, Run: func(_, from, till int) error {
			kernel.ReduceFold(plan, tensor.Data[T](to), tensor.Data[T](x), start, fold, from, till)
			return nil
		}})
	}
}

// bindReduceGrad binds a gradient that is a function of an element, its result, and the gradient of the result.
func bindReduceGrad[T tensor.Float](slope func(x, out, dout T) T) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		plan, x, to, dout, dx := reducePlan(b), b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
		n, whole := gradIterations(plan, "Out", "Out@GRAD")
		return b.Loops(ops.Loop{N: n, Reads: []string{"X", "Out", "Out@GRAD"}, Whole: whole, Run: func(_, from, till int) error {
			kernel.ReduceGrad(plan, tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](to), tensor.Data[T](dout), slope, from, till)
			return nil
		}})
	}
}

func bindSpread[T tensor.Float](f func(plan *kernel.ReducePlan, dx, dout []T, from, to int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		plan, dout, dx := reducePlan(b), b.In("Out@GRAD"), b.Out("X@GRAD")
		n, whole := gradIterations(plan, "Out@GRAD")
		return b.Loops(ops.Loop{N: n, Reads: []string{"Out@GRAD"}, Whole: whole, Run: func(_, from, to int) error {
			f(plan, tensor.Data[T](dx), tensor.Data[T](dout), from, to)
			return nil
		}})
	}
}

// gradIterations returns the iterations of the gradient of a reduction, and which of its inputs each range reads as a whole.
func gradIterations(plan *kernel.ReducePlan, outs ...string) (n int, whole []string) {
	n, allOut := plan.GradIterations()
	if allOut {
		whole = outs
	}
	return n, whole
}

func bindExtremeGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	plan, x, to, dout, dx := reducePlan(b), b.In("X"), b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	n, whole := gradIterations(plan, "Out", "Out@GRAD")
	return b.Loops(ops.Loop{N: n, Reads: []string{"X", "Out", "Out@GRAD"}, Whole: whole, Run: func(_, from, till int) error {
		kernel.ReduceMaxGrad(plan, tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](to), tensor.Data[T](dout), from, till)
		return nil
	}})
}
