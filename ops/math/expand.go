package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Two families repeat a tensor. expand and tile say how often each axis is repeated. expand_v2 and the ops that take their dims from another tensor
// say what extent each axis shall have, and repeat only extents of 1.

func init() {
	repeat := picking{runs: expandRuns, doc: "dX sums dOut over the repetitions."}
	repeat.register(ops.Def{
		Type:    "expand",
		Doc:     "Repeats a tensor along its axes: axis i has expand_times[i] copies of X one after the other.",
		Inputs:  append(in("X", "any type"), tensorOf("ExpandTimes", "expand_times"), tensorsOf("expand_times_tensor", "expand_times")),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{{Name: "expand_times", Doc: "copies along each axis of X, at least 1", Default: []int32{}, Tensor: "ExpandTimes",
			Tensors: "expand_times_tensor"}},
		Infer: func(s *ops.Shapes) error {
			if len(s.Ints("expand_times")) != len(s.In("X").Dims) {
				return opkit.BadAttr(s, "expand_times", "%d numbers, one for each axis of X", len(s.In("X").Dims))
			}
			return inferRepeat(s, "expand_times")
		},
		MixesRows: repeatMixesRows,
	})
	repeat.register(ops.Def{
		Type: "tile",
		Doc: "Repeats a tensor along its axes: the last axis has as many copies of X one after the other as the last of repeat_times says, and so on " +
			"to the first. If X has fewer axes, it gets axes of extent 1 before.",
		Inputs:  append(in("X", "any type"), tensorOf("RepeatTimes", "repeat_times"), tensorsOf("repeat_times_tensor", "repeat_times")),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{{Name: "repeat_times", Doc: "copies along the last axes of Out, at least 1", Default: []int32{}, Tensor: "RepeatTimes",
			Tensors: "repeat_times_tensor"}},
		Infer:     func(s *ops.Shapes) error { return inferRepeat(s, "repeat_times") },
		MixesRows: repeatMixesRows,
	})
	repeat.register(ops.Def{
		Type:    "expand_v2",
		Doc:     "Gives a tensor the extents of shape: repeats axes of extent 1, and adds axes before the first.",
		Inputs:  append(in("X", "any type"), tensorOf("Shape", "shape"), tensorsOf("expand_shapes_tensor", "shape")),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{{Name: "shape", Doc: "extents of Out; -1 keeps that of X", Default: []int32{}, Tensor: "Shape",
			Tensors: "expand_shapes_tensor"}},
		Infer:     func(s *ops.Shapes) error { return inferExpand(s, "shape", s.Ints("shape")) },
		MixesRows: repeatMixesRows,
	})
	repeat.keep = []string{"Y"}
	repeat.register(ops.Def{
		Type:      "expand_as_v2",
		Doc:       "Gives a tensor the dims of another: repeats axes of extent 1, and adds axes before the first.",
		Inputs:    append(in("X", "any type"), ops.Slot{Name: "Y", Doc: "its dims are those of Out, its elements are not read", Dispensable: true}),
		Outputs:   out("Out", "of the type of X"),
		Attrs:     []ops.Attr{{Name: "target_shape", Doc: "dims of Out where there is no Y; -1 keeps the extent of X", Default: []int32{}}},
		Infer:     func(s *ops.Shapes) error { return inferExpandAs(s, "Y") },
		MixesRows: expandAsMixesRows,
	})
	repeat.keep = []string{"target_tensor"}
	repeat.register(ops.Def{
		Type:    "expand_as",
		Doc:     "Repeats a tensor along its axes until it has the dims of another.",
		Inputs:  append(in("X", "any type"), ops.Slot{Name: "target_tensor", Doc: "its dims are those of Out, each a multiple of the extent of X"}),
		Outputs: out("Out", "of the type of X"),
		Infer: func(s *ops.Shapes) error {
			x, to := s.In("X").Dims, s.In("target_tensor").Dims
			if len(x) != len(to) {
				return s.Errorf("target_tensor", "rank %d, that of X", len(x))
			}
			for i := range x {
				if x[i] >= 0 && to[i] >= 0 && (x[i] == 0 && to[i] > 0 || x[i] > 0 && to[i]%x[i] != 0) {
					return s.Errorf("target_tensor", "multiples of the extents of X %v", x)
				}
			}
			s.Set("Out", s.In("X").DType, to...)
			s.ShareLoD("Out", "target_tensor")
			return nil
		},
		MixesRows: expandAsMixesRows,
	})
}

// inferRepeat computes dims from the number of copies of the last axes.
func inferRepeat(s *ops.Shapes, attr string) error {
	times, x := s.Ints(attr), s.In("X").Dims
	if len(times) > tensor.MaxRank {
		return opkit.BadAttr(s, attr, "at most %d numbers", tensor.MaxRank)
	}
	rank := max(len(times), len(x))
	dims := slices.Concat(slices.Repeat([]int64{1}, rank-len(x)), x)
	times = slices.Concat(slices.Repeat([]int64{1}, rank-len(times)), times)
	kept := rank == len(x)
	for i, n := range times {
		switch {
		case n == ops.Open:
			dims[i] = program.Unknown
		case n < 1 || dims[i] > 0 && n > math.MaxInt64/dims[i]:
			return opkit.BadAttr(s, attr, "numbers from 1 on whose products with the extents of X %v do not overflow", x)
		case dims[i] >= 0:
			dims[i] *= n
		}
	}
	s.Set("Out", s.In("X").DType, dims...)
	if rank > 0 && kept && times[0] == 1 {
		s.ShareLoD("Out", "X")
	}
	return nil
}

// inferExpand computes dims from those that an attribute asks for.
func inferExpand(s *ops.Shapes, attr string, shape []int64) error {
	x := s.In("X").Dims
	added := len(shape) - len(x)
	if added < 0 || len(shape) > tensor.MaxRank {
		return opkit.BadAttr(s, attr, "%d to %d extents", len(x), tensor.MaxRank)
	}
	dims := slices.Clone(shape)
	for i, extent := range shape {
		var have int64 = 1
		if i >= added {
			have = x[i-added]
		}
		switch {
		case extent == ops.Open:
			dims[i] = program.Unknown
		case extent == -1 && i >= added:
			dims[i] = have
		case extent < 0 || have != 1 && !opkit.Agree(extent, have):
			return opkit.BadAttr(s, attr, "extents of at least 0, where X %v has an extent other than 1 that extent, and -1 to keep one", x)
		}
	}
	s.Set("Out", s.In("X").DType, dims...)
	if added == 0 && len(dims) > 0 && dims[0] == x[0] {
		s.ShareLoD("Out", "X")
	}
	return nil
}

func inferExpandAs(s *ops.Shapes, target string) error {
	if !s.Has(target) {
		return inferExpand(s, "target_shape", s.Ints("target_shape"))
	}
	x, to := s.In("X").Dims, s.In(target).Dims
	added := len(to) - len(x)
	if added < 0 {
		return s.Errorf(target, "rank %d or more, that of X", len(x))
	}
	for i, extent := range x {
		if extent != 1 && !opkit.Agree(extent, to[added+i]) {
			return s.Errorf(target, "the extents of X %v where they are not 1", x)
		}
	}
	s.Set("Out", s.In("X").DType, to...)
	s.ShareLoD("Out", target)
	return nil
}

// repeatMixesRows is true unless axis 0 of Out is that of X.
func repeatMixesRows(s *ops.Shapes, _ func(string) bool) bool {
	x, out := s.In("X").Dims, s.Outs("Out")[0].Dims
	if len(x) == 0 || len(x) != len(out) {
		return true
	}
	for _, name := range []string{"expand_times", "repeat_times"} {
		if times := s.Ints(name); len(times) == len(x) {
			return times[0] != 1
		}
	}
	if shape := s.Ints("shape"); len(shape) == len(x) {
		return shape[0] != -1 // the number of rows differs from trainer to trainer
	}
	return false
}

// expandAsMixesRows is false if the rows of X are those of the batch in Out too, or if X is equal for all of them.
func expandAsMixesRows(s *ops.Shapes, divided func(string) bool) bool {
	if to := s.Ints("target_shape"); !s.Has("Y") && (len(to) != len(s.In("X").Dims) || len(to) == 0 || to[0] != -1) {
		return true // a part of the rows would become as many as the whole
	}
	if !divided("X") {
		return false
	}
	x, out := s.In("X").Dims, s.Outs("Out")[0].Dims
	return len(x) == 0 || len(x) != len(out) || x[0] != out[0]
}

// expandRuns repeats each axis of x as often as it takes to fill that of out.
func expandRuns(_ *ops.Binding, x, out []int64) ([]int64, [][]kernel.Run) {
	dims := slices.Concat(slices.Repeat([]int64{1}, len(out)-len(x)), x)
	axes := make([][]kernel.Run, len(out))
	for i, extent := range dims {
		switch {
		case extent == 1:
			axes[i] = []kernel.Run{{From: 0, N: int(out[i]), Step: 0}}
			if out[i] == 1 {
				axes[i] = kernel.Whole(1)
			}
		default:
			axes[i] = slices.Repeat(kernel.Whole(int(extent)), int(out[i]/max(1, extent)))
		}
	}
	return dims, axes
}
