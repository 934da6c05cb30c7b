package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// given applies an op to X, with an attribute that a tensor gives.
func given(op string, a attrs, slot string, value, x, want *tensor.Tensor) Case {
	c := Case{Type: op, Name: "of " + slot, Inputs: slots{"X": One(x), slot: One(value)}, Attrs: a, Want: slots{"Out": One(want)}}
	if value.DType().IsFloat() {
		c.Constant = []string{slot}
	}
	return c
}

var givenCases = []Case{
	given("reduce_sum", nil, "DimTensor", Int32s(dims{1}, 1), six, Floats(dims{3}, 3, 7, 11)),
	given("reduce_mean", attrs{"keep_dim": true}, "DimTensor", Int32s(dims{2}, 0, 1), six, Floats(dims{1, 1}, 3.5)),
	given("reduce_max", nil, "DimTensorList", Int32s(dims{1}, 0), six, Floats(dims{2}, 5, 6)),
	given("arg_max", nil, "AxisTensor", Int32s(dims{1}, 0), six, Ints(dims{2}, 2, 2)),
	given("arg_max", nil, "AxisTensorList", Int32s(dims{1}, 1), six, Ints(dims{3}, 1, 1, 1)),
	given("cumsum", nil, "AxisTensor", Ints(dims{1}, 0), six, Floats(dims{3, 2}, 1, 2, 4, 6, 9, 12)),
	given("flip", nil, "AxisTensor", Int32s(dims{1}, 0), six, Floats(dims{3, 2}, 5, 6, 3, 4, 1, 2)),
	given("pad", attrs{"paddings": []int32{0, 0, 1, 0}}, "PadValueTensor", Floats(dims{1}, 9), Floats(dims{2, 1}, 1, 2), Floats(dims{2, 2}, 9, 1, 9, 2)),
	given("fill_any_like", nil, "ValueTensor", Floats(dims{1}, 9), Floats(dims{2}, 1, 2), Floats(dims{2}, 9, 9)),
	given("squeeze2", nil, "AxesTensor", Int32s(dims{1}, 1), Floats(dims{2, 1, 1}, 1, 2), Floats(dims{2, 1}, 1, 2)),
	given("unsqueeze2", nil, "AxesTensorList", Int32s(dims{1}, 1), Floats(dims{2}, 1, 2), Floats(dims{2, 1}, 1, 2)),
}
