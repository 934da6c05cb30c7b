package math

import (
	"errors"
	"math"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
)

func init() {
	valueOf := func(name string) ops.Attr {
		return ops.Attr{Name: name, Doc: "value of elements that are added", Default: float32(0)}
	}
	picking{fill: "pad_value", runs: func(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
		return padRuns(x, b.Ints("paddings"), "constant")
	}, doc: "dX is the part of dOut that shows X."}.register(opkit.ByVariables(ops.Def{
		Type:    "pad",
		Doc:     "Adds elements of one value around a tensor.",
		Inputs:  in("X", "any type"),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{{Name: "paddings", Kind: []int32(nil), Doc: "positions before and after X on each axis: two numbers for each, at least 0"},
			valueOf("pad_value")},
		Infer: func(s *ops.Shapes) error {
			for _, n := range s.Ints("paddings") {
				if n < 0 && n != ops.Open {
					return opkit.BadAttr(s, "paddings", "numbers from 0 on")
				}
			}
			return inferPad(s, s.Ints("paddings"), "constant")
		},
		MixesRows: func(s *ops.Shapes, _ func(string) bool) bool { return padsRows(s.In("X").Dims, s.Ints("paddings")) },
	}, "pad_value"))

	picking{fill: "pad_value", runs: func(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
		return padRuns(x, imagePaddings(b, 2), b.Str("mode"))
	}}.register(ops.Def{
		Type:    "pad2d",
		Doc:     "Adds rows and columns around images: of one value (constant), mirrored at the border (reflect), or those at the border again (edge).",
		Inputs:  append(in("X", "any type, rank 4"), tensorOf("Paddings", "paddings")),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{
			{Name: "paddings", Doc: "rows above and below, columns left and right; a negative number takes as many away", Default: []int32{0, 0, 0, 0}, Tensor: "Paddings"},
			{Name: "mode", Doc: "constant, reflect or edge", Default: "constant", Check: oneOf("mode", "constant", "reflect", "edge")},
			{Name: "data_format", Doc: "NCHW or NHWC: which axes are those of an image", Default: "NCHW", Check: oneOf("data_format", "NCHW", "NHWC")},
			valueOf("pad_value")},
		Infer: func(s *ops.Shapes) error { return inferImagePad(s, 2) },
	})
	picking{fill: "value", runs: func(b *ops.Binding, x, _ []int64) ([]int64, [][]kernel.Run) {
		return padRuns(x, imagePaddings(b, 3), b.Str("mode"))
	}}.register(ops.Def{
		Type: "pad3d",
		Doc: "Adds positions around volumes: of one value (constant), mirrored at the border (reflect), those at the border again (replicate), or " +
			"those from the other end (circular).",
		Inputs:  append(in("X", "any type, rank 5"), tensorOf("Paddings", "paddings")),
		Outputs: out("Out", "of the type of X"),
		Attrs: []ops.Attr{
			{Name: "paddings", Doc: "positions left, right, above, below, before and behind; a negative number takes as many away",
				Default: []int32{0, 0, 0, 0, 0, 0}, Tensor: "Paddings"},
			{Name: "mode", Doc: "constant, reflect, replicate or circular", Default: "constant",
				Check: oneOf("mode", "constant", "reflect", "replicate", "circular")},
			{Name: "data_format", Doc: "NCDHW or NDHWC: which axes are those of a volume", Default: "NCDHW",
				Check: oneOf("data_format", "NCDHW", "NDHWC")},
			valueOf("value")},
		Infer: func(s *ops.Shapes) error { return inferImagePad(s, 3) },
	})

	picking{slot: "Y", fill: "pad_value", keep: []string{"X"}, runs: func(_ *ops.Binding, y, out []int64) ([]int64, [][]kernel.Run) {
		paddings := make([]int64, 2*len(y))
		for i := range y {
			paddings[2*i+1] = out[i] - y[i]
		}
		return padRuns(y, paddings, "constant")
	}, doc: "dY is the part of dOut that shows Y."}.register(ops.Def{
		Type:    "pad_constant_like",
		Doc:     "Adds elements of one value after those of Y on each axis, until Y has the dims of X.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "its dims are those of Out, its elements are not read"}, {Name: "Y", Doc: "of the type of X, with no larger extents"}},
		Outputs: out("Out", "of the shape and type of X"),
		Attrs:   []ops.Attr{valueOf("pad_value")},
		Infer: func(s *ops.Shapes) error {
			x, y := s.In("X").Dims, s.In("Y").Dims
			if len(x) != len(y) {
				return s.Errorf("Y", "rank %d, that of X", len(x))
			}
			for i := range x {
				if x[i] >= 0 && y[i] > x[i] {
					return s.Errorf("Y", "no extent above that of X %v", x)
				}
			}
			s.Like("Out", "X")
			return s.SameType("X", "Y")
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return len(s.In("X").Dims) == 0 || s.In("X").Dims[0] != s.In("Y").Dims[0] || !divided("X") || !divided("Y")
		},
	})
}

// oneOf makes the check of an attribute with few values.
func oneOf(name string, values ...string) func(*program.Op) error {
	return func(op *program.Op) error {
		if v, _ := op.Str(name); slices.Contains(values, v) {
			return nil
		}
		return errors.New("one of " + joinWords(values))
	}
}

func joinWords(words []string) string {
	text := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			text += " and " + w
			continue
		}
		text += ", " + w
	}
	return text
}

// imagePaddings returns the paddings of all axes of images of some number of dimensions. Those of pad2d begin with the first dimension, those of pad3d
// with the last. An attribute that is not set yet, or of a wrong length, gives nil.
func imagePaddings(a attributes, dimensions int) []int64 {
	given := a.Ints("paddings")
	if len(given) != 2*dimensions {
		return nil
	}
	first := 2
	if format := a.Str("data_format"); format[len(format)-1] == 'C' {
		first = 1
	}
	all := make([]int64, 2*(dimensions+2))
	for i := range dimensions {
		axis := first + i
		if dimensions == 3 {
			axis = first + 2 - i
		}
		all[2*axis], all[2*axis+1] = given[2*i], given[2*i+1]
	}
	return all
}

func inferImagePad(s *ops.Shapes, dimensions int) error {
	if err := s.Rank("X", dimensions+2); err != nil {
		return err
	}
	paddings := imagePaddings(s, dimensions)
	if paddings == nil {
		return opkit.BadAttr(s, "paddings", "%d numbers", 2*dimensions)
	}
	return inferPad(s, paddings, s.Str("mode"))
}

// inferPad computes the dims of a padded X. A negative padding takes positions away, as in Fluid's pad2d and pad3d.
func inferPad(s *ops.Shapes, paddings []int64, mode string) error {
	m := s.In("X")
	x := m.Dims
	if len(paddings) != 2*len(x) {
		return opkit.BadAttr(s, "paddings", "%d numbers, two for each axis of X", 2*len(x))
	}
	m.Dims = slices.Clone(x)
	for i, extent := range x {
		before, after := paddings[2*i], paddings[2*i+1]
		switch {
		case before == ops.Open || after == ops.Open:
			m.Dims[i] = program.Unknown
			continue
		case max(before, after, extent) > math.MaxInt64/4 || min(before, after) < -math.MaxInt64/4:
			return opkit.BadAttr(s, "paddings", "numbers that do not overflow")
		case extent >= 0 && extent+before+after < 0:
			return opkit.BadAttr(s, "paddings", "at least %d together on axis %d, of which X has no more positions", -extent, i)
		case extent >= 0 && max(-before, 0)+max(-after, 0) > extent:
			return opkit.UnsupportedAttr(s, "paddings", "numbers that take away no position twice: pad first, then slice")
		case mode == "reflect" && extent >= 0 && (before > 0 || after > 0) && max(before, after) >= extent:
			return opkit.BadAttr(s, "paddings", "less than %d on axis %d, which is what there is to mirror", extent, i)
		case mode != "constant" && extent == 0 && (before > 0 || after > 0):
			return opkit.BadAttr(s, "paddings", "0 on axis %d, of which X has no position", i)
		case extent >= 0:
			m.Dims[i] = extent + before + after
		}
	}
	if padsRows(x, paddings) {
		m = m.WithoutLoD()
	}
	s.SetAt("Out", 0, m)
	return nil
}

// padsRows reports whether axis 0 gets other positions.
func padsRows(x, paddings []int64) bool {
	return len(x) == 0 || len(paddings) < 2 || paddings[0] != 0 || paddings[1] != 0
}

// padRuns returns the rule of a padding: two numbers for each axis.
func padRuns(x, paddings []int64, mode string) ([]int64, [][]kernel.Run) {
	axes := make([][]kernel.Run, len(x))
	for i, extent := range x {
		axes[i] = padded(int(extent), int(paddings[2*i]), int(paddings[2*i+1]), mode)
	}
	return x, axes
}

// padded returns the rule of an axis of n positions with some before and some after, or without some where these are negative.
func padded(n, before, after int, mode string) []kernel.Run {
	if before == 0 && after == 0 {
		return kernel.Whole(n)
	}
	from, more, behind := max(-before, 0), max(before, 0), max(after, 0)
	first, last := kernel.Run{From: kernel.Hole, N: more}, kernel.Run{From: kernel.Hole, N: behind}
	switch mode {
	case "reflect":
		first, last = kernel.Run{From: more, N: more, Step: -1}, kernel.Run{From: n - 2, N: behind, Step: -1}
	case "edge", "replicate":
		first, last = kernel.Run{From: 0, N: more}, kernel.Run{From: n - 1, N: behind}
	case "circular":
		var runs []kernel.Run
		for at, left := (n-before%n)%n, n+before+after; left > 0; at = 0 {
			some := min(left, n-at)
			runs = append(runs, kernel.Run{From: at, N: some, Step: 1})
			left -= some
		}
		return runs
	}
	runs := []kernel.Run{first, {From: from, N: n - from - max(-after, 0), Step: 1}, last}
	return slices.DeleteFunc(runs, func(r kernel.Run) bool { return r.N == 0 })
}
