package math

import (
	"context"
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Fluid lays Y over adjacent axes of X. Since 1.8 it also repeats extents of 1 of both, and takes an X with fewer axes than Y. What does not have the form
// [pre, n, post] (see layout) goes through copies that have the dims of Out.

// layOver aligns the dims of X and Y. axis is where the shorter begins in the longer, -1 for the last axes of both. a and b are the dims of X and Y with an
// extent of 1 for each axis that lacks.
func layOver(x, y []int64, axis int64) (out, a, b []int64, ok bool) {
	rank := max(len(x), len(y))
	short := min(len(x), len(y))
	if axis < -1 || axis > int64(rank) {
		return nil, nil, nil, false
	}
	first := int(axis)
	if axis == -1 {
		first = rank - short
	}
	pad := func(dims []int64) []int64 {
		if len(dims) == rank && (len(dims) > short || first == 0) {
			return slices.Clone(dims)
		}
		for first+len(dims) > rank && len(dims) > 0 && dims[len(dims)-1] == 1 {
			dims = dims[:len(dims)-1]
		}
		if first+len(dims) > rank {
			ok = false
			return nil
		}
		return slices.Concat(ones(first), dims, ones(rank-first-len(dims)))
	}
	ok = true
	a, b = x, y
	if len(x) >= len(y) {
		a, b = slices.Clone(x), pad(y)
	} else {
		a = pad(x)
	}
	if !ok {
		return nil, nil, nil, false
	}
	out, ok = broadcastDims(a, b)
	return out, a, b, ok
}

// inferBroadcast checks that X and Y fit, and gives Out the type of X and the dims of both.
func inferBroadcast(s *ops.Shapes) error {
	if err := opkit.OneTypeSoFar(s, "X", "Y"); err != nil {
		return err
	}
	x, y := s.In("X").Dims, s.In("Y").Dims
	dims, a, _, ok := layOver(x, y, s.Int("axis"))
	if !ok {
		if axis := s.Int("axis"); axis >= 0 {
			return s.Errorf("Y", "dims equal to those of X %v from axis %d on, or 1", x, axis)
		}
		return s.Errorf("Y", "dims equal to the last dims of X %v, or 1", x)
	}
	m := s.In("X")
	if len(a) > 0 && len(x) < len(dims) || len(x) > 0 && x[0] == 1 && dims[0] != 1 {
		m = s.In("Y")
		m.DType = s.In("X").DType
	}
	m.Dims = dims
	s.SetAt("Out", 0, m)
	return nil
}

// broadcastMixesRows is the MixesRows of an op that broadcasts. If an operand covers axis 0 of Out, it has the rows of the batch, and else it is equal for
// all rows.
func broadcastMixesRows(s *ops.Shapes, divided func(slot string) bool) bool {
	out, a, b, ok := layOver(s.In("X").Dims, s.In("Y").Dims, s.Int("axis"))
	if !ok || len(out) == 0 {
		return true
	}
	covers := func(dims []int64) bool { return dims[0] != 1 || out[0] == 1 }
	x, y := covers(a), covers(b)
	if out[0] == 1 { // of a batch of one row, the axes that operands have tell
		x, y = len(s.In("X").Dims) == len(out), len(s.In("Y").Dims) == len(out)
		return !divided("X") && !divided("Y") || divided("X") && !x || divided("Y") && !y
	}
	return divided("X") != x || divided("Y") != y
}

// A broadcasting says how X and Y are copied to the dims of Out. A nil plan copies nothing.
type broadcasting struct {
	n    int // elements of Out
	x, y *kernel.PickPlan
}

// broadcastOf returns nil where X and Y have the form [pre, n, post] and [n].
func broadcastOf(b *ops.Binding, x, y []int64) *broadcasting {
	out, _, _, _ := layOver(x, y, b.Int("axis"))
	if _, _, ok := coveredAxes(x, y, b.Int("axis")); ok && slices.Equal(x, out) {
		return nil
	}
	return copiesOf(b, x, y)
}

// copiesOf plans copies of X and Y with the dims of Out, where they differ.
func copiesOf(b *ops.Binding, x, y []int64) *broadcasting {
	out, to, from, _ := layOver(x, y, b.Int("axis"))
	plan := func(dims []int64) *kernel.PickPlan {
		if slices.Equal(dims, out) {
			return nil
		}
		all, axes := expandRuns(b, dims, out)
		return kernel.NewPickPlan(ints(all), axes)
	}
	return &broadcasting{opkit.Count(out), plan(to), plan(from)}
}

// A spread operand is one with its copy, and its gradient with room for that of the copy.
type spreadOperand[T tensor.Element] struct {
	plan            *kernel.PickPlan
	given, copied   *tensor.Tensor
	gradient, whole *tensor.Tensor
}

func spreadOf[T tensor.Element](b *ops.Binding, n int, plan *kernel.PickPlan, slot string) spreadOperand[T] {
	o := spreadOperand[T]{plan: plan, given: b.In(slot), gradient: b.Out(program.GradName(slot))}
	o.copied, o.whole = o.given, o.gradient
	if plan != nil && o.given != nil {
		o.copied = b.Scratch(tensor.Of[T](), n)
	}
	if plan != nil && o.gradient != nil {
		o.whole = b.Scratch(tensor.Of[T](), n)
	}
	return o
}

// all returns the elements of the operand with the dims of Out, nil for an operand that is absent.
func (o *spreadOperand[T]) all() []T {
	if o.plan != nil && o.given != nil {
		var zero T
		n, _ := o.plan.Iterations()
		kernel.Pick(o.plan, tensor.Data[T](o.copied), tensor.Data[T](o.given), zero, 0, n)
	}
	return opkit.Data[T](o.copied)
}

// gatherSpread sums what the copy has as its gradient.
func gatherSpread[T tensor.Float](o *spreadOperand[T]) {
	if o.plan != nil && o.gradient != nil {
		n, _ := o.plan.Iterations()
		kernel.PickGrad(o.plan, tensor.Data[T](o.gradient), tensor.Data[T](o.whole), 0, n)
	}
}

// bindBroadcast binds f to copies of X and Y.
func bindBroadcast[T, To tensor.Element](b *ops.Binding, p *broadcasting, f func(out []To, x, y []T)) (ops.Kernel, error) {
	x, y, to := spreadOf[T](b, p.n, p.x, "X"), spreadOf[T](b, p.n, p.y, "Y"), b.Out("Out")
	return func(context.Context) error {
		f(tensor.Data[To](to), x.all(), y.all())
		return nil
	}, nil
}

// bindBroadcastGrad binds a gradient to copies.
func bindBroadcastGrad[T tensor.Float](b *ops.Binding, p *broadcasting, f func(dx, dy, x, y, out, dout []T, pre, n, post int)) (ops.Kernel, error) {
	x, y := spreadOf[T](b, p.n, p.x, "X"), spreadOf[T](b, p.n, p.y, "Y")
	to, dout := b.In("Out"), b.In("Out@GRAD")
	return func(context.Context) error {
		f(opkit.Data[T](x.whole), opkit.Data[T](y.whole), x.all(), y.all(), opkit.Data[T](to), tensor.Data[T](dout), 1, p.n, 1)
		gatherSpread(&x)
		gatherSpread(&y)
		return nil
	}, nil
}
