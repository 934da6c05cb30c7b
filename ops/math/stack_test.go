package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
)

var stackCases = []Case{
	{Type: "stack", Inputs: slots{"X": One(Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4), Floats(dims{2}, 5, 6))},
		Want: slots{"Y": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6))}},
	{Type: "stack", Name: "last axis", Attrs: attrs{"axis": int32(-1)}, Inputs: slots{"X": One(Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4))},
		Want: slots{"Y": One(Floats(dims{2, 2}, 1, 3, 2, 4))}},
	{Type: "stack", Name: "int64", Attrs: attrs{"axis": int32(1)}, Inputs: slots{"X": One(Ints(dims{1, 2}, 1, 2), Ints(dims{1, 2}, 3, 4))},
		Want: slots{"Y": One(Ints(dims{1, 2, 2}, 1, 2, 3, 4))}},
	{Type: "unstack", Attrs: attrs{"axis": int32(1), "num": int32(2)}, Outputs: map[string]int{"Y": 2}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Y": One(Floats(dims{2}, 1, 3), Floats(dims{2}, 2, 4))}},
	{Type: "unbind", Outputs: map[string]int{"Out": 2}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4))}},
}

func TestStacksRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{Case{Type: "stack", Inputs: slots{"X": One(Spread(1, 2), Spread(1, 3))}}, fault.ShapeMismatch},
		{Case{Type: "stack", Attrs: attrs{"axis": int32(2)}, Inputs: slots{"X": One(Spread(1, 2))}}, fault.InvalidArgument},
		{Case{Type: "unstack", Outputs: map[string]int{"Y": 3}, Inputs: slots{"X": One(Spread(1, 2, 2))}}, fault.ShapeMismatch},
		{Case{Type: "unstack", Attrs: attrs{"num": int32(3)}, Outputs: map[string]int{"Y": 2}, Inputs: slots{"X": One(Spread(1, 2, 2))}}, fault.InvalidArgument},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v %v: %v, want %v", c.c, c.c.Attrs, err, c.kind)
		}
	}
}
