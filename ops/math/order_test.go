package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// along applies an op to X.
func along(op, name string, a attrs, x *tensor.Tensor, want slots) Case {
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"X": One(x)}, Want: want}
}

func ln(x float64) float64 { return math.Log(x) }

var mixed = Floats(dims{2, 3}, 3, 1, 2, 4, 6, 5)

var orderCases = []Case{
	along("arg_max", "", nil, Floats(dims{2, 3}, 1, 3, 3, 4, 0, 2), slots{"Out": One(Ints(dims{2}, 1, 0))}),
	along("arg_max", "first axis", attrs{"axis": int64(0), "keepdims": true, "dtype": int32(tensor.Int32)}, mixed, slots{"Out": One(Int32s(dims{1, 3}, 1, 1, 1))}),
	along("arg_min", "flattened", attrs{"flatten": true, "dtype": int32(-1)}, Ints(dims{2, 2}, 3, 2, 1, 4), slots{"Out": One(Ints(dims{1}, 2))}),
	along("argsort", "", nil, mixed, slots{"Out": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "Indices": One(Ints(dims{2, 3}, 1, 2, 0, 0, 2, 1))}),
	along("argsort", "descending columns", attrs{"axis": int32(0), "descending": true}, mixed,
		slots{"Out": One(Floats(dims{2, 3}, 4, 6, 5, 3, 1, 2)), "Indices": One(Ints(dims{2, 3}, 1, 1, 1, 0, 0, 0))}),
	along("argsort", "equal", attrs{"descending": true}, Ints(dims{4}, 1, 2, 1, 2), slots{"Indices": One(Ints(dims{4}, 1, 3, 0, 2))}),
	along("top_k_v2", "", attrs{"k": int32(2)}, mixed, slots{"Out": One(Floats(dims{2, 2}, 3, 2, 6, 5)), "Indices": One(Ints(dims{2, 2}, 0, 2, 1, 2))}),
	along("top_k_v2", "smallest of columns", attrs{"largest": false, "axis": int32(0)}, mixed,
		slots{"Out": One(Floats(dims{1, 3}, 3, 1, 2)), "Indices": One(Ints(dims{1, 3}, 0, 0, 0))}),
	{Type: "top_k_v2", Name: "k from a tensor", Inputs: slots{"X": One(mixed), "K": One(Int32s(dims{1}, 3))}, Want: slots{"Indices": One(Ints(dims{2, 3}, 0, 2, 1, 1, 2, 0))}},
	along("cumsum", "", nil, six, slots{"Out": One(Floats(dims{3, 2}, 1, 3, 3, 7, 5, 11))}),
	along("cumsum", "reverse and exclusive", attrs{"axis": int32(0), "reverse": true, "exclusive": true}, six, slots{"Out": One(Floats(dims{3, 2}, 8, 10, 5, 6, 0, 0))}),
	along("cumsum", "exclusive", attrs{"axis": int32(0), "exclusive": true}, Ints(dims{3}, 1, 2, 3), slots{"Out": One(Ints(dims{3}, 0, 1, 3))}),
	along("cumsum", "flattened", attrs{"flatten": true}, six, slots{"Out": One(Floats(dims{6}, 1, 3, 6, 10, 15, 21))}),
	along("logcumsumexp", "", nil, Floats(dims{2, 2}, 0, 0, ln(2), ln(6)), slots{"Out": One(Floats(dims{2, 2}, 0, ln(2), ln(2), ln(8)))}),
	along("logcumsumexp", "large", nil, Floats(dims{3}, 1000, 1000, -1000), slots{"Out": One(Floats(dims{3}, 1000, 1000+ln(2), 1000+ln(2)))}),
	along("logcumsumexp", "falling", nil, Floats(dims{2}, -800, -800-ln(3)), slots{"Out": One(Floats(dims{2}, -800, -800+ln(4)-ln(3)))}),
	// The lowest number leaves no differences to measure; a test of the kernel has the gradient.
	{Type: "logcumsumexp", Name: "reverse and exclusive", Attrs: attrs{"axis": int32(0), "reverse": true, "exclusive": true}, Inputs: slots{"X": One(Floats(dims{3}, 5, ln(2), ln(3)))},
		Want: slots{"Out": One(Floats(dims{3}, ln(5), ln(3), -math.MaxFloat64))}, NoDifferences: true, NoFloat32: true},
	along("logcumsumexp", "flattened", attrs{"flatten": true}, Floats(dims{2, 1}, ln(2), ln(2)), slots{"Out": One(Floats(dims{2}, ln(2), ln(4)))}),
	along("logcumsumexp", "a middle axis", attrs{"axis": int32(1), "reverse": true}, Spread(1, 2, 3, 2), nil),
	along("shard_index", "", attrs{"index_num": int32(20), "nshards": int32(2), "shard_id": int32(1)}, Ints(dims{3, 1}, 1, 12, 19), slots{"Out": One(Ints(dims{3, 1}, -1, 2, 9))}),
}

func TestOrdersRefuseWhatDoesNotFit(t *testing.T) {
	for _, c := range []struct {
		c    Case
		kind fault.Kind
	}{
		{along("arg_max", "none", nil, Floats(dims{2, 0}), nil), fault.ShapeMismatch},
		{along("arg_max", "axis", attrs{"axis": int64(2)}, mixed, nil), fault.InvalidArgument},
		{along("arg_max", "dtype", attrs{"dtype": int32(5)}, mixed, nil), fault.InvalidArgument},
		{along("top_k_v2", "k", attrs{"k": int32(4)}, mixed, nil), fault.InvalidArgument},
		{along("shard_index", "number", attrs{"index_num": int32(2), "nshards": int32(2), "shard_id": int32(1)}, Ints(dims{1}, 2), nil), fault.InvalidArgument},
		{along("shard_index", "shard", attrs{"index_num": int32(2), "nshards": int32(2), "shard_id": int32(2)}, Ints(dims{1}, 1), nil), fault.InvalidArgument},
	} {
		if err := Golden(c.c); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v, want %v", c.c, err, c.kind)
		}
	}
}
