package nn

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/tensor"
)

func init() {
	opkit.Register(ops.Def{
		Type:   "affine_channel",
		Doc:    "Scales and shifts each channel: Out = X*Scale + Bias. It is batch_norm with frozen statistics that are part of Scale and Bias.",
		Inputs: []ops.Slot{{Name: "X", Doc: "float [N, C, ...], or [N, ..., C]"}, {Name: "Scale", Doc: "[C]"}, {Name: "Bias", Doc: "[C]"}},
		Outputs: []ops.Slot{
			{Name: "Out", Doc: "of the shape and type of X"}},
		Attrs:     []ops.Attr{dataFormatAttr("data_layout")},
		Infer:     inferAffineChannel,
		Cost:      opkit.PerElement(2),
		Bind:      opkit.BindFloats("X", bindAffineChannel[float32], bindAffineChannel[float64]),
		MixesRows: opkit.RowsOnlyIn("X"),
		InPlace:   map[string]string{"Out": "X"},
	}, opkit.Gradient{
		Doc:     "dX = dOut*Scale, dScale = sum(dOut*X) and dBias = sum(dOut) over all but the channels.",
		Inputs:  []string{"X", "Scale"},
		Wrt:     []string{"X", "Scale", "Bias"},
		StandIn: map[string]string{"Bias": "Scale"},
		InPlace: map[string]string{"X@GRAD": "Out@GRAD"},
		Cost:    opkit.PerElement(5),
		Bind:    opkit.BindFloats("X", bindAffineChannelGrad[float32], bindAffineChannelGrad[float64]),
	})
}

func inferAffineChannel(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if err := s.SameType("X", "Scale", "Bias"); err != nil {
		return err
	}
	if err := checkLayout(s, "data_layout"); err != nil {
		return err
	}
	if len(x.Dims) < 2 {
		return s.Errorf("X", "rank 2 or more")
	}
	channels := firstly(x.Dims, channelsLast(s, "data_layout"))[1]
	for _, slot := range []string{"Scale", "Bias"} {
		if !ops.Compatible(s.In(slot).Dims, []int64{channels}) {
			return s.Errorf(slot, "dims [%d], one number for each channel of X", channels)
		}
	}
	s.Like("Out", "X")
	return nil
}

// identity returns statistics with which batch_norm without epsilon changes nothing: c means of 0 and variances of 1.
func identity[T tensor.Float](c int) (mean, variance []T) {
	mean, variance = make([]T, c), make([]T, c)
	kernel.Fill(variance, 1)
	return mean, variance
}

func bindAffineChannel[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	scale, bias := b.In("Scale"), b.In("Bias")
	a := &arranged[T]{b: b, last: channelsLast(b, "data_layout") && len(b.In("X").Dims()) > 2}
	n, c, hw := channelsOf(firstly(b.In("X").Dims(), a.last))
	x, to := a.in("X"), a.out("Out")
	mean, variance := identity[T](c)
	return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
		kernel.BatchNormInfer(tensor.Data[T](to), tensor.Data[T](x), tensor.Data[T](scale), tensor.Data[T](bias), mean, variance, n, c, hw, first, last, 0)
		return nil
	}})
}

func bindAffineChannelGrad[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	scale := b.In("Scale")
	a := &arranged[T]{b: b, last: channelsLast(b, "data_layout") && len(b.In("X").Dims()) > 2}
	n, c, hw := channelsOf(firstly(b.In("X").Dims(), a.last))
	x, dy, dx, dscale, dbias := a.in("X"), a.in("Out@GRAD"), a.out("X@GRAD"), b.Out("Scale@GRAD"), b.Out("Bias@GRAD")
	if x.Len() == 0 {
		n, hw = 0, 0
	}
	mean, variance := identity[T](c)
	return a.loops(ops.Loop{N: c, Apart: true, Run: func(_, first, last int) error {
		kernel.BatchNormInferGrad(opkit.Data[T](dx), opkit.Data[T](dscale), opkit.Data[T](dbias), tensor.Data[T](x), tensor.Data[T](scale), mean, variance,
			tensor.Data[T](dy), n, c, hw, first, last, 0)
		return nil
	}})
}
