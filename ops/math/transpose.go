package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

var permutationAttr = ops.Attr{Name: "axis", Doc: "a permutation: axis i of Out is axis axis[i] of X", Kind: []int32(nil)}

func init() {
	transpose := ops.Def{
		Type:     "transpose2",
		Doc:      "Permutes the axes of X: axis i of Out is axis axis[i] of X.",
		Inputs:   in("X", "any type"),
		Outputs:  []ops.Slot{{Name: "Out", Doc: "of the type of X"}, xShapeSlot},
		Attrs:    []ops.Attr{permutationAttr},
		Infer:    inferTranspose,
		Gradient: ops.StandardGrad(nil, []string{"XShape"}, []string{"X"}),
		Bind:     opkit.BindElements("X", bindTranspose[float32], bindTranspose[float64], bindTranspose[int32], bindTranspose[int64], bindTranspose[bool]),
	}
	gradient := ops.Def{
		Type:    "transpose2_grad",
		Class:   ops.Backward,
		Doc:     "The gradient of transpose2: dX is dOut with the axes permuted back.",
		Inputs:  []ops.Slot{{Name: "XShape", Doc: "dims of X after a 0"}, {Name: "Out@GRAD", Doc: "gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "gradient of X", Dispensable: true}},
		Attrs:   []ops.Attr{permutationAttr},
		Infer: func(s *ops.Shapes) error {
			if len(s.In("XShape").Dims) == 0 {
				return s.Errorf("XShape", "dims of X after a 0")
			}
			return inferTransposeGrad(s, s.In("XShape").Dims[1:])
		},
		Bind: opkit.BindFloats("Out@GRAD", bindTransposeGrad[float32], bindTransposeGrad[float64]),
	}
	ops.Register(transpose)
	ops.Register(gradient)

	transpose.Type, transpose.Outputs = "transpose", transpose.Outputs[:1]
	transpose.Gradient = ops.StandardGrad([]string{"X"}, nil, []string{"X"})
	gradient.Type, gradient.Doc = "transpose_grad", "The gradient of transpose: dX is dOut with the axes permuted back."
	gradient.Inputs = []ops.Slot{{Name: "X", Doc: "its elements are not read"}, gradient.Inputs[1]}
	gradient.Infer = func(s *ops.Shapes) error { return inferTransposeGrad(s, s.In("X").Dims) }
	ops.Register(transpose)
	ops.Register(gradient)
}

// permutation reads the attribute axis for a tensor of a rank.
func permutation(s *ops.Shapes, rank int) ([]int64, error) {
	axes := s.Ints("axis")
	seen := make([]bool, rank)
	for _, axis := range axes {
		if axis < 0 || axis >= int64(rank) || seen[axis] {
			return nil, opkit.BadAttr(s, "axis", "a permutation of 0 to %d", rank-1)
		}
		seen[axis] = true
	}
	if len(axes) != rank {
		return nil, opkit.BadAttr(s, "axis", "a permutation of 0 to %d", rank-1)
	}
	return axes, nil
}

// permuted returns dims in the order of axes.
func permuted(dims, axes []int64) []int64 {
	out := make([]int64, len(axes))
	for i, axis := range axes {
		out[i] = dims[axis]
	}
	return out
}

func inferTranspose(s *ops.Shapes) error {
	x := s.In("X")
	axes, err := permutation(s, len(x.Dims))
	if err != nil {
		return err
	}
	s.Set("Out", x.DType, permuted(x.Dims, axes)...)
	setXShape(s)
	return nil
}

func inferTransposeGrad(s *ops.Shapes, x []int64) error {
	axes, err := permutation(s, len(x))
	if err != nil {
		return err
	}
	if !ops.Compatible(s.In("Out@GRAD").Dims, permuted(x, axes)) {
		return s.Errorf("Out@GRAD", "dims %v", permuted(x, axes))
	}
	s.Set("X@GRAD", s.In("Out@GRAD").DType, x...)
	return s.IsFloat("Out@GRAD")
}

func bindTranspose[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	return transposed[T](b, "X", "Out", ints(b.Ints("axis")))
}

func bindTransposeGrad[T tensor.Element](b *ops.Binding) (ops.Kernel, error) {
	axes := ints(b.Ints("axis"))
	back := make([]int, len(axes))
	for i := range axes {
		back[i] = slices.Index(axes, i)
	}
	return transposed[T](b, "Out@GRAD", "X@GRAD", back)
}

func transposed[T tensor.Element](b *ops.Binding, from, to string, axes []int) (ops.Kernel, error) {
	x, out := b.In(from), b.Out(to)
	plan := kernel.NewTransposePlan(ints(x.Dims()), axes)
	return b.Loops(ops.Loop{N: plan.Iterations(), Reads: []string{from}, Whole: []string{from}, Writes: []string{to},
		Run: func(_, first, last int) error {
			kernel.Transpose(&plan, tensor.Data[T](out), tensor.Data[T](x), first, last)
			return nil
		}})
}

// ints converts extents and axes for the plans of package kernel.
func ints(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}
