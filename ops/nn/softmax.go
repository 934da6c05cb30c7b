package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

var classAxis = []ops.Attr{{Name: "axis", Doc: "the axis of classes; negative counts from the end", Default: int32(-1)}}

func init() {
	opkit.Register(ops.Def{
		Type:    "softmax",
		Doc:     "Turns an axis of X into probabilities: Out = exp(X - max(X)) / sum(exp(X - max(X))). An element of X counts as at most 64 less than the largest, as on CPUs in Fluid, so no probability is 0.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float; without dims it is one class"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   classAxis,
		Infer:   inferSoftmax,
		Cost:    opkit.PerElement(6),
		Bind:    opkit.BindFloats("X", bindSoftmax[float32], bindSoftmax[float64]),

		MixesRows: opkit.MixesAlong("X", "axis"),
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = Out*(dOut - sum(dOut*Out)), the sum over the axis.",
		Outputs: []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(4),
		Bind:    opkit.BindFloats("Out", bindSoftmaxGrad[float32], bindSoftmaxGrad[float64]),
	})
	opkit.Register(ops.Def{
		Type:    "log_softmax",
		Doc:     "The logarithms of the probabilities of an axis of X: Out = X - log(sum(exp(X))).",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float; without dims it is one class"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:   classAxis,
		Infer:   inferSoftmax,
		Cost:    opkit.PerElement(6),
		Bind:    opkit.BindFloats("X", bindLogSoftmax[float32], bindLogSoftmax[float64]),

		MixesRows: opkit.MixesAlong("X", "axis"),
	}, opkit.Gradient{
		Doc:     "dX = dOut - exp(Out)*sum(dOut), the sum over the axis.",
		Outputs: []string{"Out"},
		Wrt:     []string{"X"},
		StandIn: map[string]string{"X": "Out"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("Out", bindLogSoftmaxGrad[float32], bindLogSoftmaxGrad[float64]),
	})
}

func inferSoftmax(s *ops.Shapes) error {
	rank := max(1, len(s.In("X").Dims)) // a number is one class
	if _, err := opkit.AxisAttr(s, "axis", s.Int("axis"), rank); err != nil {
		return err
	}
	s.Like("Out", "X")
	return s.IsFloat("X")
}

// columns are the dims of a tensor around its axis of classes: rows parts of classes runs of inner elements.
type columns struct{ rows, classes, inner int }

func columnsOf(b *ops.Binding, dims []int64) columns {
	axis := int(b.Int("axis"))
	if len(dims) == 0 {
		return columns{1, 1, 1}
	}
	if axis < 0 {
		axis += len(dims)
	}
	return columns{opkit.Count(dims[:axis]), int(dims[axis]), opkit.Count(dims[axis+1:])}
}

// memory returns scratch memory for n columns of each part of a loop, nil where the axis is the last.
func memory[T tensor.Float](b *ops.Binding, c columns, n int) *tensor.Tensor {
	if c.inner == 1 {
		return nil
	}
	return b.Scratch(tensor.Of[T](), b.Parts()*n*c.classes)
}

func bindSoftmax[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	c := columnsOf(b, x.Dims())
	spare := memory[T](b, c, 1)
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, till int) error {
		out, in := opkit.Owned[T](to, from, till, c.rows), opkit.Owned[T](x, from, till, c.rows)
		if spare == nil {
			kernel.Softmax(out, in, till-from, c.classes)
			return nil
		}
		kernel.SoftmaxStrided(out, in, till-from, c.classes, c.inner, ops.Part(tensor.Data[T](spare), part, c.classes))
		return nil
	}})
}

func bindSoftmaxGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dout, dx := b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	c := columnsOf(b, y.Dims())
	spare := memory[T](b, c, 2)
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, to int) error {
		d, out, g := opkit.Owned[T](dx, from, to, c.rows), opkit.Owned[T](y, from, to, c.rows), opkit.Owned[T](dout, from, to, c.rows)
		if spare == nil {
			kernel.SoftmaxGrad(d, out, g, to-from, c.classes)
			return nil
		}
		m := ops.Part(tensor.Data[T](spare), part, 2*c.classes)
		kernel.SoftmaxStridedGrad(d, out, g, to-from, c.classes, c.inner, m[:c.classes], m[c.classes:])
		return nil
	}})
}

func bindLogSoftmax[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	c := columnsOf(b, x.Dims())
	spare := memory[T](b, c, 2)
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, till int) error {
		out, in := opkit.Owned[T](to, from, till, c.rows), opkit.Owned[T](x, from, till, c.rows)
		if spare == nil {
			kernel.LogSoftmax(out, in, till-from, c.classes)
			return nil
		}
		m := ops.Part(tensor.Data[T](spare), part, 2*c.classes)
		kernel.LogSoftmaxStrided(out, in, till-from, c.classes, c.inner, m[:c.classes], m[c.classes:])
		return nil
	}})
}

func bindLogSoftmaxGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	y, dout, dx := b.In("Out"), b.In("Out@GRAD"), b.Out("X@GRAD")
	c := columnsOf(b, y.Dims())
	spare := memory[T](b, c, 3)
	return b.Loops(ops.Loop{N: c.rows, Run: func(part, from, to int) error {
		d, out, g := opkit.Owned[T](dx, from, to, c.rows), opkit.Owned[T](y, from, to, c.rows), opkit.Owned[T](dout, from, to, c.rows)
		if spare == nil {
			kernel.LogSoftmaxGrad(d, out, g, to-from, c.classes)
			return nil
		}
		m := ops.Part(tensor.Data[T](spare), part, 3*c.classes)
		n := c.classes
		kernel.LogSoftmaxStridedGrad(d, out, g, to-from, n, c.inner, m[:n], m[n:2*n], m[2*n:])
		return nil
	}})
}
