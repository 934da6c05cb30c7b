package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var reshapeAttr = ops.Attr{Name: "shape", Kind: []int32(nil), Tensor: "Shape", Tensors: "ShapeTensor",
	Doc: "extents of Out; 0 takes the extent of X on the same axis, and one -1 takes what remains"}

// xShapeSlot is the output that tells the gradients of reshape2 and transpose2 the dims of X.
var xShapeSlot = ops.Slot{Name: "XShape", Doc: "no elements; its dims are 0 and then those of X", Intermediate: true}

func init() {
	reshape := ops.Def{
		Type:     "reshape2",
		Doc:      "Gives the elements of X, in their order, other dims.",
		Inputs:   append(in("X", "any type"), tensorOf("Shape", "shape"), tensorsOf("ShapeTensor", "shape")),
		Outputs:  []ops.Slot{{Name: "Out", Doc: "of the type of X, dims by shape"}, xShapeSlot},
		Attrs:    []ops.Attr{reshapeAttr},
		Infer:    inferReshape,
		Gradient: ops.StandardGrad(nil, []string{"XShape"}, []string{"X"}),
		Bind:     bindCopy,
		InPlace:  map[string]string{"Out": "X"},

		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			shape := s.Ints("shape")
			return (len(shape) == 0 || shape[0] != 0) && opkit.MixesShape(s, divided)
		},
	}
	ops.Register(reshape)
	ops.Register(ops.Def{
		Type:    "reshape2_grad",
		Class:   ops.Backward,
		Doc:     "The gradient of reshape2: dX is dOut with the dims of X.",
		Inputs:  []ops.Slot{{Name: "XShape", Doc: "dims of X after a 0"}, {Name: "Out@GRAD", Doc: "gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "gradient of X", Dispensable: true}},
		Attrs:   []ops.Attr{reshapeAttr},
		Infer:   inferReshapeGrad,
		Bind:    bindCopyOf("Out@GRAD", "X@GRAD"),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})

	reshape.Type, reshape.Outputs = "reshape", reshape.Outputs[:1:1]
	reshape.Gradient = ops.StandardGrad([]string{"X"}, nil, []string{"X"})
	ops.Register(reshape)
	ops.Register(ops.Def{
		Type:    "reshape_grad",
		Class:   ops.Backward,
		Doc:     "The gradient of reshape: dX is dOut with the dims of X.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "its elements are not read"}, {Name: "Out@GRAD", Doc: "gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "gradient of X", Dispensable: true}},
		Attrs:   []ops.Attr{reshapeAttr},
		Infer: func(s *ops.Shapes) error {
			s.Like("X@GRAD", "X")
			if err := s.SameType("X", "Out@GRAD"); err != nil {
				return err
			}
			return sameCount(s, s.In("X").Dims)
		},
		Bind:    bindCopyOf("Out@GRAD", "X@GRAD"),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	})
}

func inferReshape(s *ops.Shapes) error {
	x := s.In("X")
	dims, err := reshaped(s, x.Dims, s.Ints("shape"))
	if err != nil {
		return err
	}
	s.Set("Out", x.DType, dims...)
	if len(dims) > 0 && len(x.Dims) > 0 && dims[0] == x.Dims[0] {
		s.ShareLoD("Out", "X")
	}
	setXShape(s)
	return nil
}

// setXShape gives XShape the dims [0, X...].
func setXShape(s *ops.Shapes) {
	s.Set("XShape", s.In("X").DType, slices.Concat([]int64{0}, s.In("X").Dims)...)
}

// reshaped applies the attribute shape to the dims of X. Extents that a 0 copies cancel on both sides, so an open or empty batch leaves the others
// certain.
func reshaped(s *ops.Shapes, x, shape []int64) ([]int64, error) {
	if len(shape) > tensor.MaxRank {
		return nil, opkit.BadAttr(s, "shape", "at most %d extents", tensor.MaxRank)
	}
	remaining, dims, open := slices.Clone(x), slices.Clone(shape), -1
	var fixed []int64
	unknown := false
	for i, extent := range shape {
		switch {
		case extent == ops.Open:
			dims[i], unknown = program.Unknown, true
		case extent == 0 && i < len(x):
			dims[i], remaining[i] = x[i], 1
		case extent > 0:
			fixed = append(fixed, extent)
		case extent == -1 && open < 0:
			open = i
		default:
			return nil, opkit.BadAttr(s, "shape", "positive extents, 0 on axes of X %v, and at most one -1", x)
		}
	}
	have, known := ops.Product(remaining), ops.Product(fixed)
	switch {
	case unknown && open >= 0:
		dims[open] = program.Unknown
	case unknown:
	case known == program.Unknown:
		return nil, opkit.BadAttr(s, "shape", "extents whose product fits into memory")
	case open >= 0 && have == program.Unknown:
		dims[open] = program.Unknown
	case open >= 0 && have%known == 0:
		dims[open] = have / known
	case open >= 0 || !opkit.Agree(have, known):
		return nil, opkit.BadAttr(s, "shape", "as many elements as X %v", x)
	}
	return dims, nil
}

func inferReshapeGrad(s *ops.Shapes) error {
	shape := s.In("XShape").Dims
	if len(shape) == 0 {
		return s.Errorf("XShape", "dims of X after a 0")
	}
	s.Set("X@GRAD", s.In("Out@GRAD").DType, shape[1:]...)
	return sameCount(s, shape[1:])
}

// sameCount checks that Out@GRAD can hold as many elements as x.
func sameCount(s *ops.Shapes, x []int64) error {
	if !opkit.Agree(ops.Product(s.In("Out@GRAD").Dims), ops.Product(x)) {
		return s.Errorf("Out@GRAD", "as many elements as X %v", x)
	}
	return nil
}

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

		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool {
			axes := s.Ints("axis")
			return len(axes) == 0 || axes[0] != 0
		},
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
