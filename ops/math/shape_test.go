package math_test

import (
	"fmt"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var moveCases = []Case{
	{Type: "assign", Inputs: slots{"X": One(Floats(dims{2, 1}, 3, -4))}, Want: slots{"Out": One(Floats(dims{2, 1}, 3, -4))}},
	{Type: "assign", Name: "bool", Inputs: slots{"X": One(Bools(dims{2}, true, false))}, Want: slots{"Out": One(Bools(dims{2}, true, false))}},
	{Type: "rnn_memory_helper", Inputs: slots{"X": One(Floats(dims{2, 1}, 3, -4))}, Want: slots{"Out": One(Floats(dims{2, 1}, 3, -4))}},
	reshape("reshape2", "copied and inferred", []int32{0, -1}),
	reshape("reshape2", "fixed", []int32{3, 4}),
	reshape("reshape2", "higher rank", []int32{1, -1, 2, 2, 1}),
	reshape("reshape", "", []int32{-1}),
	{Type: "reshape2", Name: "dims from a tensor", Attrs: attrs{"shape": []int32{9}}, Inputs: slots{"X": One(Spread(1, 2, 3, 2)), "Shape": One(Int32s(dims{2}, 4, -1))},
		Want: slots{"Out": One(Floats(dims{4, 3}, Spread(1, 2, 3, 2).Float64s()...))}},
	{Type: "reshape2", Name: "dims from tensors", Attrs: attrs{"shape": []int32{-1, -1}},
		Inputs: slots{"X": One(Spread(1, 2, 3, 2)), "ShapeTensor": One(Int32s(dims{1}, 3), Ints(dims{1}, 4))},
		Want:   slots{"Out": One(Floats(dims{3, 4}, Spread(1, 2, 3, 2).Float64s()...))}},
	cast("to int64", Floats(dims{3}, 1.9, -1.9, 3), Ints(dims{3}, 1, -1, 3)),
	cast("to int32", Floats(dims{2}, 1.9, -1.9), Int32s(dims{2}, 1, -1)),
	cast("to bool", Floats(dims{3}, 0, 0.5, -1), Bools(dims{3}, false, true, true)),
	cast("from bool", Bools(dims{2}, true, false), Floats(dims{2}, 1, 0)),
	cast("bool to int64", Bools(dims{2}, true, false), Ints(dims{2}, 1, 0)),
	cast("from int64", Ints(dims{2}, 3, -7), Floats(dims{2}, 3, -7)),
	cast("float", Floats(dims{2}, 0.5, -7), Floats(dims{2}, 0.5, -7)),
	{Type: "concat", Attrs: attrs{"axis": int64(1)}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2), Floats(dims{2, 2}, 3, 4, 5, 6))},
		Want: slots{"Out": One(Floats(dims{2, 3}, 1, 3, 4, 2, 5, 6))}},
	{Type: "concat", Name: "rows", Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 2), Floats(dims{0, 2}), Floats(dims{2, 2}, 3, 4, 5, 6))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6))}},
	{Type: "concat", Name: "from the end", Attrs: attrs{"axis": int32(-2)}, Inputs: slots{"X": One(Spread(1, 2, 1, 3), Spread(2, 2, 2, 3))}},
	split("halves", 2, attrs{"num": int32(2)}, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{1, 2}, 1, 2), Floats(dims{1, 2}, 3, 4)),
	split("sections", 3, attrs{"sections": []int32{1, 0, 2}, "axis": int32(1)}, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6),
		Floats(dims{2, 1}, 1, 4), Floats(dims{2, 0}), Floats(dims{2, 2}, 2, 3, 5, 6)),
	split("what remains", 3, attrs{"sections": []int32{1, -1, 1}}, Floats(dims{4}, 1, 2, 3, 4), Floats(dims{1}, 1), Floats(dims{2}, 2, 3), Floats(dims{1}, 4)),
	{Type: "split", Name: "numbers from tensors", Outputs: map[string]int{"Out": 2}, Attrs: attrs{"sections": []int32{-1, -1}},
		Inputs: slots{"X": One(Floats(dims{1, 3}, 1, 2, 3)), "AxisTensor": One(Int32s(dims{1}, 1)), "SectionsTensorList": One(Int32s(dims{1}, 2), Int32s(dims{1}, 1))},
		Want:   slots{"Out": One(Floats(dims{1, 2}, 1, 2), Floats(dims{1, 1}, 3))}},
	{Type: "concat", Name: "axis from a tensor", Inputs: slots{"X": One(Floats(dims{1, 1}, 1), Floats(dims{1, 1}, 2)), "AxisTensor": One(Int32s(dims{1}, -1))},
		Want: slots{"Out": One(Floats(dims{1, 2}, 1, 2))}},
	transpose("transpose2", []int32{1, 0}, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{3, 2}, 1, 4, 2, 5, 3, 6)),
	transpose("transpose2", []int32{2, 0, 1}, Floats(dims{1, 2, 3}, 1, 2, 3, 4, 5, 6), Floats(dims{3, 1, 2}, 1, 4, 2, 5, 3, 6)),
	transpose("transpose2", []int32{0, 2, 3, 1}, Spread(1, 2, 3, 2, 2), nil),
	transpose("transpose", []int32{1, 2, 0}, Floats(dims{2, 1, 2}, 1, 2, 3, 4), Floats(dims{1, 2, 2}, 1, 3, 2, 4)),
}

// cast converts x to the type of want.
func cast(name string, x, want *tensor.Tensor) Case {
	return Case{Type: "cast", Name: name, Inputs: slots{"X": One(x)}, Want: slots{"Out": One(want)}, NoFloat32: true,
		Attrs: attrs{"in_dtype": int32(x.DType()), "out_dtype": int32(want.DType())}}
}

func split(name string, parts int, a attrs, x *tensor.Tensor, want ...*tensor.Tensor) Case {
	return Case{Type: "split", Name: name, Inputs: slots{"X": One(x)}, Outputs: map[string]int{"Out": parts}, Attrs: a, Want: slots{"Out": want}}
}

func transpose(op string, axes []int32, x, want *tensor.Tensor) Case {
	c := Case{Type: op, Name: fmt.Sprint(axes), Inputs: slots{"X": One(x)}, Attrs: attrs{"axis": axes}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func reshape(op, name string, shape []int32) Case {
	return Case{Type: op, Name: name, Inputs: slots{"X": One(Spread(1, 2, 3, 2))}, Attrs: attrs{"shape": shape}}
}

func TestReshapeDims(t *testing.T) {
	for _, c := range []struct {
		shape []int32
		x     dims
		want  dims
	}{
		{[]int32{-1, 784}, dims{64, 28, 28}, dims{64, 784}},
		{[]int32{0, -1}, dims{64, 28, 28}, dims{64, 784}},
		{[]int32{0, -1}, dims{0, 28, 28}, dims{0, 784}},
		{[]int32{2, 0, -1}, dims{4, 3, 2}, dims{2, 3, 4}},
		{[]int32{-1, 0}, dims{5, 3}, dims{5, 3}},
		{[]int32{-1}, dims{}, dims{1}},
		{[]int32{-1, 5}, dims{0, 5}, dims{0, 5}},
		{[]int32{-1, -1}, dims{4}, nil},
		{[]int32{3, -1}, dims{4}, nil},
		{[]int32{3}, dims{4}, nil},
		{[]int32{-2, -2}, dims{4}, nil},
		{[]int32{4, 0}, dims{4}, nil},
	} {
		n := int64(1)
		for _, d := range c.x {
			n *= d
		}
		one := Case{Type: "reshape2", Inputs: slots{"X": One(Floats(c.x, make([]float64, n)...))}, Attrs: attrs{"shape": c.shape}}
		if c.want != nil {
			one.Want = slots{"Out": One(Floats(c.want, make([]float64, n)...))}
		}
		if err := Golden(one); (err == nil) != (c.want != nil) || err != nil && fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v reshaped to %v: %v, want %v", c.x, c.shape, err, c.want)
		}
	}
}
