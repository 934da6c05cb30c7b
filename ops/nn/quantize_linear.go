package nn

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file are the halves of the rounding in models that Paddle 2.3 and later quantise for inference. Weights are stored as integers, which EDL reads as int32.

func init() {
	registerLinear("quantize_linear", "Rounds numbers as integers of bit_length bits: Y = round(n*X/Scale) with n = 2**(bit_length - 1) - 1, from -n - 1 to n. The integers are "+
		"kept as floats.", "float", quantizeBy[float32], quantizeBy[float64])
	registerLinear("dequantize_linear", "Gives integers of bit_length bits their size: Y = X*Scale/n with n = 2**(bit_length - 1) - 1.", "float or int32",
		dequantizeBy[float32], dequantizeBy[float64])
}

// registerLinear adds an op that computes each element by the scale of its place on quant_axis.
func registerLinear(name, doc, x string, f32 scaling[float32], f64 scaling[float64]) {
	unread := func(slot, doc string) ops.Slot { return ops.Slot{Name: slot, Doc: doc, Dispensable: true} }
	ops.Register(ops.Def{
		Type: name, Doc: doc,
		Inputs: []ops.Slot{{Name: "X", Doc: x}, {Name: "Scale", Doc: "float: the largest magnitude [1], or one for each place of quant_axis"},
			unread("ZeroPoint", "not read: the integers are symmetric"), unread("InAccum", "of training in Fluid; not read"), unread("InState", "of training in Fluid; not read")},
		Outputs: []ops.Slot{{Name: "Y", Doc: "as X, of the type of Scale"},
			unread("OutScale", "of training in Fluid; not written"), unread("OutAccum", "of training in Fluid; not written"), unread("OutState", "of training in Fluid; not written")},
		Attrs: []ops.Attr{
			{Name: "quant_axis", Doc: "the axis with a scale for each place; -1 for one scale", Default: int32(-1)}, bitsAttr,
			{Name: "round_type", Doc: roundAttr.Doc, Default: int32(0), Check: roundAttr.Check},
			{Name: "is_test", Doc: "whether the scale is Scale as it is", Default: true},
			{Name: "only_observer", Doc: "whether to copy X", Default: false},
			{Name: "qmin", Doc: "ignored: bit_length gives the range", Default: int32(-128)},
			{Name: "qmax", Doc: "ignored: bit_length gives the range", Default: int32(127)}},
		Infer: inferLinear,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.Int("quant_axis") == 0 || opkit.RowsOnlyIn("X")(s, divided)
		},
		InPlace: map[string]string{"OutScale": "Scale", "OutAccum": "InAccum", "OutState": "InState"},
		Leaves: func(*program.Op) map[string]string {
			return map[string]string{"OutScale": "", "OutAccum": "", "OutState": ""}
		},
		Cost: opkit.PerElement(4),
		Bind: opkit.BindFloats("Scale", bindLinear(f32), bindLinear(f64)),
	})
}

func inferLinear(s *ops.Shapes) error {
	x, scale, axis := s.In("X"), s.In("Scale"), s.Int("quant_axis")
	if err := s.IsFloat("Scale"); err != nil {
		return err
	}
	if x.DType != scale.DType && (x.DType != tensor.Int32 || s.Op().Type == "quantize_linear") {
		return fault.E(fault.TypeMismatch, fault.On(s.Op()), fault.Var(s.Op().In("X")), fault.Got(x.String()), fault.Wantf("%v, as Scale", scale.DType))
	}
	if !s.Bool("is_test") {
		return opkit.UnsupportedAttr(s, "is_test", "true: train with the ops fake_quantize_dequantize_*")
	}
	scales := int64(1)
	if axis >= 0 {
		if axis >= int64(len(x.Dims)) {
			return opkit.BadAttr(s, "quant_axis", "-1 or an axis of X %v", x.Dims)
		}
		scales = x.Dims[axis]
	} else if axis != -1 {
		return opkit.BadAttr(s, "quant_axis", "-1 or an axis of X %v", x.Dims)
	}
	if !opkit.Agree(ops.Product(scale.Dims), scales) {
		return s.Errorf("Scale", "%d numbers", scales)
	}
	s.Like("Y", "X")
	y := s.Outs("Y")[0]
	y.DType = scale.DType
	s.SetAt("Y", 0, y)
	return nil
}

// A scaling computes out from x, which have one scale.
type scaling[T tensor.Float] func(r *rounding[T], out, x []T, scale T)

func quantizeBy[T tensor.Float](r *rounding[T], out, x []T, scale T) { r.round(out, x, scale) }

func dequantizeBy[T tensor.Float](r *rounding[T], out, x []T, scale T) {
	for i, v := range x {
		out[i] = v * scale / r.n
	}
}

func bindLinear[T tensor.Float](scaled scaling[T]) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		r := roundingOf[T](b, false)
		x, scales, y, axis := b.In("X"), b.In("Scale"), b.Out("Y"), int(b.Int("quant_axis"))
		if r.n == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Got("integers of one bit"), fault.Want("at least two"))
		}
		pre, channels, post := 1, 1, x.Len()
		if axis >= 0 {
			pre, channels, post = opkit.Count(x.Dims()[:axis]), int(x.Dims()[axis]), opkit.Count(x.Dims()[axis+1:])
		}
		copies := b.Bool("only_observer")
		return b.Loops(ops.Loop{N: channels, Apart: true, Run: func(_, from, to int) error {
			for c := from; c < to; c++ {
				for p := range pre {
					at := (p*channels + c) * post
					out := tensor.Data[T](y)[at:][:post]
					if x.DType() == tensor.Int32 {
						for i, v := range x.Int32s()[at:][:post] {
							out[i] = T(v)
						}
					} else {
						copy(out, tensor.Data[T](x)[at:][:post])
					}
					if !copies {
						scaled(&r, out, out, tensor.Data[T](scales)[c])
					}
				}
			}
			return nil
		}})
	}
}
