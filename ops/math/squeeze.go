package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file keep the elements and their order, as reshape2 does, and compute the dims of Out from those of X. Fluid has two generations of each:
// the later one, whose name ends in 2, has an output XShape, so that its gradient need not keep X.

// A view is one such op.
type view struct {
	attrs []ops.Attr
	dims  func(s *ops.Shapes, x []int64) ([]int64, error) // of Out
	// mixes is the MixesRows of the op.
	mixes opkit.Mixing
}

func init() {
	squeeze := view{
		attrs: []ops.Attr{{Name: "axes", Default: []int32{},
			Doc: "axes to remove, where their extent is 1; negative counts from the end; empty for all axes of extent 1"}},
		dims: squeezed, mixes: squeezeMixesRows,
	}
	squeeze.register("squeeze", "Removes axes of extent 1.", false)
	squeeze.register("squeeze2", "Removes axes of extent 1.", true)

	unsqueeze := view{
		attrs: []ops.Attr{{Name: "axes", Default: []int32{},
			Doc: "where in Out each new axis stands, after those before it in the list; negative counts from the end of what Out is then"}},
		dims: unsqueezed, mixes: unsqueezeMixesRows,
	}
	unsqueeze.register("unsqueeze", "Inserts axes of extent 1.", false)
	unsqueeze.register("unsqueeze2", "Inserts axes of extent 1.", true)

	flatten := view{
		attrs: []ops.Attr{{Name: "axis", Doc: "how many axes of X become rows, 0 to the rank of X", Default: int32(1)}},
		dims:  flattened, mixes: opkit.MixesShape,
	}
	flatten.register("flatten", "Makes a matrix of X: its first axes become the rows, the others the columns.", false)
	flatten.register("flatten2", "Makes a matrix of X: its first axes become the rows, the others the columns.", true)

	view{
		attrs: []ops.Attr{{Name: "start_axis", Doc: "first axis to join; negative counts from the end", Default: int32(1)},
			{Name: "stop_axis", Doc: "last axis to join; negative counts from the end", Default: int32(1)}},
		dims: flattenedRange, mixes: opkit.MixesShape,
	}.register("flatten_contiguous_range", "Joins the axes start_axis to stop_axis to one.", true)
}

// register adds the op and its gradient. later says that it has an output XShape.
func (v view) register(name, doc string, later bool) {
	def := ops.Def{
		Type: name, Doc: doc,
		Inputs:   in("X", "any type"),
		Outputs:  []ops.Slot{{Name: "Out", Doc: "the elements of X"}, xShapeSlot},
		Attrs:    v.attrs,
		Infer:    v.infer,
		Gradient: ops.StandardGrad(nil, []string{"XShape"}, []string{"X"}),
		Bind:     bindCopy,
		InPlace:  map[string]string{"Out": "X"},

		MixesRows: v.mixes,
	}
	gradient := ops.Def{
		Type:    name + "_grad",
		Class:   ops.Backward,
		Doc:     "The gradient of " + name + ": dX is dOut with the dims of X.",
		Inputs:  []ops.Slot{{Name: "XShape", Doc: "dims of X after a 0"}, {Name: "Out@GRAD", Doc: "gradient of Out"}},
		Outputs: []ops.Slot{{Name: "X@GRAD", Doc: "gradient of X", Dispensable: true}},
		Attrs:   v.attrs,
		Infer:   inferReshapeGrad,
		Bind:    bindCopyOf("Out@GRAD", "X@GRAD"),
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
	}
	if !later {
		def.Outputs = def.Outputs[:1]
		def.Gradient = ops.StandardGrad([]string{"X"}, nil, []string{"X"})
		gradient.Inputs[0] = ops.Slot{Name: "X", Doc: "its elements are not read"}
		gradient.Infer = inferLikeX
	}
	if v.attrs[0].Name == "axes" {
		def = opkit.ByVariables(def, "axes")
	}
	ops.Register(def)
	ops.Register(gradient)
}

func (v view) infer(s *ops.Shapes) error {
	x := s.In("X")
	dims, err := v.dims(s, x.Dims)
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

// inferLikeX gives the gradient of a view the dims of X.
func inferLikeX(s *ops.Shapes) error {
	s.Like("X@GRAD", "X")
	if err := s.SameType("X", "Out@GRAD"); err != nil {
		return err
	}
	return sameCount(s, s.In("X").Dims)
}

// removedAxes returns which axes of x a squeeze removes. An axis that axes names stays if its extent is known and not 1, as in Paddle 2.
func removedAxes(s *ops.Shapes, x []int64) ([]bool, error) {
	removed, axes := make([]bool, len(x)), s.Ints("axes")
	for i, extent := range x {
		removed[i] = len(axes) == 0 && extent == 1
	}
	for _, axis := range axes {
		at, err := opkit.AxisAttr(s, "axes", axis, len(x))
		if err != nil {
			return nil, err
		}
		removed[at] = opkit.Agree(x[at], 1)
	}
	return removed, nil
}

func squeezed(s *ops.Shapes, x []int64) ([]int64, error) {
	removed, err := removedAxes(s, x)
	if err != nil {
		return nil, err
	}
	dims := []int64{}
	for i, extent := range x {
		if !removed[i] {
			dims = append(dims, extent)
		}
	}
	return dims, nil
}

// squeezeMixesRows is true if axis 0 goes, or would go from a batch of one row.
func squeezeMixesRows(s *ops.Shapes, _ func(string) bool) bool {
	x, axes := s.In("X").Dims, s.Ints("axes")
	if len(x) == 0 || len(axes) == 0 {
		return len(x) == 0 || x[0] == 1 || x[0] == program.Unknown
	}
	return slices.Contains(axes, 0) || slices.Contains(axes, -int64(len(x)))
}

func unsqueezed(s *ops.Shapes, x []int64) ([]int64, error) {
	dims, axes := slices.Clone(x), s.Ints("axes")
	if len(axes)+len(x) > tensor.MaxRank {
		return nil, opkit.BadAttr(s, "axes", "at most %d axes, for a rank of at most %d", tensor.MaxRank-len(x), tensor.MaxRank)
	}
	for _, axis := range axes {
		at, err := opkit.AxisAttr(s, "axes", axis, len(dims)+1)
		if err != nil {
			return nil, err
		}
		dims = slices.Insert(dims, at, 1)
	}
	return dims, nil
}

// unsqueezeMixesRows is true if a new axis stands before axis 0.
func unsqueezeMixesRows(s *ops.Shapes, _ func(string) bool) bool {
	rank := int64(len(s.In("X").Dims))
	for _, axis := range s.Ints("axes") {
		rank++
		if axis == 0 || axis == -rank {
			return true
		}
	}
	return rank == int64(len(s.Ints("axes"))) // X is one number
}

func flattened(s *ops.Shapes, x []int64) ([]int64, error) {
	axis := s.Int("axis")
	if axis < 0 || axis > int64(len(x)) {
		return nil, opkit.BadAttr(s, "axis", "0 to %d, the rank of X", len(x))
	}
	rows, columns := opkit.MatrixDims(x, int(axis))
	return []int64{rows, columns}, nil
}

func flattenedRange(s *ops.Shapes, x []int64) ([]int64, error) {
	if len(x) == 0 {
		return []int64{1}, nil
	}
	start, err := opkit.AxisAttr(s, "start_axis", s.Int("start_axis"), len(x))
	if err != nil {
		return nil, err
	}
	stop, err := opkit.AxisAttr(s, "stop_axis", s.Int("stop_axis"), len(x))
	if err != nil {
		return nil, err
	}
	if stop < start {
		return nil, opkit.BadAttr(s, "stop_axis", "an axis from start_axis on, which is %d", start)
	}
	return slices.Concat(x[:start], []int64{ops.Product(x[start : stop+1])}, x[stop+1:]), nil
}
