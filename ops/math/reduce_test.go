package math_test

import (
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var matrix = Floats(dims{2, 3}, 1, 2, 3, 4, 5, 9)

func reduce(op, name string, a attrs, x, want *tensor.Tensor) Case {
	c := Case{Type: "reduce_" + op, Name: name, Attrs: a, Inputs: slots{"X": One(x)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var reduceCases = []Case{
	reduce("sum", "first axis", nil, matrix, Floats(dims{3}, 5, 7, 12)),
	reduce("sum", "last axis", attrs{"dim": int32(-1)}, matrix, Floats(dims{2}, 6, 18)),
	reduce("sum", "kept", attrs{"dim": []int32{1}, "keep_dim": true}, matrix, Floats(dims{2, 1}, 6, 18)),
	reduce("sum", "all", attrs{"reduce_all": true}, matrix, Floats(dims{1}, 24)),
	reduce("sum", "all, kept", attrs{"reduce_all": true, "keep_dim": true}, matrix, Floats(dims{1, 1}, 24)),
	reduce("sum", "every axis", attrs{"dim": []int64{0, 1}}, matrix, Floats(dims{1}, 24)),
	reduce("sum", "outer axes", attrs{"dim": []int32{0, 2}}, Spread(1, 2, 3, 2), nil),
	reduce("sum", "no rows", nil, Floats(dims{0, 2}), Floats(dims{2}, 0, 0)),
	reduce("mean", "last axis", attrs{"dim": []int32{1}}, matrix, Floats(dims{2}, 2, 6)),
	reduce("mean", "middle axis", attrs{"dim": []int32{-2}}, Spread(1, 2, 3, 2), nil),
	reduce("max", "first axis", nil, Floats(dims{2, 3}, 1, 2, 3, 4, 1, -9), Floats(dims{3}, 4, 2, 3)),
	reduce("max", "all", attrs{"reduce_all": true}, matrix, Floats(dims{1}, 9)),
	reduce("min", "first axis", nil, Floats(dims{2, 3}, 1, 2, 3, 4, 1, -9), Floats(dims{3}, 1, 1, -9)),
	reduce("min", "last axis", attrs{"dim": []int32{-1}}, Spread(1, 2, 3, 2), nil),
	reduce("max", "middle axis", attrs{"dim": []int32{1}}, Spread(1, 2, 3, 2), nil),
}
