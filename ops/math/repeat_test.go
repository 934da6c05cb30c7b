package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// repeated repeats places of x as often as counts says.
func repeated(name string, dim int32, x, counts, want *tensor.Tensor) Case {
	c := Case{Type: "repeat_interleave", Name: name, Attrs: attrs{"dim": dim}, Inputs: slots{"X": One(x), "RepeatsTensor": One(counts)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var repeatCases = []Case{
	along("repeat_interleave", "", attrs{"Repeats": int32(2)}, Floats(dims{2, 2}, 1, 2, 3, 4), slots{"Out": One(Floats(dims{4, 2}, 1, 2, 1, 2, 3, 4, 3, 4))}),
	along("repeat_interleave", "columns", attrs{"Repeats": int32(3), "dim": int32(-1)}, Ints(dims{2, 2}, 1, 2, 3, 4), slots{"Out": One(Ints(dims{2, 6}, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4))}),
	along("repeat_interleave", "a middle axis", attrs{"Repeats": int32(2), "dim": int32(1)}, Spread(1, 2, 3, 2), nil),
	repeated("numbers", 0, Floats(dims{3, 1}, 1, 2, 3), Ints(dims{3}, 2, 0, 1), Floats(dims{3, 1}, 1, 1, 3)),
	repeated("numbers of columns", 1, Floats(dims{2, 2}, 1, 2, 3, 4), Int32s(dims{2}, 1, 2), Floats(dims{2, 3}, 1, 2, 2, 3, 4, 4)),
	repeated("truth", 0, Bools(dims{2}, true, false), Ints(dims{2}, 1, 2), Bools(dims{3}, true, false, false)),
}

func TestRepeatsRefuseNumbersThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{along("repeat_interleave", "none", nil, mixed, nil), fault.InvalidArgument},
		{along("repeat_interleave", "axis", attrs{"Repeats": int32(1), "dim": int32(2)}, mixed, nil), fault.InvalidArgument},
		{repeated("negative", 0, mixed, Ints(dims{2}, 1, -1), nil), fault.InvalidArgument},
		{repeated("too large", 0, mixed, Ints(dims{2}, 1, 1<<40), nil), fault.InvalidArgument},
		{repeated("too few", 0, mixed, Ints(dims{1}, 1), nil), fault.ShapeMismatch},
		{repeated("no integers", 0, mixed, Floats(dims{2}, 1, 1), nil), fault.TypeMismatch},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}
