package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

type (
	slots = map[string][]*tensor.Tensor
	attrs = map[string]program.Attr
	dims  = []int64
)

var fillCases = []Case{
	{Type: "fill_constant", Attrs: attrs{"shape": []int32{2, 1}, "dtype": int32(tensor.Float64), "value": float32(1.5)},
		Want: slots{"Out": One(Floats(dims{2, 1}, 1.5, 1.5))}},
	{Type: "fill_constant", Name: "int64", Attrs: attrs{"shape": []int64{1}, "dtype": int32(tensor.Int64), "value": float32(-7.9)},
		Want: slots{"Out": One(Ints(dims{1}, -7))}},
	{Type: "fill_constant", Name: "bool scalar", Attrs: attrs{"dtype": int32(tensor.Bool), "value": float32(2)},
		Want: slots{"Out": One(Bools(nil, true))}},
	{Type: "fill_constant_batch_size_like", Inputs: slots{"Input": One(Spread(1, 3, 2))},
		Attrs: attrs{"shape": []int32{2, -1}, "output_dim_idx": int32(1), "dtype": int32(tensor.Int32), "value": float32(4)},
		Want:  slots{"Out": One(Int32s(dims{2, 3}, 4, 4, 4, 4, 4, 4))}},
	{Type: "fill_zeros_like", Inputs: slots{"X": One(Spread(1, 2, 2))}, Want: slots{"Out": One(Floats(dims{2, 2}, 0, 0, 0, 0))}},
	{Type: "assign_value", Attrs: attrs{"shape": []int32{1, 2}, "dtype": int32(tensor.Float64), "fp32_values": []float32{0.5, -2}},
		Want: slots{"Out": One(Floats(dims{1, 2}, 0.5, -2))}},
	{Type: "assign_value", Name: "int32", Attrs: attrs{"shape": []int32{2}, "dtype": int32(tensor.Int32), "int32_values": []int32{3, -4}},
		Want: slots{"Out": One(Int32s(dims{2}, 3, -4))}},
	{Type: "assign_value", Name: "int64", Attrs: attrs{"shape": []int64{1}, "dtype": int32(tensor.Int64), "int64_values": []int64{1 << 60}},
		Want: slots{"Out": One(Ints(dims{1}, 1<<60))}},
	{Type: "assign_value", Name: "bool", Attrs: attrs{"shape": []int32{2}, "dtype": int32(tensor.Bool), "bool_values": []int32{0, 1}},
		Want: slots{"Out": One(Bools(dims{2}, false, true))}},
}
