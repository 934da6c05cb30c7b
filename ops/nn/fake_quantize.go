package nn

import (
	"errors"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/opkit"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops of this file round numbers as integers of few bits would be, and keep them as floats: with the largest magnitude s that a scale gives and
// n = 2**(bit_length - 1) - 1, a number x becomes round(n*x/s), where x is limited to [-s, s], and with dequantize that times s/n.

var (
	bitsAttr = ops.Attr{Name: "bit_length", Doc: "bits of the integers, 1 to 16", Default: int32(8), Check: func(op *program.Op) error {
		if n, ok := op.Int("bit_length"); ok && (n < 1 || n > 16) {
			return errors.New("1 to 16")
		}
		return nil
	}}
	roundAttr = ops.Attr{Name: "round_type", Doc: "0 rounds a half to the even number, 1 away from 0", Default: int32(1), Check: func(op *program.Op) error {
		if n, ok := op.Int("round_type"); ok && n != 0 && n != 1 {
			return errors.New("0 or 1")
		}
		return nil
	}}
	testAttr  = ops.Attr{Name: "is_test", Doc: "whether the scale is InScale as it is", Default: false}
	rateAttr  = ops.Attr{Name: "moving_rate", Doc: "share of what was before in the average", Default: float32(0.9)}
	quantAxis = ops.Attr{Name: "quant_axis", Doc: "the axis with a scale for each place: 0 or 1", Default: int32(0)}
)

// A quantizing is one of these ops.
type quantizing struct {
	name, doc  string
	dequantize bool
	channels   bool   // a scale for each place of an axis
	moving     string // how the scale follows the largest magnitudes of batches: "" for only this one, average, or range
}

func init() {
	for _, q := range []quantizing{
		{name: "fake_quantize_abs_max", doc: "The scale is the largest magnitude of X."},
		{name: "fake_quantize_dequantize_abs_max", doc: "The scale is the largest magnitude of X.", dequantize: true},
		{name: "fake_channel_wise_quantize_abs_max", doc: "Each place of an axis has a scale, its largest magnitude.", channels: true},
		{name: "fake_channel_wise_quantize_dequantize_abs_max", doc: "Each place of an axis has a scale, its largest magnitude.", channels: true, dequantize: true},
		{name: "fake_quantize_moving_average_abs_max", doc: "The scale is a moving average of the largest magnitudes of batches: accum = rate*accum + largest, state = rate*state + 1, scale = accum/state.", moving: "average"},
		{name: "fake_quantize_dequantize_moving_average_abs_max", doc: "The scale is a moving average of the largest magnitudes of batches: accum = rate*accum + largest, state = rate*state + 1, scale = accum/state.", moving: "average", dequantize: true},
		{name: "fake_quantize_range_abs_max", doc: "The scale is InScale, in training the largest magnitude of the last window_size batches, which this build does not follow.", moving: "range"},
	} {
		q.register()
	}
	opkit.Register(ops.Def{
		Type:    "moving_average_abs_max_scale",
		Doc:     "Follows the largest magnitude of X by a moving average, and copies X: accum = rate*accum + largest, state = rate*state + 1, OutScale = accum/state.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}, {Name: "InAccum", Doc: "[1]", Dispensable: true}, {Name: "InState", Doc: "[1]", Dispensable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X", Dispensable: true}, {Name: "OutScale", Doc: "[1]"}, {Name: "OutState", Doc: "[1]", Dispensable: true}, {Name: "OutAccum", Doc: "[1]", Dispensable: true}},
		Attrs:   []ops.Attr{rateAttr, testAttr},
		Infer: func(s *ops.Shapes) error {
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			s.Like("Out", "X")
			setOnes(s, "OutScale", "OutState", "OutAccum")
			return areOnes(s, "InAccum", "InState")
		},
		MixesRows: scaleOfRows,
		State:     movingState,
		InPlace:   map[string]string{"Out": "X", "OutState": "InState", "OutAccum": "InAccum"},
		Leaves:    leftIn(map[string]string{"OutScale": "", "OutState": "InState", "OutAccum": "InAccum"}),
		Bind:      opkit.BindFloats("X", bindMovingScale[float32], bindMovingScale[float64]),
	}, opkit.Gradient{
		Doc: "dX = dOut.", Inputs: []string{"X"}, From: []string{"Out"}, Wrt: []string{"X"}, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindStraight[float32], bindStraight[float64]),
	})
	ops.Register(ops.Def{
		Type:    "fake_dequantize_max_abs",
		Doc:     "Gives numbers that were quantized their size: Out = X*Scale/max_range.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}, {Name: "Scale", Doc: "[1]: the largest magnitude"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Attrs:   []ops.Attr{{Name: "max_range", Doc: "what the largest magnitude was quantized to", Kind: float32(0)}},
		Infer: func(s *ops.Shapes) error {
			s.Like("Out", "X")
			if err := s.IsFloat("X"); err != nil {
				return err
			}
			return areOnes(s, "Scale")
		},
		MixesRows: func(_ *ops.Shapes, divided func(string) bool) bool { return divided("Scale") && !divided("X") },
		Cost:      opkit.PerElement(1),
		Bind:      opkit.BindFloats("X", bindDequantize[float32], bindDequantize[float64]),
	})
	ops.Register(ops.Def{
		Type: "fake_channel_wise_dequantize_max_abs",
		Doc: "Gives numbers that were quantized with a scale for each channel their size: Out = X*Scales[0]/(2**(quant_bits[0] - 1) - 1) along quant_axis. A second scale is that of all, with the " +
			"channels along the axis x_num_col_dims.",
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}, {Name: "Scales", Doc: "the largest magnitudes of channels, and [1], that of all", Duplicable: true}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}},
		Attrs:   []ops.Attr{{Name: "quant_bits", Doc: "bits of the integers, for each of Scales", Default: []int32{8}}, quantAxis, {Name: "x_num_col_dims", Doc: "axis of channels with two scales", Default: int32(1)}},
		Infer:   inferChannelDequantize,
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return s.Int(channelAttr(len(s.Ins("Scales")))) == 0 || opkit.RowsOnlyIn("X")(s, divided)
		},
		Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("X", bindChannelDequantize[float32], bindChannelDequantize[float64]),
	})
}

// scaleOfRows is the Mixing of these ops: a trainer takes the largest magnitude of its rows, as it takes their statistics in batch_norm. InScale, InAccum and InState are variables that
// the op writes, too, and hold no rows.
func scaleOfRows(_ *ops.Shapes, divided func(string) bool) bool { return !divided("X") }

// movingState says how averages of the largest magnitudes of several trainers' rows merge.
var movingState = map[string]ops.Merge{"OutScale": ops.MergeMean, "OutState": ops.MergeMean, "OutAccum": ops.MergeMean}

func setOnes(s *ops.Shapes, slots ...string) {
	for _, slot := range slots {
		s.Set(slot, s.In("X").DType, 1)
	}
}

// areOnes checks that slots hold one number of the type of X, where they hold something.
func areOnes(s *ops.Shapes, slots ...string) error {
	for _, slot := range slots {
		if n := ops.Product(s.In(slot).Dims); s.Has(slot) && !opkit.Agree(n, 1) {
			return s.Errorf(slot, "one number")
		}
	}
	return s.SameType(append([]string{"X"}, slots...)...)
}

func (q quantizing) register() {
	def := ops.Def{
		Type: q.name, Doc: "Rounds numbers as integers of bit_length bits: Out = round(n*x/s) with n = 2**(bit_length - 1) - 1, a scale s, and x limited to [-s, s]. " + q.doc,
		Inputs:  []ops.Slot{{Name: "X", Doc: "float"}},
		Outputs: []ops.Slot{{Name: "Out", Doc: "as X"}, {Name: "OutScale", Doc: "the scale [1]"}},
		Attrs:   []ops.Attr{bitsAttr, roundAttr},
		Infer:   q.infer, Cost: opkit.PerElement(6), Bind: opkit.BindFloats("X", bindQuantize[float32](q), bindQuantize[float64](q)),
		MixesRows: func(s *ops.Shapes, divided func(string) bool) bool {
			return q.channels && s.Int("quant_axis") == 0 || scaleOfRows(s, divided)
		},
		State: map[string]ops.Merge{"OutScale": ops.MergeMean},
	}
	if q.dequantize {
		def.Doc = "Rounds numbers as integers of bit_length bits and gives them their size again: Out = round(n*x/s)*s/n with n = 2**(bit_length - 1) - 1, a scale s, and x limited to [-s, s]. " + q.doc
	}
	one := func(name, doc string) ops.Slot { return ops.Slot{Name: name, Doc: doc, Dispensable: true} }
	switch {
	case q.channels:
		def.Outputs[1].Doc = "the scales [places of quant_axis]"
		def.Attrs = append(def.Attrs, quantAxis, testAttr)
		if q.dequantize {
			def.Attrs = def.Attrs[:3]
		}
	case q.moving == "average":
		def.Inputs = append(def.Inputs, ops.Slot{Name: "InScale", Doc: "the scale before [1]"}, one("InAccum", "[1]"), one("InState", "[1]"))
		def.Outputs = append(def.Outputs, one("OutState", "[1]"), one("OutAccum", "[1]"))
		def.Attrs = append(def.Attrs, rateAttr, testAttr)
	case q.moving == "range":
		def.Inputs = append(def.Inputs, ops.Slot{Name: "InScale", Doc: "the scale before [1]"}, one("Iter", "int64 [1]: the number of the batch"))
		def.Outputs = append(def.Outputs, one("OutScales", "the largest magnitudes of the last batches [window_size]; it is changed in place"))
		def.Attrs = append(def.Attrs, ops.Attr{Name: "window_size", Doc: "batches", Default: int32(10000), Check: func(op *program.Op) error {
			if n, ok := op.Int("window_size"); ok && (n < 1 || n > 1<<24) {
				return errors.New("1 to 16777216")
			}
			return nil
		}}, testAttr)
	}
	if q.moving != "" {
		def.InPlace = map[string]string{"OutScale": "InScale", "OutState": "InState", "OutAccum": "InAccum"}
		def.Leaves = leftIn(map[string]string{"OutScale": "InScale", "OutState": "InState", "OutAccum": "InAccum", "OutScales": ""})
		def.State = movingState
	}
	if !q.dequantize {
		ops.Register(def)
		return
	}
	reads := []string{"X"} // for its dims
	if q.moving != "" {
		reads = append(reads, "InScale")
	}
	opkit.Register(def, opkit.Gradient{
		Doc: "dX = dOut, as if nothing were rounded.", From: []string{"Out"}, Wrt: []string{"X"}, Inputs: reads, Cost: opkit.PerElement(1),
		Bind: opkit.BindFloats("Out@GRAD", bindStraight[float32], bindStraight[float64]),
	})
}

func (q quantizing) infer(s *ops.Shapes) error {
	x := s.In("X")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	s.Like("Out", "X")
	if q.channels {
		axis := s.Int("quant_axis")
		if axis != 0 && axis != 1 || int(axis) >= len(x.Dims) {
			return opkit.BadAttr(s, "quant_axis", "0 or 1, an axis of X %v", x.Dims)
		}
		s.Set("OutScale", x.DType, x.Dims[axis])
		return nil
	}
	setOnes(s, "OutScale", "OutState", "OutAccum")
	if q.moving == "range" {
		if !s.Bool("is_test") {
			return opkit.UnsupportedAttr(s, "is_test", "true: train with fake_quantize_moving_average_abs_max")
		}
		s.Set("OutScales", x.DType, s.Int("window_size"))
	}
	if s.Has("Iter") {
		if n := ops.Product(s.In("Iter").Dims); !opkit.Agree(n, 1) || s.In("Iter").DType != tensor.Int64 {
			return s.Errorf("Iter", "one int64")
		}
	}
	return areOnes(s, "InScale", "InAccum", "InState")
}

// largest returns the largest magnitude of elements.
func largest[T tensor.Float](x []T) T {
	most := T(0)
	for _, v := range x {
		most = max(most, max(v, -v))
	}
	return most
}

// A rounding rounds numbers.
type rounding[T tensor.Float] struct {
	n          T
	even       bool
	dequantize bool
}

func roundingOf[T tensor.Float](b *ops.Binding, dequantize bool) rounding[T] {
	return rounding[T]{T(int(1)<<(b.Int("bit_length")-1) - 1), b.Int("round_type") == 0, dequantize}
}

// inverse is 1/s, bounded for a scale of 0.
func inverse[T tensor.Float](s T) T {
	if s <= 1e-6 {
		return 1 / (s + 1e-6)
	}
	return 1 / s
}

func (r *rounding[T]) round(out, x []T, scale T) {
	unit := inverse(scale)
	for i, v := range x {
		if r.even {
			v = T(math.RoundToEven(float64(r.n * unit * v)))
			v = max(min(v, r.n), -r.n-1)
		} else {
			v = T(math.Round(float64(r.n * unit * max(min(v, scale), -scale))))
		}
		if r.dequantize {
			v = v * scale / r.n
		}
		out[i] = v
	}
}

func bindQuantize[T tensor.Float](q quantizing) opkit.Binder {
	return func(b *ops.Binding) (ops.Kernel, error) {
		r := roundingOf[T](b, q.dequantize)
		x, out, scale := b.In("X"), b.Out("Out"), b.Out("OutScale")
		if r.n == 0 {
			return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Got("integers of one bit"), fault.Want("at least two"))
		}
		if q.channels {
			return bindChannels(b, r, x, out, scale)
		}
		used := b.Scratch(tensor.Of[T](), 1)
		isTest, rate := q.moving != "" && b.Bool("is_test"), T(0)
		if q.moving == "average" {
			rate = T(b.Float("moving_rate"))
		}
		return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
			s := tensor.Data[T](used)
			switch {
			case q.moving == "":
				s[0] = largest(tensor.Data[T](x))
			case isTest:
				s[0] = tensor.Data[T](b.In("InScale"))[0]
				stay[T](b)
			default:
				s[0] = follow(b, rate)
			}
			if scale != nil {
				tensor.Data[T](scale)[0] = s[0]
			}
			return nil
		}}, ops.Loop{N: x.Len(), Apart: true, Run: func(_, from, to int) error {
			if out != nil {
				r.round(tensor.Data[T](out)[from:to], tensor.Data[T](x)[from:to], tensor.Data[T](used)[0])
			}
			return nil
		}})
	}
}

// follow moves the average on by the largest magnitude of X, and returns the scale.
func follow[T tensor.Float](b *ops.Binding, rate T) T {
	accum, state := T(rate*numberOr0[T](b.In("InAccum")))+largest(tensor.Data[T](b.In("X"))), T(rate*numberOr0[T](b.In("InState")))+1
	if to := b.Out("OutAccum"); to != nil {
		tensor.Data[T](to)[0] = accum
	}
	if to := b.Out("OutState"); to != nil {
		tensor.Data[T](to)[0] = state
	}
	return accum / state
}

// stay leaves the state of a moving average as it is. In a program that gives no state, Fluid does not write it either.
func stay[T tensor.Float](b *ops.Binding) {
	for _, pair := range [...][2]string{{"InAccum", "OutAccum"}, {"InState", "OutState"}} {
		if from, to := b.In(pair[0]), b.Out(pair[1]); from != nil && to != nil {
			tensor.Data[T](to)[0] = tensor.Data[T](from)[0]
		}
	}
}

// leftIn is Def.Leaves of an op that leaves variables as they are when it tests.
func leftIn(left map[string]string) func(*program.Op) map[string]string {
	return func(op *program.Op) map[string]string {
		if !isTrue(op, "is_test") {
			return nil
		}
		return left
	}
}

// numberOr0 returns the number of a tensor, 0 if there is none.
func numberOr0[T tensor.Float](t *tensor.Tensor) T {
	if t == nil {
		return 0
	}
	return tensor.Data[T](t)[0]
}

func bindChannels[T tensor.Float](b *ops.Binding, r rounding[T], x, out, scale *tensor.Tensor) (ops.Kernel, error) {
	axis := int(b.Int("quant_axis"))
	pre, channels, post := opkit.Count(x.Dims()[:axis]), int(x.Dims()[axis]), opkit.Count(x.Dims()[axis+1:])
	return b.Loops(ops.Loop{N: channels, Apart: true, Run: func(_, from, to int) error {
		for c := from; c < to; c++ {
			most := T(0)
			for p := range pre {
				most = max(most, largest(tensor.Data[T](x)[(p*channels+c)*post:][:post]))
			}
			if scale != nil {
				tensor.Data[T](scale)[c] = most
			}
			for p := 0; out != nil && p < pre; p++ {
				r.round(tensor.Data[T](out)[(p*channels+c)*post:][:post], tensor.Data[T](x)[(p*channels+c)*post:][:post], most)
			}
		}
		return nil
	}})
}

func bindStraight[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	dout, dx := b.In("Out@GRAD"), b.Out("X@GRAD")
	return b.Loops(ops.Loop{N: dx.Len(), Reads: []string{"Out@GRAD"}, Run: func(_, from, to int) error {
		copy(tensor.Data[T](dx)[from:to], tensor.Data[T](dout)[from:to])
		return nil
	}})
}

func bindMovingScale[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, out, scale, isTest, rate := b.In("X"), b.Out("Out"), b.Out("OutScale"), b.Bool("is_test"), T(b.Float("moving_rate"))
	return b.Loops(ops.Loop{N: 1, Apart: true, Run: func(int, int, int) error {
		if out != nil {
			copy(tensor.Data[T](out), tensor.Data[T](x))
		}
		if isTest {
			stay[T](b)
			return nil
		}
		if s := follow(b, rate); scale != nil {
			tensor.Data[T](scale)[0] = s
		}
		return nil
	}})
}

func bindDequantize[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scale, out, most := b.In("X"), b.In("Scale"), b.Out("Out"), T(b.Float("max_range"))
	return b.Loops(ops.Loop{N: x.Len(), Apart: true, Run: func(_, from, to int) error {
		s := tensor.Data[T](scale)[0]
		for i := from; i < to; i++ {
			tensor.Data[T](out)[i] = tensor.Data[T](x)[i] * s / most
		}
		return nil
	}})
}

// channelAttr is the attribute with the axis of channels, for so many scales.
func channelAttr(scales int) string {
	if scales == 2 {
		return "x_num_col_dims"
	}
	return "quant_axis"
}

func inferChannelDequantize(s *ops.Shapes) error {
	x, scales, bits := s.In("X"), s.Ins("Scales"), s.Ints("quant_bits")
	if err := s.IsFloat("X"); err != nil {
		return err
	}
	if len(scales) != 1 && len(scales) != 2 {
		return fault.E(fault.InvalidProgram, fault.On(s.Op()), fault.Gotf("%d variables in Scales", len(scales)), fault.Want("one or two"))
	}
	name := channelAttr(len(scales))
	axis := s.Int(name)
	if axis < 0 || axis >= int64(len(x.Dims)) {
		return opkit.BadAttr(s, name, "an axis of X %v", x.Dims)
	}
	if !ops.Compatible(scales[0].Dims, x.Dims[axis:axis+1]) {
		return s.Errorf("Scales", "dims %v, a number for each place of axis %d of X", x.Dims[axis:axis+1], axis)
	}
	if len(scales) == 2 && !opkit.Agree(ops.Product(scales[1].Dims), 1) {
		return s.Errorf("Scales", "one number in the second variable")
	}
	if len(bits) < len(scales) {
		return opkit.BadAttr(s, "quant_bits", "a number for each of Scales")
	}
	for _, n := range bits {
		if n < 2 || n > 16 {
			return opkit.BadAttr(s, "quant_bits", "numbers from 2 to 16")
		}
	}
	s.Like("Out", "X")
	return s.SameType("X", "Scales")
}

func bindChannelDequantize[T tensor.Float](b *ops.Binding) (ops.Kernel, error) {
	x, scales, out, bits := b.In("X"), b.Ins("Scales"), b.Out("Out"), b.Ints("quant_bits")
	axis := int(b.Int(channelAttr(len(scales))))
	pre, channels, post := opkit.Count(x.Dims()[:axis]), int(x.Dims()[axis]), opkit.Count(x.Dims()[axis+1:])
	most := T(1)
	for i := range scales {
		most *= T(int(1)<<(bits[i]-1) - 1)
	}
	return b.Loops(ops.Loop{N: pre * channels, Apart: true, Run: func(_, from, to int) error {
		all := T(1)
		if len(scales) == 2 {
			all = tensor.Data[T](scales[1])[0]
		}
		for i := from; i < to; i++ {
			s := tensor.Data[T](scales[0])[i%channels] * all
			for k := i * post; k < (i+1)*post; k++ {
				tensor.Data[T](out)[k] = tensor.Data[T](x)[k] * s / most
			}
		}
		return nil
	}})
}
