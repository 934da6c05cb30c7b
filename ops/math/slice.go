package math

import (
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
)

func init() {
	numbers := func(name, doc string) ops.Attr {
		title := map[string]string{"starts": "Starts", "ends": "Ends", "strides": "Strides"}[name]
		return ops.Attr{Name: name, Doc: doc, Default: []int32{}, Tensor: title + "Tensor", Tensors: title + "TensorList"}
	}
	slots := []ops.Slot{{Name: "Input", Doc: "any type"}, tensorOf("StartsTensor", "starts"), tensorOf("EndsTensor", "ends"),
		tensorsOf("StartsTensorList", "starts"), tensorsOf("EndsTensorList", "ends")}
	starts := numbers("starts", "where on each axis it begins; negative counts from the end")
	ends := numbers("ends", "where on each axis it ends, exclusive; negative counts from the end, and beyond the end means the end")
	axes := ops.Attr{Name: "axes", Doc: "axes that are cut; empty for the first ones", Default: []int32{}}
	others := []ops.Attr{
		{Name: "decrease_axis", Doc: "axes to remove from Out, of which one position is left", Default: []int32{}},
		{Name: "infer_flags", Doc: "not read: which values are known before a run, as Fluid found", Default: []int32{}}}

	slice := picking{slot: "Input", runs: sliceRuns(""), doc: "dInput is dOut where Out shows it, else 0."}
	slice.register(ops.Def{
		Type:      "slice",
		Doc:       "Cuts a part out of a tensor: on each of axes, the positions from starts to ends.",
		Inputs:    slots,
		Outputs:   out("Out", "of the type of Input"),
		Attrs:     slices.Concat([]ops.Attr{axes, starts, ends}, others),
		Infer:     inferSlice(""),
		MixesRows: sliceMixesRows(""),
	})
	slice.runs = sliceRuns("strides")
	slice.register(ops.Def{
		Type: "strided_slice",
		Doc: "Takes every strides-th position of each of axes, from starts to ends. A negative stride goes backwards, and then an end of -1 " +
			"is the place before the first position.",
		Inputs:  append(slots, tensorOf("StridesTensor", "strides"), tensorsOf("StridesTensorList", "strides")),
		Outputs: out("Out", "of the type of Input"),
		Attrs: slices.Concat([]ops.Attr{axes, starts, ends, numbers("strides", "steps, other than 0")},
			others),
		Infer:     inferSlice("strides"),
		MixesRows: sliceMixesRows("strides"),
	})
}

// A span is what is left of an axis: n positions from a first one on. n is program.Unknown where it is open.
type span struct{ from, n, step int64 }

// sliceSpans returns the span of every axis of x. strides names the attribute with steps, "" for steps of 1.
func sliceSpans(a attributes, strides string, x []int64) ([]span, error) {
	axes, starts, ends := a.Ints("axes"), a.Ints("starts"), a.Ints("ends")
	if len(axes) == 0 {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	steps := slices.Repeat([]int64{1}, len(axes))
	if strides != "" {
		steps = a.Ints(strides)
	}
	for name, list := range opkit.InOrder(map[string][]int64{"starts": starts, "ends": ends, strides: steps}) {
		if len(list) != len(axes) {
			return nil, opkit.BadAttr(a, name, "%d numbers, one for each of axes", len(axes))
		}
	}
	spans := make([]span, len(x))
	for i, extent := range x {
		spans[i] = span{0, extent, 1}
	}
	seen := make([]bool, len(x))
	for i, axis := range axes {
		at, err := opkit.AxisAttr(a, "axes", axis, len(x))
		switch {
		case err != nil:
			return nil, err
		case seen[at]:
			return nil, opkit.BadAttr(a, "axes", "each axis once")
		case steps[i] == 0:
			return nil, opkit.BadAttr(a, strides, "numbers other than 0")
		}
		seen[at] = true
		end := ends[i]
		if starts[i] == -1 && end == 0 && (slices.Contains(a.Ints("decrease_axis"), int64(at))) {
			end = math.MaxInt64 // x[-1], as Fluid writes it
		}
		spans[at] = spanOf(x[at], starts[i], end, steps[i])
	}
	return spans, nil
}

// spanOf returns what is left of an axis of n positions. It follows NumPy, but for an end of -1 with a negative step.
func spanOf(n, start, end, step int64) span {
	if n == program.Unknown || start == ops.Open || end == ops.Open || step == ops.Open {
		return span{0, program.Unknown, 1}
	}
	if start < 0 {
		start += n
	}
	if end < 0 && (step > 0 || end != -1) {
		end += n
	}
	if step > 0 {
		start, end = min(max(start, 0), n), min(max(end, 0), n)
		if start >= end {
			return span{0, 0, 1}
		}
		return span{start, (end-start-1)/step + 1, step}
	}
	start, end = min(max(start, -1), n-1), min(max(end, -1), n-1)
	if start <= end {
		return span{0, 0, 1}
	}
	if step < -n {
		step = -max(n, 1) // one position, and no overflow below
	}
	return span{start, (start-end-1)/-step + 1, step}
}

func inferSlice(strides string) func(*ops.Shapes) error {
	return func(s *ops.Shapes) error {
		x := s.In("Input")
		spans, err := sliceSpans(s, strides, x.Dims)
		if err != nil {
			return err
		}
		dims := []int64{}
		decrease := make([]bool, len(x.Dims))
		for _, axis := range s.Ints("decrease_axis") {
			at, err := opkit.AxisAttr(s, "decrease_axis", axis, len(x.Dims))
			if err != nil {
				return err
			}
			if !opkit.Agree(spans[at].n, 1) {
				return opkit.BadAttr(s, "decrease_axis", "axes of which one position is left, not %d of axis %d", spans[at].n, at)
			}
			decrease[at] = true
		}
		for i, v := range spans {
			if !decrease[i] {
				dims = append(dims, v.n)
			}
		}
		if len(dims) == 0 && len(x.Dims) > 0 {
			dims = []int64{1}
		}
		s.Set("Out", x.DType, dims...)
		if len(spans) > 0 && !decrease[0] && !cutsRows(s, strides) {
			s.ShareLoD("Out", "Input")
		}
		return nil
	}
}

// cutsRows reports whether axis 0 is cut, even if that leaves all rows of the batch at hand. An end of ops.WholeAxis or more cuts no batch.
func cutsRows(s *ops.Shapes, strides string) bool {
	rank := int64(len(s.In("Input").Dims))
	axes, starts, ends := s.Ints("axes"), s.Ints("starts"), s.Ints("ends")
	if len(axes) == 0 && len(starts) > 0 {
		axes = []int64{0}
	}
	for i, axis := range axes {
		if axis != 0 && axis != -rank {
			continue
		}
		return starts[i] != 0 || ends[i] < ops.WholeAxis || strides != "" && s.Ints(strides)[i] != 1
	}
	return false
}

func sliceMixesRows(strides string) opkit.Mixing {
	return func(s *ops.Shapes, _ func(string) bool) bool {
		decrease := s.Ints("decrease_axis")
		return len(s.In("Input").Dims) == 0 || cutsRows(s, strides) || slices.Contains(decrease, 0) ||
			slices.Contains(decrease, -int64(len(s.In("Input").Dims)))
	}
}

func sliceRuns(strides string) func(b *ops.Binding, x, out []int64) ([]int64, [][]kernel.Run) {
	return func(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
		spans, _ := sliceSpans(b, strides, x)
		axes := make([][]kernel.Run, len(spans))
		for i, v := range spans {
			axes[i] = []kernel.Run{{From: int(v.from), N: int(v.n), Step: int(v.step)}}
		}
		return x, axes
	}
}
