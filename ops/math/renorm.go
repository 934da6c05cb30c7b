package math

import (
	"errors"
	"math"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func init() {
	positive := func(name string, valid func(float64) bool, want string) func(*program.Op) error {
		return func(op *program.Op) error {
			if v, ok := op.Float(name); ok && !valid(v) {
				return errors.New(want)
			}
			return nil
		}
	}
	opkit.Register(ops.Def{
		Type:    "renorm",
		Doc:     "Limits the p-norms of the parts of X along an axis: a part whose norm is above max_norm is multiplied by max_norm/norm.",
		Inputs:  in("X", "float, rank 1 or more"),
		Outputs: out("Out", "of the shape and type of X"),
		Attrs: []ops.Attr{
			{Name: "p", Doc: "which norm: (|X[0]|**p + |X[1]|**p + ...)**(1/p)", Kind: float32(0), Check: positive("p", func(v float64) bool { return v > 0 && !math.IsInf(v, 0) }, "a finite number above 0")},
			{Name: "axis", Doc: "the axis whose places are parts; negative counts from the end", Kind: int32(0)},
			{Name: "max_norm", Doc: "the largest norm", Kind: float32(0), Check: positive("max_norm", func(v float64) bool { return v >= 0 }, "a number of at least 0")}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			_, err := opkit.AxisAttr(s, "axis", s.Int("axis"), len(s.In("X").Dims))
			return err
		},
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool { return !opkit.MixesAlong("X", "axis")(s, divided) },
		Cost:      opkit.PerElement(20),
		Bind:      opkit.BindFloats("X", bindRenorm[float32], bindRenorm[float64]),
	}, opkit.Gradient{
		Doc: "dX = dOut in a part within max_norm, else dOut*max_norm/norm - X*|X|**(p-2)*max_norm/norm**(p+1) times the sum of dOut*X over the part.", Inputs: []string{"X"}, Wrt: []string{"X"},
		Cost: opkit.PerElement(40), Bind: opkit.BindFloats("X", bindRenormGrad[float32], bindRenormGrad[float64]),
	})
}

// renormOf describes the parts of X.
func renormOf(b *ops.Binding) (kernel.Renorm, int) {
	l := lanesAlong(b.In("X").Dims(), b.Int("axis"), false)
	return kernel.Renorm{Pre: l.pre, Extent: l.extent, Post: l.post, P: b.Float("p"), Most: b.Float("max_norm")}, l.extent
}

func bindRenorm[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, to := b.In("X"), b.Out("Out")
	r, parts := renormOf(b)
	return b.Loops(ops.Loop{N: parts, Apart: true, Run: func(_, from, till int) error {
		kernel.LimitNorms(tensor.Data[T](to), tensor.Data[T](x), r, from, till)
		return nil
	}})
}

func bindRenormGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, dout, dx := b.In("X"), b.In("Out@GRAD"), b.Out("X@GRAD")
	r, parts := renormOf(b)
	return b.Loops(ops.Loop{N: parts, Apart: true, Run: func(_, from, till int) error {
		kernel.LimitNormsGrad(tensor.Data[T](dx), tensor.Data[T](x), tensor.Data[T](dout), r, from, till)
		return nil
	}})
}
