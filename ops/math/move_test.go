package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var moveCases = []Case{
	{Type: "assign", Inputs: slots{"X": One(Floats(dims{2, 1}, 3, -4))}, Want: slots{"Out": One(Floats(dims{2, 1}, 3, -4))}},
	{Type: "assign", Name: "bool", Inputs: slots{"X": One(Bools(dims{2}, true, false))}, Want: slots{"Out": One(Bools(dims{2}, true, false))}},
	reshape("reshape2", "copied and inferred", []int32{0, -1}),
	reshape("reshape2", "fixed", []int32{3, 4}),
	reshape("reshape2", "higher rank", []int32{1, -1, 2, 2, 1}),
	reshape("reshape", "", []int32{-1}),
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
