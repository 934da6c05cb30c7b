package math_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var double = int32(tensor.Float64)

var setCases = []Case{
	{Type: "set_value", Name: "tensor", Attrs: attrs{"dtype": double, "axes": []int64{1}, "starts": []int64{0}, "ends": []int64{3}, "steps": []int64{2}},
		Inputs: slots{"Input": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "ValueTensor": One(Floats(dims{2, 1}, 7, 8))}, Want: slots{"Out": One(Floats(dims{2, 3}, 7, 2, 7, 8, 5, 8))}},
	{Type: "set_value", Name: "last row", Attrs: attrs{"dtype": double, "axes": []int64{0}, "starts": []int64{-1}, "ends": []int64{1 << 31}, "decrease_axes": []int64{0}},
		Inputs: slots{"Input": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "ValueTensor": One(Floats(dims{2}, 7, 8))}, Want: slots{"Out": One(Floats(dims{2, 2}, 1, 2, 7, 8))}},
	{Type: "set_value", Name: "attribute", Attrs: attrs{"dtype": int32(tensor.Int64), "axes": []int64{0, 1}, "starts": []int64{0, 1}, "ends": []int64{2, 2}, "shape": []int64{1}, "int64_values": []int64{9}},
		Inputs: slots{"Input": One(Ints(dims{2, 2}, 1, 2, 3, 4))}, Want: slots{"Out": One(Ints(dims{2, 2}, 1, 9, 3, 9))}},
	{Type: "set_value", Name: "backwards, a new axis", Attrs: attrs{"dtype": double, "axes": []int64{1}, "starts": []int64{2}, "ends": []int64{0}, "steps": []int64{-1}, "none_axes": []int64{0}, "shape": []int64{1, 1, 2}, "fp64_values": []float64{7, 8}},
		Inputs: slots{"Input": One(Floats(dims{1, 3}, 1, 2, 3))}, NoFloat32: true, Want: slots{"Out": One(Floats(dims{1, 3}, 1, 8, 7))}},
	{Type: "set_value", Name: "bounds from tensors", Attrs: attrs{"dtype": double, "axes": []int64{0}}, Inputs: slots{"Input": One(Floats(dims{3}, 1, 2, 3)), "ValueTensor": One(Floats(dims{1}, 9)),
		"StartsTensorList": One(Ints(dims{1}, 1)), "EndsTensorList": One(Ints(dims{1}, 2))}, Want: slots{"Out": One(Floats(dims{3}, 1, 9, 3))}},
	{Type: "share_data", Inputs: slots{"X": One(six)}, Want: slots{"Out": One(six)}},
	{Type: "conj", Inputs: slots{"X": One(six)}, Want: slots{"Out": One(six)}},
	{Type: "fill_any", Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}, Attrs: attrs{"value_float": float32(0.5), "value_int": int32(3)}, Want: slots{"Out": One(Floats(dims{2}, 0.5, 0.5))}},
	{Type: "fill_any", Name: "whole numbers", Inputs: slots{"X": One(Ints(dims{2}, 1, 2))}, Attrs: attrs{"value_float": float32(0.5), "value_int": int32(3)}, Want: slots{"Out": One(Ints(dims{2}, 3, 3))}},
	{Type: "fill", Attrs: attrs{"shape": []int32{2, 1}, "dtype": int32(tensor.Int32), "value": []float32{3, -2.5}}, Want: slots{"Out": One(Int32s(dims{2, 1}, 3, -2))}},
	{Type: "fill", Name: "floats", Attrs: attrs{"shape": []int32{2}, "dtype": double, "value": []float32{3, -2.5}}, Want: slots{"Out": One(Floats(dims{2}, 3, -2.5))}},
	{Type: "empty", Attrs: attrs{"shape": []int64{2}, "dtype": double}, Want: slots{"Out": One(Floats(dims{2}, 0, 0))}},
}

func TestValuesThatDoNotFit(t *testing.T) {
	set := func(a attrs) Case {
		all := attrs{"dtype": double, "axes": []int64{0}, "starts": []int64{0}, "ends": []int64{2}, "shape": []int64{1}, "fp64_values": []float64{1}}
		for name, v := range a {
			all[name] = v
		}
		return Case{Type: "set_value", Attrs: all, Inputs: slots{"Input": One(Floats(dims{3}, 1, 2, 3))}}
	}
	for _, a := range []attrs{{"shape": []int64{2}}, {"shape": []int64{3}, "fp64_values": []float64{1, 2, 3}}, {"fp64_values": []float64{}}, {"axes": []int64{1}}, {"steps": []int64{0}}, {"decrease_axes": []int64{0}}} {
		if err := Golden(set(a)); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", a, err)
		}
	}
}

func TestCounts(t *testing.T) {
	got := atRun(t, "bincount", attrs{"minlength": int32(4)}, slots{"X": One(Int32s(dims{3}, 2, 0, 2))}, "Out")["Out"]
	if !slices.Equal(got.Int64s(), []int64{1, 0, 2, 0}) {
		t.Errorf("%v", got.Int64s())
	}
	got = atRun(t, "bincount", nil, slots{"X": One(Ints(dims{3}, 1, 0, 1)), "Weights": One(Floats(dims{3}, 0.5, 2, 3))}, "Out")["Out"]
	if !slices.Equal(got.Float64s(), []float64{2, 3.5}) {
		t.Errorf("%v", got.Float64s())
	}
}

func TestNeighboursThatAreEqual(t *testing.T) {
	got := atRun(t, "unique_consecutive", attrs{"dtype": int32(tensor.Int32)}, slots{"X": One(Floats(dims{5}, 3, 3, 1, 3, 3))}, "Out", "Index", "Counts")
	if !slices.Equal(got["Out"].Float64s(), []float64{3, 1, 3}) || !slices.Equal(got["Index"].Int32s(), []int32{0, 0, 1, 2, 2}) || !slices.Equal(got["Counts"].Int32s(), []int32{2, 1, 2}) {
		t.Errorf("%v", got)
	}
}
