package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// spread applies an op to several X.
func spread(op, name string, xs []*tensor.Tensor, want ...*tensor.Tensor) Case {
	return Case{Type: op, Name: name, Inputs: slots{"X": xs}, Outputs: map[string]int{"Out": len(xs)}, Want: slots{"Out": want}}
}

var spreadCases = []Case{
	spread("broadcast_tensors", "", One(Floats(dims{2, 1}, 1, 2), Floats(dims{3}, 3, 4, 5)),
		Floats(dims{2, 3}, 1, 1, 1, 2, 2, 2), Floats(dims{2, 3}, 3, 4, 5, 3, 4, 5)),
	spread("broadcast_tensors", "one", One(Ints(dims{2}, 1, 2)), Ints(dims{2}, 1, 2)),
	spread("meshgrid", "", One(Floats(dims{2}, 1, 2), Floats(dims{3}, 3, 4, 5)), Floats(dims{2, 3}, 1, 1, 1, 2, 2, 2), Floats(dims{2, 3}, 3, 4, 5, 3, 4, 5)),
	spread("meshgrid", "int64", One(Ints(dims{1}, 7), Ints(dims{2}, 8, 9), Ints(dims{1}, 6)), Ints(dims{1, 2, 1}, 7, 7), Ints(dims{1, 2, 1}, 8, 9), Ints(dims{1, 2, 1}, 6, 6)),
	{Type: "scale", Name: "factor from a tensor", Attrs: attrs{"bias": float32(1)}, Constant: []string{"ScaleTensor"},
		Inputs: slots{"X": One(Floats(dims{2}, 1, 2)), "ScaleTensor": One(Floats(dims{1}, 3))}, Want: slots{"Out": One(Floats(dims{2}, 4, 7))}},
	{Type: "scale", Name: "int64", Inputs: slots{"X": One(Ints(dims{2}, 1, 2)), "ScaleTensor": One(Int32s(dims{1}, 3))}, Want: slots{"Out": One(Ints(dims{2}, 3, 6))}},
	{Type: "pow", Name: "exponent from a tensor", Constant: []string{"FactorTensor"}, Inputs: slots{"X": One(Floats(dims{2}, 1, 3)), "FactorTensor": One(Floats(dims{1}, 2))},
		Want: slots{"Out": One(Floats(dims{2}, 1, 9))}},
}

func TestSpreadsRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []Case{
		spread("broadcast_tensors", "", One(Floats(dims{2}, 1, 2), Floats(dims{3}, 3, 4, 5))),
		spread("meshgrid", "", One(six)),
		{Type: "scale", Inputs: slots{"X": One(six), "ScaleTensor": One(six)}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.ShapeMismatch {
			t.Errorf("%v: %v", c, err)
		}
	}
}
