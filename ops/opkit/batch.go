package opkit

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
)

// BatchAttrs are the attributes of an op whose Out has the batch of Input as one of its extents. The others stand in the attribute shape.
var BatchAttrs = []ops.Attr{
	{Name: "input_dim_idx", Doc: "axis of Input that holds the batch", Default: int32(0)},
	{Name: "output_dim_idx", Doc: "axis of Out that takes it", Default: int32(0)},
}

// BatchSizeLike returns the dims of Out of such an op.
func BatchSizeLike(s *ops.Shapes) ([]int64, error) {
	input, shape := s.In("Input").Dims, s.Ints("shape")
	from, to := s.Int("input_dim_idx"), s.Int("output_dim_idx")
	if from < 0 || from >= int64(len(input)) {
		return nil, BadAttr(s, "input_dim_idx", "an axis of Input, which has rank %d", len(input))
	}
	if to < 0 || to >= int64(len(shape)) {
		return nil, BadAttr(s, "output_dim_idx", "an axis of Out, which has rank %d", len(shape))
	}
	shape[to] = input[from]
	for i, extent := range shape {
		if extent < 0 && !(i == int(to) && extent == program.Unknown) {
			return nil, BadAttr(s, "shape", "extents of at least 0 but for axis %d", to)
		}
	}
	return shape, nil
}

// MixesBatch is the Mixing of such an op: rows stay rows only on axis 0 of both.
func MixesBatch(s *ops.Shapes, _ func(string) bool) bool {
	return s.Int("input_dim_idx") != 0 || s.Int("output_dim_idx") != 0
}
