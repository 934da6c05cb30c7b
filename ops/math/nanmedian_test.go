package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

func medians(name string, a attrs, x, out, places *tensor.Tensor) Case {
	c := Case{Type: "nanmedian", Name: name, Attrs: a, Inputs: slots{"X": One(x)}, Want: slots{}}
	if out != nil {
		c.Want["Out"] = One(out)
	}
	if places != nil {
		c.Want["MedianIndex"] = One(places)
	}
	return c
}

var medianCases = []Case{
	medians("all", nil, mixed, Floats(dims{1, 1}, 3.5), Ints(dims{1, 1, 2}, 0, 3)),
	medians("all, without axes", attrs{"keepdim": false}, Floats(dims{3}, 3, 1, 2), Floats(dims{1}, 2), Ints(dims{1, 2}, 2, 2)),
	medians("rows", attrs{"axis": []int32{1}, "keepdim": false}, mixed, Floats(dims{2}, 2, 5), Ints(dims{2, 2}, 2, 2, 2, 2)),
	medians("columns", attrs{"axis": []int32{-2}}, mixed, Floats(dims{1, 3}, 3.5, 3.5, 3.5), Ints(dims{1, 3, 2}, 0, 1, 0, 1, 0, 1)),
	medians("whole numbers", attrs{"axis": []int32{0}}, Ints(dims{4, 1}, 9, 1, 4, 1), Ints(dims{1, 1}, 2), Ints(dims{1, 1, 2}, 3, 2)),
	medians("two axes", attrs{"axis": []int32{2, 0}, "keepdim": false}, Spread(1, 2, 3, 2), nil, nil),
}

func TestMediansOfWhatIsNoNumber(t *testing.T) {
	nan := math.NaN()
	c := medians("", attrs{"axis": []int32{1}, "keepdim": false}, Floats(dims{3, 3}, nan, 4, 1, nan, nan, nan, 5, nan, nan), Floats(dims{3}, 2.5, nan, 5), Ints(dims{3, 2}, 2, 1, -1, -1, 0, 0))
	if err := Golden(c); err != nil {
		t.Error(err)
	}
}

func TestMediansRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{medians("axis", attrs{"axis": []int32{2}}, mixed, nil, nil), fault.InvalidArgument},
		{medians("twice", attrs{"axis": []int32{1, -1}}, mixed, nil, nil), fault.InvalidArgument},
		{medians("none", attrs{"axis": []int32{1}}, Floats(dims{2, 0}), nil, nil), fault.ShapeMismatch},
		{medians("bool", nil, Bools(dims{1}, true), nil, nil), fault.Unsupported},
		{Case{Type: "nanmedian_grad", Attrs: attrs{"axis": []int32{1}}, Inputs: slots{"X": One(mixed), "MedianIndex": One(Ints(dims{2, 1, 2}, 0, 3, 0, 0)), "Out@GRAD": One(Floats(dims{2, 1}, 1, 1))}},
			fault.InvalidArgument},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}
