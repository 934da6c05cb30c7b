package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var partialCases = []Case{
	{Type: "partial_concat", Attrs: attrs{"start_index": int32(1), "length": int32(1)}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 5, 6, 7, 8))}, Want: slots{"Out": One(Floats(dims{2, 2}, 2, 6, 4, 8))}},
	{Type: "partial_concat", Name: "from the end", Attrs: attrs{"start_index": int32(-2)}, Inputs: slots{"X": One(Ints(dims{1, 3}, 1, 2, 3))}, Want: slots{"Out": One(Ints(dims{1, 2}, 2, 3))}},
	{Type: "partial_sum", Attrs: attrs{"length": int32(1)}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 5, 6, 7, 8))}, Want: slots{"Out": One(Floats(dims{2, 1}, 6, 10))}},
}

func TestColumnsThatAreNot(t *testing.T) {
	for _, a := range []attrs{{"start_index": int32(2)}, {"length": int32(3)}, {"length": int32(0)}, {"start_index": int32(-3)}} {
		if err := Golden(Case{Type: "partial_sum", Attrs: a, Inputs: slots{"X": One(Floats(dims{1, 2}, 1, 2))}}); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", a, err)
		}
	}
}
