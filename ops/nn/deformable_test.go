package nn_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var deformableCases = []Case{
	// The window reads the pixel to the right of its place, and between two pixels.
	{Type: "deformable_conv", Inputs: slots{"Input": One(Floats(dims{1, 1, 1, 3}, 1, 2, 4)), "Offset": One(Floats(dims{1, 2, 1, 3}, 0, 0, 0, 1, 0.5, 0.5)),
		"Filter": One(Floats(dims{1, 1, 1, 1}, 10)), "Mask": One(Floats(dims{1, 1, 1, 3}, 1, 1, 0.5))}, Constant: []string{"Offset"}, Want: slots{"Output": One(Floats(dims{1, 1, 1, 3}, 20, 30, 10))}},
	{Type: "deformable_conv", Name: "groups", Inputs: slots{"Input": One(Spread(1, 2, 4, 4, 3)), "Offset": One(offsets(2, 16, 2, 2)), "Filter": One(Spread(2, 2, 2, 2, 2)), "Mask": One(Spread(3, 2, 8, 2, 2))},
		Attrs: attrs{"groups": int32(2), "deformable_groups": int32(2), "paddings": []int32{1, 1}, "strides": []int32{2, 2}, "dilations": []int32{2, 1}}},
	{Type: "deformable_conv_v1", Inputs: slots{"Input": One(Spread(1, 2, 2, 3, 3)), "Offset": One(offsets(2, 8, 2, 2)), "Filter": One(Spread(2, 3, 2, 2, 2))}},
}

// offsets are small, and keep away from whole places.
func offsets(dims ...int64) *tensor.Tensor {
	t := Spread(5, dims...)
	for i, v := range t.Float64s() {
		t.Float64s()[i] = 0.5 + 0.3*v
	}
	return t
}
