package math

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An elementwise op is RowSliced if Y has the dims of X, or one element. Any other Y does not have the shape of a parameter. The
// transpiler checks the dims.

func init() {
	opkit.Register(elementwise("elementwise_add", "X + Y, of truth values X or Y", opkit.BindElements("X",
		bindAdd(kernel.Add[float32]), bindAdd(kernel.Add[float64]), bindElementwise(kernel.Add[int32]), bindElementwise(kernel.Add[int64]), bindPairs(kernel.LogicalOr))),
		elementwiseGradient("dX = dOut, dY = dOut summed over the axes that Y does not have.", []string{"Y"}, nil,
			bindElementwiseGrad(true, kernel.AddGrad[float32], kernel.AddGradChannels[float32]),
			bindElementwiseGrad(true, kernel.AddGrad[float64], kernel.AddGradChannels[float64])))
	opkit.Register(elementwise("elementwise_sub", "X - Y", opkit.BindNumbers("X",
		bindElementwise(kernel.Sub[float32]), bindElementwise(kernel.Sub[float64]), bindElementwise(kernel.Sub[int32]),
		bindElementwise(kernel.Sub[int64]))),
		elementwiseGradient("dX = dOut, dY = -dOut summed over the axes that Y does not have.", []string{"Y"}, nil,
			bindElementwiseGrad(true, kernel.SubGrad[float32], nil), bindElementwiseGrad(true, kernel.SubGrad[float64], nil)))
	opkit.Register(multiply(),
		elementwiseGradient("dX = dOut*Y, dY = dOut*X summed over the axes that Y does not have.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.MulGrad[float32], nil), bindElementwiseGrad(false, kernel.MulGrad[float64], nil)))
	opkit.Register(elementwise("elementwise_div", "X / Y; for integers truncated, and 0 where Y is 0", opkit.BindNumbers("X",
		bindElementwise(kernel.Div[float32]), bindElementwise(kernel.Div[float64]), bindElementwise(kernel.Div[int32]),
		bindElementwise(kernel.Div[int64]))),
		elementwiseGradient("dX = dOut/Y, dY = -dOut*Out/Y summed over the axes that Y does not have.", []string{"Y"}, []string{"Out"},
			bindElementwiseGrad(false, kernel.DivGrad[float32], nil), bindElementwiseGrad(false, kernel.DivGrad[float64], nil)))
	opkit.Register(elementwise("elementwise_max", "max(X, Y)", opkit.BindNumbers("X",
		bindElementwise(kernel.Max[float32]), bindElementwise(kernel.Max[float64]), bindElementwise(kernel.Max[int32]),
		bindElementwise(kernel.Max[int64]))),
		elementwiseGradient("dOut goes to dX where X > Y, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.MaxGrad[float32], nil), bindElementwiseGrad(false, kernel.MaxGrad[float64], nil)))
	opkit.Register(elementwise("elementwise_min", "min(X, Y)", opkit.BindNumbers("X",
		bindElementwise(kernel.Min[float32]), bindElementwise(kernel.Min[float64]), bindElementwise(kernel.Min[int32]),
		bindElementwise(kernel.Min[int64]))),
		elementwiseGradient("dOut goes to dX where X < Y, else to dY.", []string{"X", "Y"}, nil,
			bindElementwiseGrad(false, kernel.MinGrad[float32], nil), bindElementwiseGrad(false, kernel.MinGrad[float64], nil)))

	pow := elementwise("elementwise_pow", "X**Y; of integers 0 where Y is negative, but for an X of 1 or -1", opkit.BindNumbers("X", bindElementwise(kernel.Pow[float32]),
		bindElementwise(kernel.Pow[float64]), bindElementwise(kernel.PowWhole[int32]), bindElementwise(kernel.PowWhole[int64])))
	opkit.Register(pow, elementwiseGradient("dX = dOut*Y*X**(Y - 1), dY = dOut*log(X)*X**Y, 0 where X is 0, summed over the axes that Y does not have.",
		[]string{"X", "Y"}, nil, bindElementwiseGrad(false, kernel.PowGrad[float32], nil), bindElementwiseGrad(false, kernel.PowGrad[float64], nil)))
	ops.Register(elementwise("elementwise_mod", "X - Y*floor(X/Y), which has the sign of Y; for integers 0 where Y is 0. No gradient flows through it", opkit.BindNumbers("X",
		bindElementwise(kernel.Mod[float32]), bindElementwise(kernel.Mod[float64]), bindElementwise(kernel.Mod[int32]), bindElementwise(kernel.Mod[int64]))))
	ops.Register(elementwise("elementwise_floordiv", "X/Y towards zero; for integers 0 where Y is 0. No gradient flows through it", opkit.BindNumbers("X",
		bindElementwise(kernel.Quotient[float32]), bindElementwise(kernel.Quotient[float64]), bindElementwise(kernel.Div[int32]), bindElementwise(kernel.Div[int64]))))
}

func elementwise(name, formula string, binder opkit.Binder) ops.Def {
	return ops.Def{
		Type:      name,
		Doc:       "Combines each element of X with the aligned element of Y: Out = " + formula + ".",
		Inputs:    []ops.Slot{{Name: "X", Doc: "numbers"}, {Name: "Y", Doc: "of the type of X; its dims are adjacent dims of X, or extents of 1 of both are repeated"}},
		Outputs:   out("Out", "of the type of X"),
		Attrs:     []ops.Attr{axisAttr},
		Infer:     inferElementwise,
		Cost:      opkit.PerElement(1),
		Bind:      binder,
		RowSliced: true,
		InPlace:   map[string]string{"Out": "X"},
		MixesRows: broadcastMixesRows,
	}
}

// multiply is elementwise_mul, which also multiplies a sparse X by one number.
func multiply() ops.Def {
	def := elementwise("elementwise_mul", "X * Y, of truth values X and Y", opkit.BindElements("X", bindMultiply(kernel.Mul[float32]), bindMultiply(kernel.Mul[float64]),
		bindElementwise(kernel.Mul[int32]), bindElementwise(kernel.Mul[int64]), bindPairs(kernel.LogicalAnd)))
	def.Doc += " A sparse X is multiplied by a Y of one element. The values of a row are summed first."
	def.Inputs[0].Rows, def.Outputs[0].Rows = true, true
	def.Infer = func(s *ops.Shapes) error {
		if s.In("X").Kind != program.SelectedRows {
			return inferElementwise(s)
		}
		if n := ops.Product(s.In("Y").Dims); n != 1 && n != program.Unknown {
			return s.Errorf("Y", "one element, for a sparse X")
		}
		s.Like("Out", "X")
		if err := s.SameType("X", "Y"); err != nil {
			return err
		}
		return s.IsFloat("X")
	}
	return def
}

func bindMultiply[T tensor.Float](f func(out, x, y []T, pre, n, post int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if !b.In("X").IsSelected() {
			return bindElementwise(f)(b)
		}
		y := b.In("Y")
		return limitRows(b, func(out, values []T) { f(out, values, tensor.Data[T](y), 1, 1, len(values)) })
	}
}

func inferElementwise(s *ops.Shapes) error {
	truth := s.Op().Type == "elementwise_add" || s.Op().Type == "elementwise_mul"
	if err := opkit.CheckType(s, "X", truth || s.In("X").DType != tensor.Bool, "numbers"); err != nil {
		return err
	}
	return inferBroadcast(s)
}

func elementwiseGradient(doc string, inputs, outputs []string, f32, f64 opkit.Binder) opkit.Gradient {
	g := opkit.Gradient{
		Doc: doc, Inputs: inputs, Outputs: outputs, Wrt: []string{"X", "Y"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(2),
		Bind:    opkit.BindFloats("Out@GRAD", f32, f64),
	}
	if inputs[0] != "X" {
		g.Inputs = append([]string{"X"}, inputs...)
		g.StandIn = map[string]string{"X": "Out@GRAD"}
		g.Spares = func(grad *ops.Grad, slot string) bool { // X is read only for its dims, where they are not those of Out
			return slot == "X" && slices.Equal(grad.Dims(grad.In("X")), grad.Dims(grad.Out("Out")))
		}
	}
	return g
}

func bindElementwise[T kernel.Number](f func(out, x, y []T, pre, n, post int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if p := broadcastOf(b, b.In("X").Dims(), b.In("Y").Dims()); p != nil {
			return bindBroadcast(b, p, func(out, x, y []T) { f(out, x, y, 1, len(out), 1) })
		}
		return b.Loops(elementwiseLoop(b, f))
	}
}

// bindAdd is bindElementwise for an addition, which may add a bias.
func bindAdd[T tensor.Float](f func(out, x, y []T, pre, n, post int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if broadcastOf(b, b.In("X").Dims(), b.In("Y").Dims()) != nil {
			return bindElementwise(f)(b)
		}
		l := elementwiseLoop(b, f)
		l.Epilogue = &ops.Epilogue{Of: "X", Out: b.Out("Out"), Bias: b.In("Y")}
		l.Epilogue.Pre, l.Epilogue.N, l.Epilogue.Post = layout(b, b.In("X").Dims(), b.In("Y").Dims())
		return b.Loops(l)
	}
}

func elementwiseLoop[T kernel.Number](b *ops.Binding, f func(out, x, y []T, pre, n, post int)) ops.Loop {
	x, y, to := b.In("X"), b.In("Y"), b.Out("Out")
	pre, n, post := layout(b, x.Dims(), y.Dims())
	r := rangesOf(pre, n, post)
	return ops.Loop{N: r.n, Whole: r.whole(), Run: func(_, from, till int) error {
		a, c, e := r.extents(from, till, pre, n, post)
		f(opkit.Owned[T](to, from, till, r.n), opkit.Owned[T](x, from, till, r.n), ofY[T](r, y, from, till), a, c, e)
		return nil
	}}
}

// bindElementwiseGrad binds a gradient. copies says that dX = dOut. channels computes a range of dY; it may be nil.
func bindElementwiseGrad[T tensor.Float](copies bool, f func(dx, dy, x, y, out, dout []T, pre, n, post int),
	channels func(dy, dout []T, pre, n, post, from, to int)) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		x, y, to, dout := b.In("X"), b.In("Y"), b.In("Out"), b.In("Out@GRAD")
		dx, dy := b.Out("X@GRAD"), b.Out("Y@GRAD")
		given := dout // has the dims of X, where the gradient does not get X
		if x != nil {
			given = x
		}
		if p := broadcastOf(b, given.Dims(), y.Dims()); p != nil {
			return bindBroadcastGrad(b, p, f)
		}
		pre, n, post := layout(b, dout.Dims(), y.Dims())
		r := rangesOf(pre, n, post)
		run := func(dx, dy *tensor.Tensor) func(int, int, int) error {
			return func(_, from, till int) error {
				a, c, e := r.extents(from, till, pre, n, post)
				f(opkit.Owned[T](dx, from, till, r.n), ofY[T](r, dy, from, till), opkit.Owned[T](x, from, till, r.n), ofY[T](r, y, from, till),
					opkit.Owned[T](to, from, till, r.n), opkit.Owned[T](dout, from, till, r.n), a, c, e)
				return nil
			}
		}
		loops := make([]ops.Loop, 0, 2)
		switch {
		case r.byY && !copies:
			return b.Loops(ops.Loop{N: r.n, Run: run(dx, dy)})
		case dy != nil && r.byY:
			loops = append(loops, ops.Loop{N: r.n, Writes: []string{"Y@GRAD"}, Run: run(nil, dy)})
		case dy != nil && channels != nil:
			loops = append(loops, ops.Loop{N: n, Apart: true, Reads: []string{"Out@GRAD"}, Whole: []string{"Out@GRAD"}, Writes: []string{"Y@GRAD"},
				Run: func(_, from, to int) error {
					channels(tensor.Data[T](dy), tensor.Data[T](dout), pre, n, post, from, to)
					return nil
				}})
		case dy != nil:
			loops = append(loops, ops.Loop{N: 1, Writes: []string{"Y@GRAD"}, Run: func(int, int, int) error {
				f(nil, tensor.Data[T](dy), opkit.Data[T](x), tensor.Data[T](y), opkit.Data[T](to), tensor.Data[T](dout), pre, n, post)
				return nil
			}})
		}
		switch {
		case dx != nil && copies:
			loops = append(loops, copyLoop[T]("Out@GRAD", "X@GRAD", dout, dx))
		case dx != nil:
			loops = append(loops, ops.Loop{N: r.n, Whole: r.whole(), Writes: []string{"X@GRAD"}, Run: run(dx, nil)})
		}
		return b.Loops(loops...)
	}
}

// Fluid's broadcasting aligns Y with adjacent axes of X. The attribute axis names the first of them; -1 aligns the last axes of both.
// Trailing extents of 1 in Y do not count, so a Y of one element is aligned with no axis. So X can be seen as [pre, n, post] and
// Y as [n].

var axisAttr = ops.Attr{Name: "axis", Doc: "axis of X where Y begins; -1 aligns Y with the last axes", Default: int32(-1)}

// coveredAxes returns the axes [first, last) of X that Y is aligned with. ok is false if Y does not fit there.
func coveredAxes(x, y []int64, axis int64) (first, last int, ok bool) {
	if len(y) > len(x) || axis < -1 || axis > int64(len(x)) {
		return 0, 0, false
	}
	if axis == -1 {
		axis = int64(len(x) - len(y))
	}
	for len(y) > 0 && y[len(y)-1] == 1 {
		y = y[:len(y)-1]
	}
	if len(y) == 0 {
		return 0, 0, true
	}
	first, last = int(axis), int(axis)+len(y)
	return first, last, last <= len(x) && ops.Compatible(x[first:last], y)
}

// layout returns X as [pre, n, post] and Y as [n]. For an X without elements pre is 0.
func layout(b *ops.Binding, x, y []int64) (pre, n, post int) {
	first, last, _ := coveredAxes(x, y, b.Int("axis"))
	if opkit.Count(x) == 0 {
		return 0, opkit.Count(x[first:last]), 0
	}
	return opkit.Count(x[:first]), opkit.Count(x[first:last]), opkit.Count(x[last:])
}

// ranges says how a loop over [pre, n, post] is divided. Either ranges divide Y, and each has its part of Y. Or they divide an axis that Y does not
// have, and each needs all of Y.
type ranges struct {
	n   int // iterations
	byY bool
}

func rangesOf(pre, n, post int) ranges {
	switch {
	case pre != 1:
		return ranges{n: pre}
	case n == 1 && post != 1:
		return ranges{n: post}
	}
	return ranges{n: n, byY: true}
}

// whole names the inputs that every range needs as a whole.
func (r ranges) whole() []string {
	if r.byY {
		return nil
	}
	return []string{"Y"}
}

// extents returns what a range sees of [pre, n, post].
func (r ranges) extents(from, to, pre, n, post int) (int, int, int) {
	switch {
	case pre != 1:
		return to - from, n, post
	case r.byY:
		return 1, to - from, post
	}
	return 1, 1, to - from
}

// ofY returns what a range needs of Y, or of its gradient.
func ofY[T tensor.Element](r ranges, y *tensor.Tensor, from, to int) []T {
	if r.byY {
		return opkit.Owned[T](y, from, to, r.n)
	}
	return opkit.Data[T](y)
}
