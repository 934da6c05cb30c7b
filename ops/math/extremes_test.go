package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// extremes applies cummax or cummin.
func extremes(op, name string, a attrs, x, out, places *tensor.Tensor) Case {
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"x": One(x)}, Want: slots{"out": One(out), "indices": One(places)}}
}

// withEquals has equal elements, of which the last counts.
var withEquals = Ints(dims{2, 4}, 1, 3, 3, 2, 2, 2, 1, 4)

// The numbers are those of PyTorch; its renorm divides by the norm plus 1e-7, which Fluid does not.
var extremeCases = []Case{
	extremes("cummax", "", nil, withEquals, Ints(dims{2, 4}, 1, 3, 3, 3, 2, 2, 2, 4), Ints(dims{2, 4}, 0, 1, 2, 2, 0, 1, 1, 3)),
	extremes("cummax", "first axis", attrs{"axis": int32(0), "dtype": int32(tensor.Int32)}, withEquals, Ints(dims{2, 4}, 1, 3, 3, 2, 2, 3, 3, 4), Int32s(dims{2, 4}, 0, 0, 0, 0, 1, 0, 0, 1)),
	extremes("cummin", "", attrs{"axis": int32(-1)}, withEquals, Ints(dims{2, 4}, 1, 1, 1, 1, 2, 2, 1, 1), Ints(dims{2, 4}, 0, 0, 0, 0, 0, 1, 2, 2)),
	extremes("cummin", "first axis", attrs{"axis": int32(0)}, withEquals, Ints(dims{2, 4}, 1, 3, 3, 2, 1, 2, 1, 2), Ints(dims{2, 4}, 0, 0, 0, 0, 0, 1, 1, 0)),
	extremes("cummax", "floats", nil, mixed, Floats(dims{2, 3}, 3, 3, 3, 4, 6, 6), Ints(dims{2, 3}, 0, 0, 0, 0, 1, 1)),
	extremes("cummin", "int32 places", attrs{"dtype": int32(tensor.Int32)}, mixed, Floats(dims{2, 3}, 3, 1, 1, 4, 4, 4), Int32s(dims{2, 3}, 0, 1, 1, 0, 0, 0)),
	{Type: "cummax", Name: "a middle axis", Attrs: attrs{"axis": int32(1)}, Inputs: slots{"x": One(Spread(3, 2, 3, 2))}},
	{Type: "cummin", Name: "rows", Attrs: attrs{"axis": int32(0)}, Inputs: slots{"x": One(Spread(2, 4, 2))}},
	renorm("rows", 2, 0, 1.5, Floats(dims{2, 3}, 0.5, 1, -1, -3*1.5/math.Sqrt(10.25), 0.5*1.5/math.Sqrt(10.25), 1.5/math.Sqrt(10.25))),
	renorm("columns", 1, 1, 2, Floats(dims{2, 3}, 0.5, 1.6, -4./3, -1.5, 0.4, 2./3)),
	renorm("within", 3, 0, 3.5, opposite),
	renorm("other power", 2.5, -1, 2, nil),
	{Type: "renorm", Name: "a middle axis", Attrs: attrs{"p": float32(3), "axis": int32(1), "max_norm": float32(0.75)}, Inputs: slots{"X": One(Spread(1, 2, 3, 2))}},
	{Type: "renorm", Name: "nothing left", Attrs: attrs{"p": float32(2), "axis": int32(0), "max_norm": float32(0)}, Inputs: slots{"X": One(Floats(dims{2, 1}, 3, 0))},
		Want: slots{"Out": One(Floats(dims{2, 1}, 0, 0))}, NoDifferences: true},
}

var opposite = Floats(dims{2, 3}, 1, 2, -2, -3, 0.5, 1)

// renorm limits norms of opposite.
func renorm(name string, p float32, axis int32, most float32, want *tensor.Tensor) Case {
	c := Case{Type: "renorm", Name: name, Attrs: attrs{"p": p, "axis": axis, "max_norm": most}, Inputs: slots{"X": One(opposite)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

func TestExtremesAfterNaN(t *testing.T) {
	nan := math.NaN()
	for _, op := range []string{"cummax", "cummin"} {
		c := extremes(op, "", nil, Floats(dims{4}, 1, nan, 3, nan), Floats(dims{4}, 1, nan, nan, nan), Ints(dims{4}, 0, 1, 1, 3))
		if err := Golden(c); err != nil {
			t.Error(err)
		}
	}
}

func TestExtremesAndNormsRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []Case{
		extremes("cummax", "", attrs{"axis": int32(2)}, mixed, nil, nil),
		extremes("cummin", "", attrs{"dtype": int32(tensor.Float32)}, mixed, nil, nil),
		renorm("p", 0, 0, 1, nil),
		renorm("p", float32(math.Inf(1)), 0, 1, nil),
		renorm("axis", 2, 2, 1, nil),
		renorm("max_norm", 2, 0, -1, nil),
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := Golden(extremes("cummax", "", nil, Bools(dims{1}, true), nil, nil)); fault.KindOf(err) != fault.Unsupported {
		t.Errorf("bool: %v", err)
	}
}
