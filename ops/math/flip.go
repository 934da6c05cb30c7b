package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
)

func init() {
	axes := ops.Attr{Name: "axis", Doc: "axes to turn around, each once; negative counts from the end", Kind: []int32(nil)}
	flip := picking{runs: flipRuns, doc: "dX is dOut turned around."}
	for _, name := range []string{"reverse", "flip"} {
		flip.register(opkit.ByVariables(ops.Def{
			Type:      name,
			Doc:       "Turns axes around: position i of such an axis shows position extent-1-i of X.",
			Inputs:    in("X", "any type"),
			Outputs:   out("Out", "of the shape and type of X"),
			Attrs:     []ops.Attr{axes},
			Infer:     inferFlip,
			MixesRows: opkit.MixesAlongAny("X", "axis"),
		}, "axis"))
	}
	picking{runs: rollRuns, doc: "dX is dOut moved back."}.register(ops.Def{
		Type: "roll",
		Doc: "Moves elements along axes; what leaves an axis at its end comes in at its beginning. Without axis, the elements move along the " +
			"tensor as one row.",
		Inputs:  append(in("X", "any type"), tensorOf("ShiftsTensor", "shifts")),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{{Name: "shifts", Doc: "positions to move by, for each of axis; negative moves to the beginning", Default: []int64{}, Tensor: "ShiftsTensor"},
			{Name: "axis", Doc: "axes to move along, each once; negative counts from the end", Default: []int64{}}},
		Infer: inferRoll,
		MixesRows: func(s *ops.Shapes, d func(string) bool) bool {
			return len(s.Ints("axis")) == 0 || opkit.MixesAlongAny("X", "axis")(s, d)
		},
	})
}

// checkAxes checks that an attribute lists axes of X, each once. It returns which ones.
func checkAxes(s *ops.Shapes, attr string) (listed []bool, err error) {
	x := s.In("X").Dims
	listed = make([]bool, len(x))
	for _, axis := range s.Ints(attr) {
		at, err := opkit.AxisAttr(s, attr, axis, len(x))
		switch {
		case err != nil:
			return nil, err
		case listed[at]:
			return nil, opkit.BadAttr(s, attr, "each axis once")
		}
		listed[at] = true
	}
	return listed, nil
}

// likeX gives Out the type of X, without sequences if axis 0 is one of those that the op changes.
func likeX(s *ops.Shapes, listed []bool) {
	m := s.In("X")
	if len(listed) > 0 && listed[0] {
		m = m.WithoutLoD()
	}
	s.SetAt("Out", 0, m)
}

func inferFlip(s *ops.Shapes) error {
	listed, err := checkAxes(s, "axis")
	if err != nil {
		return err
	}
	likeX(s, listed)
	return nil
}

func flipRuns(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
	axes := wholeAxes(x)
	for _, axis := range b.Ints("axis") {
		at := int(axis+int64(len(x))) % len(x)
		axes[at] = []kernel.Run{{From: int(x[at]) - 1, N: int(x[at]), Step: -1}}
	}
	return x, axes
}

// wholeAxes returns the rule that shows everything.
func wholeAxes(x []int64) [][]kernel.Run {
	axes := make([][]kernel.Run, len(x))
	for i, extent := range x {
		axes[i] = kernel.Whole(int(extent))
	}
	return axes
}

func inferRoll(s *ops.Shapes) error {
	listed, err := checkAxes(s, "axis")
	if err != nil {
		return err
	}
	want := len(s.Ints("axis"))
	if want == 0 {
		want, listed = 1, []bool{true}
	}
	if len(s.Ints("shifts")) != want {
		return opkit.BadAttr(s, "shifts", "%d numbers, one for each of axis, or one where there is no axis", want)
	}
	likeX(s, listed)
	return nil
}

func rollRuns(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
	axis := b.Ints("axis")
	if len(axis) == 0 {
		x, axis = []int64{int64(opkit.Count(x))}, []int64{0}
	}
	axes := wholeAxes(x)
	for i, shift := range b.Ints("shifts") {
		at := int(axis[i]+int64(len(x))) % len(x)
		n := int(x[at])
		if first := (n - int(shift%int64(n))) % n; first > 0 {
			axes[at] = []kernel.Run{{From: first, N: n - first, Step: 1}, {From: 0, N: first, Step: 1}}
		}
	}
	return x, axes
}

func init() {
	crop := picking{runs: cropRuns, doc: "dX is dOut where Out shows X, else 0."}
	offsets := ops.Attr{Name: "offsets", Doc: "where Out begins on each axis; empty for the beginning", Default: []int32{}, Tensor: "Offsets"}
	shape := ops.Attr{Name: "shape", Doc: "extents of Out; -1 for all from the offset on", Default: []int32{}}
	crop.keep = []string{"Y"}
	crop.register(ops.Def{
		Type:    "crop",
		Doc:     "Cuts a part of given dims out of a tensor.",
		Inputs:  append(in("X", "any type"), ops.Slot{Name: "Y", Doc: "its dims are those of Out, in place of shape", Dispensable: true}, tensorOf("Offsets", "offsets")),
		Outputs: out("Out", "of the type of X"),
		Attrs:   []ops.Attr{offsets, shape},
		Infer: func(s *ops.Shapes) error {
			if s.Has("Y") {
				return inferCrop(s, s.In("Y").Dims)
			}
			return inferCrop(s, s.Ints("shape"))
		},
		MixesRows: cropMixesRows,
	})
	offsets.Tensors, shape.Tensor, shape.Tensors = "OffsetsTensor", "Shape", "ShapeTensor"
	crop.keep = nil
	crop.register(ops.Def{
		Type: "crop_tensor",
		Doc:  "Cuts a part of given dims out of a tensor.",
		Inputs: append(in("X", "any type"), tensorOf("Shape", "shape"), tensorsOf("ShapeTensor", "shape"), tensorOf("Offsets", "offsets"),
			tensorsOf("OffsetsTensor", "offsets")),
		Outputs:   out("Out", "of the type of X"),
		Attrs:     []ops.Attr{offsets, shape},
		Infer:     func(s *ops.Shapes) error { return inferCrop(s, s.Ints("shape")) },
		MixesRows: cropMixesRows,
	})
}

// cropOffsets returns where the part begins on each axis.
func cropOffsets(a attributes, rank int) []int64 {
	if offsets := a.Ints("offsets"); len(offsets) > 0 {
		return offsets
	}
	return make([]int64, rank)
}

func inferCrop(s *ops.Shapes, shape []int64) error {
	x := s.In("X").Dims
	offsets := cropOffsets(s, len(x))
	switch {
	case len(offsets) != len(x):
		return opkit.BadAttr(s, "offsets", "%d numbers, one for each axis of X", len(x))
	case len(shape) != len(x):
		return opkit.BadAttr(s, "shape", "%d extents, one for each axis of X", len(x))
	}
	dims := slices.Clone(shape)
	for i, extent := range shape {
		from := offsets[i]
		switch {
		case extent == ops.Open || from == ops.Open || extent == -1 && x[i] < 0:
			dims[i] = -1
		case from < 0 || extent < -1 || x[i] >= 0 && from > x[i] || x[i] >= 0 && extent > x[i]-from:
			return opkit.BadAttr(s, "offsets", "numbers from 0 on with which shape %v lies within X %v", shape, x)
		case extent == -1:
			dims[i] = x[i] - from
		}
	}
	s.Set("Out", s.In("X").DType, dims...)
	if len(dims) > 0 && offsets[0] == 0 && dims[0] == x[0] {
		s.ShareLoD("Out", "X")
	}
	return nil
}

// cropMixesRows is true unless axis 0 stays whole for any number of rows.
func cropMixesRows(s *ops.Shapes, divided func(string) bool) bool {
	x, shape := s.In("X").Dims, s.Ints("shape")
	if len(x) == 0 || cropOffsets(s, len(x))[0] != 0 {
		return true
	}
	if s.Has("Y") {
		return divided("X") != divided("Y")
	}
	return len(shape) == 0 || shape[0] != -1
}

func cropRuns(b *ops.Binding, x, out []int64) ([]int64, [][]kernel.Run) {
	axes, offsets := make([][]kernel.Run, len(x)), cropOffsets(b, len(x))
	for i, extent := range out {
		axes[i] = []kernel.Run{{From: int(offsets[i]), N: int(extent), Step: 1}}
	}
	return x, axes
}
