package math

import (
	"context"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The squared norm is an exact sum that is rounded once, so the order of the elements does not matter. squared_l2_norm_partial on each
// slice and then squared_l2_norm_merge over all slices give the bits of
// squared_l2_norm on the whole.

func init() {
	opkit.Register(ops.Def{
		Type:    "squared_l2_norm",
		Doc:     "The exact sum of the squares of all elements, rounded once: Out[0] = sum(X*X). The values of a row of a sparse X are summed first.",
		Inputs:  rowsIn("X", "float"),
		Outputs: out("Out", "dims [1]"),
		Infer:   inferNumber,
		Cost:    opkit.PerElement(8),
		Bind:    opkit.BindFloats("X", bindSquaredNorm[float32], bindSquaredNorm[float64]),

		MixesRows: opkit.Mixes,
	}, opkit.Gradient{
		Doc:    "dX = 2*dOut[0]*X.",
		Inputs: []string{"X"},
		Wrt:    []string{"X"},
		Cost:   opkit.PerElement(1),
		Bind:   opkit.BindFloats("X", bindSquaredNormGrad[float32], bindSquaredNormGrad[float64]),
	})
	ops.Register(ops.Def{
		Type:    "squared_l2_norm_partial",
		Doc:     "The exact sum of the squares of a slice of a tensor, as digits for squared_l2_norm_merge.",
		Inputs:  rowsIn("X", "float"),
		Outputs: out("Out", "int64, as many words as an exact sum takes"),
		Infer: func(s *ops.Shapes) error {
			s.Set("Out", tensor.Int64, kernel.SquareSumWords)
			return s.IsFloat("X")
		},
		Cost: opkit.PerElement(8),
		Bind: opkit.BindFloats("X", bindSquaredNormPartial[float32], bindSquaredNormPartial[float64]),
	})
	ops.Register(ops.Def{
		Type:    "squared_l2_norm_merge",
		Doc:     "Adds exact sums of squares of slices and rounds once: the squared norm of the whole tensor.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "outputs of squared_l2_norm_partial", Duplicable: true}},
		Outputs: out("Out", "of type dtype, dims [1]"),
		Attrs:   []ops.Attr{dtypeAttr},
		Infer:   inferSquaredNormMerge,
		Bind:    opkit.BindFloats("Out", bindSquaredNormMerge[float32], bindSquaredNormMerge[float64]),
	})
}

// squareSum returns the exact sum of squares of x. words is scratch memory of kernel.SquareSumWords elements.
func squareSum[T tensor.Float](words []int64, x []T) float64 {
	clear(words)
	kernel.SquareSumAdd(words, x)
	return kernel.SquareSumValue(words)
}

func inferSquaredNormMerge(s *ops.Shapes) error {
	dtype, err := opkit.DTypeAttr(s, "dtype")
	if err != nil {
		return err
	}
	if !dtype.IsFloat() {
		return opkit.BadAttr(s, "dtype", "float32 5 or float64 6")
	}
	for _, m := range s.Ins("X") {
		if m.DType != tensor.Int64 || !ops.Compatible(m.Dims, []int64{kernel.SquareSumWords}) {
			return s.Errorf("X", "int64[%d]", kernel.SquareSumWords)
		}
	}
	s.Set("Out", dtype, 1)
	return nil
}

// elements returns the function that gets the elements of X: those of a sparse X are sums of rows.
func elements[T tensor.Float](b *ops.Binding) (func() []T, error) {
	x := b.In("X")
	if !x.IsSelected() {
		return func() []T { return tensor.Data[T](x) }, nil
	}
	m, err := bindMergedRows[T](b, x)
	if err != nil {
		return nil, err
	}
	return func() []T {
		_, values := m.merge()
		return values
	}, nil
}

func bindSquaredNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	x, err := elements[T](b)
	words := b.Scratch(tensor.Int64, kernel.SquareSumWords)
	return func(context.Context) error {
		tensor.Data[T](to)[0] = T(squareSum(words.Int64s(), x()))
		return nil
	}, err
}

func bindSquaredNormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	return func(context.Context) error {
		kernel.Scale(tensor.Data[T](dx), tensor.Data[T](x), 2*tensor.Data[T](dout)[0], 0, true)
		return nil
	}, nil
}

func bindSquaredNormPartial[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	to := b.Out("Out")
	x, err := elements[T](b)
	return func(context.Context) error {
		clear(to.Int64s())
		kernel.SquareSumAdd(to.Int64s(), x())
		return nil
	}, err
}

func bindSquaredNormMerge[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	parts, to := b.Ins("X"), b.Out("Out")
	words := b.Scratch(tensor.Int64, kernel.SquareSumWords)
	return func(context.Context) error {
		sum := words.Int64s()
		clear(sum)
		for _, part := range parts {
			kernel.SquareSumMerge(sum, part.Int64s())
		}
		tensor.Data[T](to)[0] = T(kernel.SquareSumValue(sum))
		return nil
	}, nil
}

func init() {
	opkit.Register(ops.Def{
		Type: "clip",
		Doc: "Limits each element: Out = min(max(X, min), max). A sparse X needs 0 in the range. The values of a row are summed first. For integers the bounds are truncated. " +
			"No gradient flows through the bounds.",
		Inputs:  append(rowsIn("X", "numbers"), tensorOf("Min", "min"), tensorOf("Max", "max")),
		Outputs: rowsOut("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "min", Doc: "least value, at most max", Kind: float32(0), Tensor: "Min"},
			{Name: "max", Doc: "greatest value", Kind: float32(0), Tensor: "Max"}},
		Infer:     inferClip,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindNumbers("X", bindClip[float32], bindClip[float64], clipWhole[int32], clipWhole[int64]),
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut where min < X < max, else 0.",
		Inputs:  []string{"X"},
		Wrt:     []string{"X"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("X", bindClipGrad[float32], bindClipGrad[float64]),
	})
	ops.Register(ops.Def{
		Type: "clip_by_norm",
		Doc: "Shortens a vector: Out = X*max_norm/norm(X) when the Euclidean norm of X is above max_norm, else X. No gradient " +
			"flows through it. The norm is that of squared_l2_norm. The values of a row of a sparse X are summed first.",
		Inputs:  rowsIn("X", "float"),
		Outputs: rowsOut("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{{Name: "max_norm", Doc: "greatest norm, above 0", Kind: float32(0)}},
		Infer:   inferClipByNorm,
		Cost:    opkit.PerElement(4),
		Bind:    opkit.BindFloats("X", bindClipByNorm[float32], bindClipByNorm[float64]),

		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{"Out": "X"},
	})
	ops.Register(ops.Def{
		Type:    "dgc_clip_by_norm",
		Doc:     "Works as clip_by_norm from step rampup_begin_step on, from which dgc compresses. Before, and always if that is below 0, Out = X.",
		Inputs:  append(rowsIn("X", "float"), ops.Slot{Name: "current_step", Doc: "float, number of the step, one element"}),
		Outputs: rowsOut("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "max_norm", Doc: "greatest norm, above 0", Kind: float32(0)},
			{Name: "rampup_begin_step", Doc: "the first step that clips", Default: float32(-1)}},
		Infer: func(s *ops.Shapes) error {
			if m := s.In("current_step"); !m.DType.IsFloat() || !ops.Compatible(m.Dims, []int64{1}) {
				return s.Errorf("current_step", "one number")
			}
			return inferClipByNorm(s)
		},
		Cost: opkit.PerElement(4),
		Bind: opkit.BindFloats("X", bindClipByNorm[float32], bindClipByNorm[float64]),

		MixesRows: opkit.Mixes,
		InPlace:   map[string]string{"Out": "X"},
	})
}

func inferClip(s *ops.Shapes) error {
	if !(s.Float("min") <= s.Float("max")) {
		return opkit.BadAttr(s, "min", "at most max = %v", s.Float("max"))
	}
	if s.In("X").Kind == program.SelectedRows && (s.Float("min") > 0 || s.Float("max") < 0) {
		return s.Errorf("X", "a dense tensor where 0 is not in [min, max]: rows that a sparse gradient does not hold are zeros")
	}
	if s.In("X").Kind == program.SelectedRows {
		s.Like("Out", "X")
		return s.IsFloat("X")
	}
	return inferNumbersLike(s)
}

func bindClip[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	low, high := T(b.Float("min")), T(b.Float("max"))
	if to.IsSelected() {
		return limitRows(b, func(out, values []T) { kernel.Clip(out, values, low, high) })
	}
	return func(context.Context) error {
		kernel.Clip(tensor.Data[T](to), tensor.Data[T](x), low, high)
		return nil
	}, nil
}

func bindClipGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	low, high := T(b.Float("min")), T(b.Float("max"))
	return func(context.Context) error {
		kernel.ClipGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](dout), low, high)
		return nil
	}, nil
}

func inferClipByNorm(s *ops.Shapes) error {
	if !(s.Float("max_norm") > 0) {
		return opkit.BadAttr(s, "max_norm", "a number above 0")
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

func bindClipByNorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to, most := b.In("X"), b.Out("Out"), b.Float("max_norm")
	words, begun := b.Scratch(tensor.Int64, kernel.SquareSumWords), clipsNow(b)
	shorten := func(out, from []T) {
		factor := T(1)
		if !begun() {
			copy(out, from)
			return
		}
		if norm := math.Sqrt(squareSum(words.Int64s(), from)); norm > most {
			factor = T(most / norm)
		}
		kernel.Scale(out, from, factor, 0, true)
	}
	if to.IsSelected() {
		return limitRows(b, shorten)
	}
	return func(context.Context) error {
		shorten(tensor.Data[T](to), tensor.Data[T](x))
		return nil
	}, nil
}

// clipsNow returns what says of a step whether it clips: clip_by_norm always does.
func clipsNow(b *ops.Binding) func() bool {
	step, begin := b.In("current_step"), math.Trunc(b.Float("rampup_begin_step"))
	switch {
	case step == nil:
		return func() bool { return true }
	case step.DType() == tensor.Float64:
		return func() bool { return begin >= 0 && math.Trunc(step.Float64s()[0]) >= begin }
	}
	return func() bool { return begin >= 0 && math.Trunc(float64(step.Float32s()[0])) >= begin }
}
