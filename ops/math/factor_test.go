package math_test

import (
	"math"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var factorCases = []Case{
	{Type: "qr", Name: "high", Inputs: slots{"X": One(Floats(dims{3, 2}, 3, 2, 0, 1, -4, 2))},
		Want: slots{"Q": One(Floats(dims{3, 2}, -0.6, -0.75339352927587, 0, -0.3363363969981562, 0.8, -0.5650451469569024)),
			"R": One(Floats(dims{2, 2}, -5, 0.4, 0, -2.973213749463701))}},
	{Type: "qr", Name: "wide", Inputs: slots{"X": One(Floats(dims{1, 2, 3}, 3, 1, 2, 4, 2, 1))}, Want: slots{"Q": One(Floats(dims{1, 2, 2}, -0.6, -0.8, -0.8, 0.6)),
		"R": One(Floats(dims{1, 2, 3}, -5, -2.2, -2, 0, 0.4, -1))}},
	{Type: "qr", Name: "complete", Attrs: attrs{"mode": "complete"}, Inputs: slots{"X": One(Floats(dims{2, 1}, 3, 4))}, Constant: []string{"X"},
		Want: slots{"Q": One(Floats(dims{2, 2}, -0.6, -0.8, -0.8, 0.6)), "R": One(Floats(dims{2, 1}, -5, 0))}},
	{Type: "qr", Name: "complete square", Attrs: attrs{"mode": "complete"}, Inputs: slots{"X": One(Spread(3, 2, 3, 3))}},
	{Type: "qr", Name: "r", Attrs: attrs{"mode": "r"}, Inputs: slots{"X": One(Floats(dims{2, 1}, 3, 4))}, Constant: []string{"X"}, Want: slots{"R": One(Floats(dims{1, 1}, -5))}},
	{Type: "svd", Name: "high", Inputs: slots{"X": One(Floats(dims{1, 3, 2}, 0, 2, -3, 0, 0, 0))},
		Want: slots{"U": One(Floats(dims{1, 3, 2}, 0, 1, 1, 0, 0, 0)), "S": One(Floats(dims{1, 2}, 3, 2)), "VH": One(Floats(dims{1, 2, 2}, -1, 0, 0, 1))}},
	{Type: "svd", Name: "wide", Inputs: slots{"X": One(Spread(5, 2, 2, 3))}},
	{Type: "svd", Name: "square", Attrs: attrs{"full_matrices": true}, Inputs: slots{"X": One(Spread(4, 3, 3))}},
	{Type: "svd", Name: "full", Attrs: attrs{"full_matrices": true}, Inputs: slots{"X": One(Floats(dims{2, 1}, 3, 4))}, Constant: []string{"X"},
		Want: slots{"U": One(Floats(dims{2, 2}, 0.6, 0.8, 0.8, -0.6)), "S": One(Floats(dims{1}, 5)), "VH": One(Floats(dims{1, 1}, 1))}},
	{Type: "svd", Name: "dependent", Inputs: slots{"X": One(Floats(dims{2, 2}, 2, 0, 0, 0))}, Constant: []string{"X"},
		Want: slots{"U": One(Floats(dims{2, 2}, 1, 0, 0, 1)), "S": One(Floats(dims{2}, 2, 0)), "VH": One(Floats(dims{2, 2}, 1, 0, 0, 1))}},
	{Type: "matrix_rank", Inputs: slots{"X": One(Floats(dims{2, 2, 3}, 1, 2, 3, 2, 4, 6, 1, 0, 0, 0, 1, 0))}, Want: slots{"Out": One(Ints(dims{2}, 1, 2))}},
	{Type: "matrix_rank", Name: "given", Attrs: attrs{"tol": float32(0.5), "use_default_tol": false}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 0, 0, 0.25))}, Want: slots{"Out": One(Ints(dims{1}, 1))}},
	{Type: "matrix_rank", Name: "of each", Attrs: attrs{"use_default_tol": false}, Inputs: slots{"X": One(Floats(dims{2, 1, 1}, 1, 1)), "TolTensor": One(Floats(dims{2}, 0.5, 2))},
		Want: slots{"Out": One(Ints(dims{2}, 1, 0))}},
	known("slogdeterminant", "", "Input", Floats(dims{2, 2, 2}, 1, 2, 3, 4, 2, 0, 0, 4), nil, "Out", Floats(dims{2, 2}, -1, 1, math.Ln2, 3*math.Ln2)),
	known("slogdeterminant", "one", "Input", Floats(dims{2, 2}, -2, 0, 0, -1), nil, "Out", Floats(dims{2, 1}, 1, math.Ln2)),

	triangular("upper", Floats(dims{2, 2}, 2, 1, 9, 4), Floats(dims{2, 1}, 4, 8), Floats(dims{2, 1}, 1, 2), nil),
	triangular("lower for each", Floats(dims{2, 2, 2}, 2, 9, 1, 4, 1, 9, 2, 1), Floats(dims{2, 2, 1}, 4, 10, 3, 7), Floats(dims{2, 2, 1}, 2, 2, 3, 1), attrs{"upper": false}),
	triangular("transposed unit", Floats(dims{2, 2}, 9, 3, 9, 9), Floats(dims{2, 2}, 1, 2, 5, 6), Floats(dims{2, 2}, 1, 2, 2, 0), attrs{"transpose": true, "unitriangular": true}),
	triangular("lower transposed for all", Floats(dims{2, 2}, 2, 9, 1, 4), Floats(dims{2, 2, 1}, 4, 8, 0, 4), Floats(dims{2, 2, 1}, 1, 2, -0.5, 1), attrs{"upper": false, "transpose": true}),
	pair("cholesky_solve", "", Floats(dims{2, 1}, 8, 12), Floats(dims{2, 2}, 2, 9, 1, 2), Floats(dims{2, 1}, 1, 2), nil),
	pair("cholesky_solve", "upper", Floats(dims{2, 2, 1}, 8, 12, 4, 2), Floats(dims{2, 2}, 2, 1, 9, 2), Floats(dims{2, 2, 1}, 1, 2, 1, 0), attrs{"upper": true}),
}

func triangular(name string, x, y, want *tensor.Tensor, a attrs) Case {
	return pair("triangular_solve", name, x, y, want, a)
}

func TestFactorsOfWhatDoesNotFit(t *testing.T) {
	grads := program.GradSuffix
	square := One(Floats(dims{2, 2}, 0, 1, 1, 0))
	for _, c := range []struct {
		Case
		kind fault.Kind
		want string
	}{
		{Case{Type: "qr", Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}}, fault.ShapeMismatch, "rank 2"},
		{Case{Type: "qr", Inputs: slots{"X": square}, Attrs: attrs{"mode": "raw"}}, fault.InvalidArgument, "reduced"},
		{Case{Type: "qr_grad", Attrs: attrs{"mode": "complete"}, Inputs: slots{"X": One(Floats(dims{2, 1}, 3, 4)), "Q": One(Floats(dims{2, 2}, -0.6, -0.8, -0.8, 0.6)),
			"R": One(Floats(dims{2, 1}, -5, 0)), "R" + grads: One(Floats(dims{2, 1}, 1, 1))}}, fault.Unsupported, "reduced"},
		{Case{Type: "svd", Inputs: slots{"X": One(Ints(dims{1, 1}, 1))}}, fault.TypeMismatch, "float"},
		{Case{Type: "matrix_rank", Inputs: slots{"X": square, "TolTensor": One(Floats(dims{3}, 1, 2, 3))}}, fault.ShapeMismatch, "one number"},
		{Case{Type: "triangular_solve", Inputs: slots{"X": square, "Y": square}}, fault.InvalidArgument, "0 on the diagonal"},
		{Case{Type: "triangular_solve", Inputs: slots{"X": square, "Y": One(Floats(dims{2}, 1, 2))}}, fault.ShapeMismatch, "rows"},
		{Case{Type: "cholesky_solve", Inputs: slots{"X": One(Spread(1, 3, 2, 1)), "Y": One(Spread(1, 2, 2, 2))}}, fault.Unsupported, "as many systems"},
	} {
		if err := Golden(c.Case); fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", c.Case, err, c.kind, c.want)
		}
	}
}

var putCases = []Case{
	{Type: "index_put", Inputs: slots{"x": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "indices": {Ints(dims{2}, 0, -1), Ints(dims{2}, 2, 0)}, "value": One(Floats(dims{2}, 7, 8))},
		Want: slots{"out": One(Floats(dims{2, 3}, 1, 2, 7, 8, 5, 6))}},
	{Type: "index_put", Name: "rows", Inputs: slots{"x": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6)), "indices": {Int32s(dims{2, 1}, 2, 0)}, "value": One(Floats(dims{1, 2}, 7, 8))},
		Want: slots{"out": One(Floats(dims{3, 2}, 7, 8, 3, 4, 7, 8))}},
	{Type: "index_put", Name: "added", Attrs: attrs{"accumulate": true}, Inputs: slots{"x": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "indices": {Ints(dims{2, 1}, 1, 1), Ints(dims{2}, 0, 1)},
		"value": One(Floats(dims{2, 1}, 10, 20))}, Want: slots{"out": One(Floats(dims{2, 2}, 1, 2, 33, 34))}},
	{Type: "index_put", Name: "mask", Inputs: slots{"x": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "indices": {Bools(dims{2, 2}, true, false, false, true)}, "value": One(Floats(dims{1}, 9))},
		Want: slots{"out": One(Floats(dims{2, 2}, 9, 2, 3, 9))}},
	{Type: "index_put", Name: "mask of rows", Inputs: slots{"x": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6)), "indices": {Bools(dims{3}, true, false, true)}, "value": One(Floats(dims{2, 1}, 7, 8))},
		Want: slots{"out": One(Floats(dims{3, 2}, 7, 7, 3, 4, 8, 8))}},
	{Type: "index_put", Name: "whole numbers", Inputs: slots{"x": One(Ints(dims{2}, 1, 2)), "indices": {Ints(dims{3}, 1, 1, 1)}, "value": One(Ints(dims{3}, 7, 8, 9))},
		Want: slots{"out": One(Ints(dims{2}, 1, 9))}},
	{Type: "index_put", Name: "truth", Inputs: slots{"x": One(Bools(dims{2}, true, true)), "indices": {Ints(dims{1}, 1)}, "value": One(Bools(dims{1}, false))},
		Want: slots{"out": One(Bools(dims{2}, true, false))}},
}

func TestPuttingWhatDoesNotFit(t *testing.T) {
	x, value := One(Floats(dims{2, 2}, 1, 2, 3, 4)), One(Floats(dims{1}, 9))
	for _, c := range []struct {
		indices []*tensor.Tensor
		value   []*tensor.Tensor
		kind    fault.Kind
		want    string
	}{
		{One(Ints(dims{1}, 2)), value, fault.InvalidArgument, "-2 to 1"},
		{One(Bools(dims{3}, true, true, true)), value, fault.ShapeMismatch, "first extents"},
		{[]*tensor.Tensor{Bools(dims{2}, true, true), Ints(dims{1}, 0)}, value, fault.Unsupported, "one mask"},
		{[]*tensor.Tensor{Ints(dims{1}, 0), Ints(dims{1}, 0), Ints(dims{1}, 0)}, value, fault.ShapeMismatch, "1 to 2 tensors"},
		{[]*tensor.Tensor{Ints(dims{2}, 0, 0), Ints(dims{3}, 0, 0, 0)}, value, fault.ShapeMismatch, "extent is 1"},
		{One(Ints(dims{1}, 0)), One(Floats(dims{3}, 1, 2, 3)), fault.ShapeMismatch, "in place of some"},
		{One(Bools(dims{2}, true, false)), One(Floats(dims{2, 1}, 7, 8)), fault.ShapeMismatch, "that is true"},
	} {
		err := Golden(Case{Type: "index_put", Inputs: slots{"x": x, "indices": c.indices, "value": c.value}})
		if fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %v with %q", c.indices, err, c.kind, c.want)
		}
	}
}
