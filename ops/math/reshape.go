package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var reshapeAttr = ops.Attr{Name: "shape", Kind: []int32(nil),
	Doc: "extents of Out; 0 takes the extent of X on the same axis, and one -1 takes what remains"}

// xShapeSlot is the output by which reshape2 and transpose2 tell their gradients the dims of X.
var xShapeSlot = ops.Slot{Name: "XShape", Doc: "no elements; its dims are 0 and then those of X", Intermediate: true}

func init() {
	reshape := ops.Def{
		Type:     "reshape2",
		Doc:      "Gives the elements of X, in their order, other dims.",
		Inputs:   in("X", "any type"),
		Outputs:  []ops.Slot{{Name: "Out", Doc: "of the type of X, dims by shape"}, xShapeSlot},
		Attrs:    []ops.Attr{reshapeAttr},
		Infer:    inferReshape,
		Gradient: ops.StandardGrad(nil, []string{"XShape"}, []string{"X"}),
		Bind:     bindCopy,
		InPlace:  map[string]string{"Out": "X"},
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

	reshape.Type, reshape.Outputs = "reshape", reshape.Outputs[:1]
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

// reshaped applies the attribute shape to the dims of X. Extents that are copied by 0 cancel on both sides, so that an open
// or empty batch leaves the others certain.
func reshaped(s *ops.Shapes, x, shape []int64) ([]int64, error) {
	if len(shape) > tensor.MaxRank {
		return nil, opkit.BadAttr(s, "shape", "at most %d extents", tensor.MaxRank)
	}
	remaining, dims, open := slices.Clone(x), slices.Clone(shape), -1
	var fixed []int64
	for i, extent := range shape {
		switch {
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
