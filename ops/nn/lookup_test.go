package nn_test

import (
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var table = Floats(dims{3, 2}, 0, 1, 10, 11, 20, 21)

func lookup(op, name string, a attrs, ids *tensor.Tensor, want *tensor.Tensor) Case {
	c := Case{Type: op, Name: name, Attrs: a, Inputs: slots{"W": One(table), "Ids": One(ids)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

var lookupCases = []Case{
	lookup("lookup_table", "", nil, Ints(dims{3, 1}, 2, 0, 2), Floats(dims{3, 2}, 20, 21, 0, 1, 20, 21)),
	lookup("lookup_table", "sparse", attrs{"is_sparse": true}, Ints(dims{4, 1}, 2, 0, 2, 2), Floats(dims{4, 2}, 20, 21, 0, 1, 20, 21, 20, 21)),
	lookup("lookup_table", "sparse padding", attrs{"is_sparse": true, "padding_idx": int64(0)}, Ints(dims{3, 1}, 2, 0, 2),
		Floats(dims{3, 2}, 20, 21, 0, 0, 20, 21)),
	lookup("lookup_table_v2", "sparse", attrs{"is_sparse": true}, Ints(dims{2, 2}, 1, 1, 0, 1), nil),
	lookup("lookup_table_v2", "sparse, no ids", attrs{"is_sparse": true}, Ints(dims{0}), nil),
	lookup("lookup_table", "padding", attrs{"padding_idx": int64(2)}, Ints(dims{3, 1}, 2, 0, 2), Floats(dims{3, 2}, 0, 0, 0, 1, 0, 0)),
	lookup("lookup_table", "sequences", nil, Ints(dims{1, 2, 1}, 1, 0), Floats(dims{1, 2, 2}, 10, 11, 0, 1)),
	lookup("lookup_table_v2", "", nil, Ints(dims{2, 1}, 1, 1), Floats(dims{2, 1, 2}, 10, 11, 10, 11)),
	lookup("lookup_table_v2", "no ids", nil, Ints(dims{0}), Floats(dims{0, 2})),
	{Type: "lookup_table_rows_grad", Attrs: attrs{"shape": []int64{3, 2}}, Inputs: slots{"Ids": One(Ints(dims{3, 1}, 2, 0, 2)),
		"Out@GRAD": One(Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6))}, Want: slots{"W@GRAD": One(Rows(3, []int64{2, 0, 2}, dims{3, 2}, 1, 2, 3, 4, 5, 6))}},
	lookup("lookup_table", "padding that is no row", attrs{"padding_idx": int64(7)}, Ints(dims{2, 1}, 2, 0), Floats(dims{2, 2}, 20, 21, 0, 1)),
	{Type: "lookup_table_rows_grad", Name: "padding", Attrs: attrs{"shape": []int64{3, 2}, "padding_idx": int64(2)}, Inputs: slots{
		"Ids": One(Ints(dims{2}, 2, 1)), "Out@GRAD": One(Floats(dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"W@GRAD": One(Rows(3, []int64{2, 1}, dims{2, 2}, 0, 0, 3, 4))}},
}

func TestIdsOutsideOfTheTable(t *testing.T) {
	for _, id := range []int64{3, -1, 1 << 62} {
		err := Golden(lookup("lookup_table", "", nil, Ints(dims{3, 1}, 2, 0, id), nil))
		if fault.KindOf(err) != fault.InvalidArgument ||
			!strings.Contains(err.Error(), "in row 2") || !strings.Contains(err.Error(), "variable \"Ids.0\"") {
			t.Errorf("id %d: %v", id, err)
		}
	}
}
