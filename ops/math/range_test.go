package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var rangeCases = []Case{
	numbersFrom("range", "Start", "End", "Step", nil, Ints(dims{1}, 2), Ints(dims{1}, 9), Ints(dims{1}, 3), Ints(dims{3}, 2, 5, 8)),
	numbersFrom("range", "Start", "End", "Step", nil, Int32s(dims{1}, 2), Int32s(dims{1}, -1), Int32s(dims{1}, -1), Int32s(dims{3}, 2, 1, 0)),
	numbersFrom("range", "Start", "End", "Step", nil, Floats(dims{1}, 0), Floats(dims{1}, 1), Floats(dims{1}, 0.5), Floats(dims{2}, 0, 0.5)),
	numbersFrom("linspace", "Start", "Stop", "Num", attrs{"dtype": int32(tensor.Float64)}, Floats(dims{1}, 1), Floats(dims{1}, 2), Int32s(dims{1}, 5),
		Floats(dims{5}, 1, 1.25, 1.5, 1.75, 2)),
	numbersFrom("linspace", "Start", "Stop", "Num", attrs{"dtype": int32(tensor.Int64)}, Ints(dims{1}, 7), Ints(dims{1}, 9), Int32s(dims{1}, 1), Ints(dims{1}, 7)),
	powers(attrs{"dtype": int32(tensor.Float64)}, Floats(dims{1}, -1), Floats(dims{1}, 1), Int32s(dims{1}, 5), Floats(dims{1}, 10),
		Floats(dims{5}, 0.1, 0.31622776601683794, 1, 3.1622776601683795, 10)),
	powers(attrs{"dtype": int32(tensor.Int32)}, Floats(dims{1}, 0.5), Floats(dims{1}, 3.5), Int32s(dims{1}, 4), Int32s(dims{1}, 2), Int32s(dims{4}, 1, 2, 4, 8)),
	powers(attrs{"dtype": int32(tensor.Float64)}, Ints(dims{1}, 3), Ints(dims{1}, 9), Int32s(dims{1}, 1), Floats(dims{1}, 2), Floats(dims{1}, 8)),
	{Type: "eye", Attrs: attrs{"num_rows": int64(2), "num_columns": int64(3), "dtype": int32(tensor.Float64)},
		Want: slots{"Out": One(Floats(dims{2, 3}, 1, 0, 0, 0, 1, 0))}},
	{Type: "eye", Name: "square", Attrs: attrs{"num_rows": int64(2), "dtype": int32(tensor.Int32)}, Want: slots{"Out": One(Int32s(dims{2, 2}, 1, 0, 0, 1))}},
	{Type: "diag", Inputs: slots{"Diagonal": One(Ints(dims{2}, 3, 4))}, Want: slots{"Out": One(Ints(dims{2, 2}, 3, 0, 0, 4))}},
	{Type: "diag_v2", Name: "made", Attrs: attrs{"offset": int32(1), "padding_value": float32(9)}, Inputs: slots{"X": One(Floats(dims{2}, 3, 4))},
		Want: slots{"Out": One(Floats(dims{3, 3}, 9, 3, 9, 9, 9, 4, 9, 9, 9))}},
	{Type: "diag_v2", Name: "taken", Attrs: attrs{"offset": int32(-1)}, Inputs: slots{"X": One(six)}, Want: slots{"Out": One(Floats(dims{2}, 3, 6))}},
	{Type: "diag_v2", Name: "beyond", Attrs: attrs{"offset": int32(5)}, Inputs: slots{"X": One(six)}, Want: slots{"Out": One(Floats(dims{0}))}},
	{Type: "tril_triu", Name: "lower", Attrs: attrs{"lower": true}, Inputs: slots{"X": One(six)}, Want: slots{"Out": One(Floats(dims{3, 2}, 1, 0, 3, 4, 5, 6))}},
	{Type: "tril_triu", Name: "upper", Attrs: attrs{"diagonal": int32(1)}, Inputs: slots{"X": One(Ints(dims{2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8))},
		Want: slots{"Out": One(Ints(dims{2, 2, 2}, 0, 2, 0, 0, 0, 6, 0, 0))}},
	{Type: "fill_any_like", Attrs: attrs{"value": float32(1.5)}, Inputs: slots{"X": One(six)}, Want: slots{"Out": One(Floats(dims{3, 2}, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5))}},
	{Type: "fill_any_like", Name: "int64", Attrs: attrs{"value": float32(-2.5), "dtype": int32(tensor.Int64)}, Inputs: slots{"X": One(Floats(dims{2}, 1, 2))},
		Want: slots{"Out": One(Ints(dims{2}, -2, -2))}},
	{Type: "fill_zeros_like2", Attrs: attrs{"dtype": int32(tensor.Float64)}, Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}, Want: slots{"Out": One(Floats(dims{2}, 0, 0))}},
	{Type: "fill_constant", Name: "text", Attrs: attrs{"shape": []int64{2}, "dtype": int32(tensor.Int64), "str_value": "9007199254740993"},
		Want: slots{"Out": One(Ints(dims{2}, 9007199254740993, 9007199254740993))}},
	{Type: "fill_constant", Name: "tensors", Attrs: attrs{"shape": []int64{-1, -1}, "dtype": int32(tensor.Float64)},
		Inputs:    slots{"ValueTensor": One(Floats(dims{1}, 4)), "ShapeTensorList": One(Int32s(dims{1}, 1), Int32s(dims{1}, 2))},
		NoFloat32: true, Want: slots{"Out": One(Floats(dims{1, 2}, 4, 4))}},
}

// numbersFrom applies an op to three single numbers.
func numbersFrom(op, first, second, third string, a attrs, x, y, z, want *tensor.Tensor) Case {
	return Case{Type: op, Name: want.DType().String(), Attrs: a, Inputs: slots{first: One(x), second: One(y), third: One(z)}, Want: slots{"Out": One(want)}}
}

// powers applies logspace.
func powers(a attrs, start, stop, num, base, want *tensor.Tensor) Case {
	c := numbersFrom("logspace", "Start", "Stop", "Num", a, start, stop, num, want)
	c.Inputs["Base"] = One(base)
	return c
}

func TestRangesRefuseWhatHasNoEnd(t *testing.T) {
	for _, c := range []Case{
		numbersFrom("range", "Start", "End", "Step", nil, Ints(dims{1}, 2), Ints(dims{1}, 9), Ints(dims{1}, 0), six),
		numbersFrom("range", "Start", "End", "Step", nil, Ints(dims{1}, 2), Ints(dims{1}, 9), Ints(dims{1}, -1), six),
		numbersFrom("linspace", "Start", "Stop", "Num", attrs{"dtype": int32(tensor.Float64)}, Floats(dims{1}, 1), Floats(dims{1}, 2), Int32s(dims{1}, 0), six),
		powers(attrs{"dtype": int32(tensor.Float64)}, Floats(dims{1}, 1), Floats(dims{1}, 2), Int32s(dims{1}, -1), Floats(dims{1}, 2), six),
		{Type: "fill_constant", Attrs: attrs{"str_value": "much"}},
		{Type: "eye", Attrs: attrs{"num_rows": int64(1 << 40), "num_columns": int64(1 << 40)}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
