package nn_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// quantized rounds to integers of three bits, -3 to 3.
func quantized(kind, name string, x *tensor.Tensor, a attrs, more, want slots) Case {
	c := Case{Type: kind, Name: name, Inputs: slots{"X": One(x)}, Attrs: attrs{"bit_length": int32(3)}, Want: want, Constant: []string{"X"}}
	for k, v := range a {
		c.Attrs[k] = v
	}
	if strings.Contains(kind, "quantize_dequantize_") {
		c.Constant, c.NoDifferences, c.Loss = nil, true, []string{"Out"}
	}
	if a["is_test"] == true && more["InAccum"] == nil {
		c.Outputs = map[string]int{"OutAccum": 0, "OutState": 0, "OutScales": 0} // which are not written then
	}
	for k, v := range more {
		c.Inputs[k] = v
		c.Constant = append(c.Constant, k)
	}
	return c
}

func row(values ...float64) []*tensor.Tensor { return One(Floats(dims{int64(len(values))}, values...)) }

// notWritten are outputs of training, which has other ops here.
var notWritten = map[string]int{"OutScale": 0, "OutAccum": 0, "OutState": 0}

var quantizeCases = []Case{
	quantized("fake_quantize_abs_max", "", Floats(dims{3}, -2, 1, 0.25), nil, nil, slots{"Out": row(-3, 2, 0), "OutScale": row(2)}),
	quantized("fake_quantize_abs_max", "to even", Floats(dims{3}, -2, 1, 0.25), attrs{"round_type": int32(0)}, nil, slots{"Out": row(-3, 2, 0)}),
	quantized("fake_quantize_dequantize_abs_max", "", Floats(dims{3}, -3, 1.4, 0.25), nil, nil, slots{"Out": row(-3, 1, 0)}),
	quantized("fake_channel_wise_quantize_abs_max", "", Floats(dims{2, 2}, -2, 1, 6, 4), nil, nil, slots{"Out": One(Floats(dims{2, 2}, -3, 2, 3, 2)), "OutScale": row(2, 6)}),
	quantized("fake_channel_wise_quantize_abs_max", "columns", Floats(dims{2, 2}, -2, 1, 4, 3), attrs{"quant_axis": int32(1)}, nil, slots{"Out": One(Floats(dims{2, 2}, -2, 1, 3, 3)), "OutScale": row(4, 3)}),
	quantized("fake_channel_wise_quantize_dequantize_abs_max", "", Floats(dims{2, 2}, -3, 1.2, 6, 4), nil, nil, slots{"Out": One(Floats(dims{2, 2}, -3, 1, 6, 4))}),
	quantized("fake_quantize_moving_average_abs_max", "", Floats(dims{2}, -3, 1.4), attrs{"moving_rate": float32(0.5)}, slots{"InScale": row(1), "InAccum": row(2), "InState": row(1)},
		slots{"OutAccum": row(4), "OutState": row(1.5), "OutScale": row(8. / 3), "Out": row(-3, 2)}),
	quantized("fake_quantize_moving_average_abs_max", "test", Floats(dims{2}, -4, 1), attrs{"is_test": true}, slots{"InScale": row(3), "InAccum": row(2), "InState": row(1)}, slots{"Out": row(-3, 1), "OutScale": row(3), "OutAccum": row(2), "OutState": row(1)}),
	quantized("fake_quantize_dequantize_moving_average_abs_max", "test", Floats(dims{2}, -4, 1.2), attrs{"is_test": true}, slots{"InScale": row(3)}, slots{"Out": row(-3, 1)}),
	quantized("fake_quantize_range_abs_max", "test", Floats(dims{2}, -4, 1.2), attrs{"is_test": true}, slots{"InScale": row(3)}, slots{"Out": row(-3, 1)}),
	{Type: "moving_average_abs_max_scale", Attrs: attrs{"moving_rate": float32(0.5)}, Inputs: slots{"X": row(-3, 1), "InAccum": row(2), "InState": row(1)}, Constant: []string{"InAccum", "InState"}, Loss: []string{"Out"},
		Want: slots{"Out": row(-3, 1), "OutScale": row(8. / 3)}},
	{Type: "fake_dequantize_max_abs", Attrs: attrs{"max_range": float32(3)}, Inputs: slots{"X": row(-3, 1), "Scale": row(6)}, Want: slots{"Out": row(-6, 2)}},
	{Type: "fake_channel_wise_dequantize_max_abs", Attrs: attrs{"quant_bits": []int32{3}}, Inputs: slots{"X": One(Floats(dims{2, 1}, -3, 1)), "Scales": row(6, 9)}, Want: slots{"Out": One(Floats(dims{2, 1}, -6, 3))}},
	{Type: "fake_channel_wise_dequantize_max_abs", Name: "two scales", Attrs: attrs{"quant_bits": []int32{3, 2}}, Inputs: slots{"X": One(Floats(dims{1, 2}, -3, 1)), "Scales": One(Floats(dims{2}, 6, 9), Floats(dims{1}, 2))},
		Want: slots{"Out": One(Floats(dims{1, 2}, -12, 6))}},
	{Type: "quantize_linear", Outputs: notWritten, Attrs: attrs{"bit_length": int32(3), "moving_rate": float32(0.9)}, Inputs: slots{"X": row(-2, 1, 0.25, 9), "Scale": row(2)}, Want: slots{"Y": row(-3, 2, 0, 3)}},
	{Type: "quantize_linear", Outputs: notWritten, Name: "channels", Attrs: attrs{"bit_length": int32(3), "quant_axis": int32(1)}, Inputs: slots{"X": One(Floats(dims{2, 2}, -2, 1, 2, 4)), "Scale": row(2, 4)},
		Want: slots{"Y": One(Floats(dims{2, 2}, -3, 1, 3, 3))}},
	{Type: "dequantize_linear", Outputs: notWritten, Attrs: attrs{"bit_length": int32(3)}, Inputs: slots{"X": row(-3, 1), "Scale": row(6)}, Want: slots{"Y": row(-6, 2)}},
	{Type: "dequantize_abs_max", Attrs: attrs{"max_range": float32(127)}, Inputs: slots{"X": One(Int32s(dims{2, 2}, -127, 0, 127, 1)), "Scale": row(254)}, Want: slots{"Out": One(Floats(dims{2, 2}, -254, 0, 254, 2))}},
	{Type: "dequantize_log", Inputs: slots{"X": One(Int32s(dims{2, 2}, 0, 127, -128, -1)), "Dict": One(magnitudes())}, Want: slots{"Out": One(Floats(dims{2, 2}, 0, 127, 0, -127))}},
	{Type: "dequantize_linear", Outputs: notWritten, Name: "observer", Attrs: attrs{"only_observer": true}, Inputs: slots{"X": row(-3, 1), "Scale": row(6)}, Want: slots{"Y": row(-3, 1)}},
}

// The gradients go straight through, so they are not those of a function with steps: 1 for each number.
func TestGradientsGoStraightThroughRounding(t *testing.T) {
	for _, kind := range []string{"fake_quantize_dequantize_abs_max", "fake_channel_wise_quantize_dequantize_abs_max", "fake_quantize_dequantize_moving_average_abs_max"} {
		c := Case{Type: kind + "_grad", Inputs: slots{"X": One(Floats(dims{2, 1}, -3, 1.4)), "Out@GRAD": One(Floats(dims{2, 1}, 5, 7))}, Want: slots{"X@GRAD": One(Floats(dims{2, 1}, 5, 7))}}
		if kind == "fake_quantize_dequantize_moving_average_abs_max" {
			c.Inputs["InScale"] = row(1)
		}
		if err := Golden(c); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestQuantizationThatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		Case
		want fault.Kind
	}{
		{quantized("fake_quantize_abs_max", "", Floats(dims{1}, 1), attrs{"bit_length": int32(17)}, nil, nil), fault.InvalidArgument},
		{quantized("fake_quantize_abs_max", "", Floats(dims{1}, 1), attrs{"bit_length": int32(1)}, nil, nil), fault.InvalidArgument},
		{quantized("fake_channel_wise_quantize_abs_max", "", Floats(dims{1}, 1), attrs{"quant_axis": int32(1)}, nil, nil), fault.InvalidArgument},
		{quantized("fake_quantize_range_abs_max", "", Floats(dims{1}, 1), nil, slots{"InScale": row(1)}, nil), fault.Unsupported},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.want {
			t.Errorf("%v: %v", c.Case, err)
		}
	}
}

// magnitudes is a dictionary in which a number stands at its own place.
func magnitudes() *tensor.Tensor {
	all := make([]float64, 128)
	for i := range all {
		all[i] = float64(i)
	}
	return Floats(dims{128}, all...)
}

// A number beyond a byte names no magnitude.
func TestBytesThatAreNone(t *testing.T) {
	for _, x := range []int32{128, -129, 1 << 30} {
		c := Case{Type: "dequantize_log", Inputs: slots{"X": One(Int32s(dims{1}, x)), "Dict": One(magnitudes())}}
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%d: %v", x, err)
		}
	}
}
