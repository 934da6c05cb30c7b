package math_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

var six = Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6)

// chosen applies an op to X and Index.
func chosen(op, name string, a attrs, x, index, want *tensor.Tensor) Case {
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"X": One(x), "Index": One(index)}, Want: slots{"Out": One(want)}}
}

var gatherCases = []Case{
	chosen("gather", "", nil, six, Ints(dims{4}, 2, 0, 0, 1), Floats(dims{4, 2}, 5, 6, 1, 2, 1, 2, 3, 4)),
	chosen("gather", "int32 column", nil, six, Int32s(dims{2, 1}, 1, 1), Floats(dims{2, 2}, 3, 4, 3, 4)),
	chosen("gather", "last axis", attrs{"axis": int32(-1)}, six, Ints(dims{3}, 1, 0, 1), Floats(dims{3, 3}, 2, 1, 2, 4, 3, 4, 6, 5, 6)),
	chosen("gather", "one number", nil, six, Ints(dims{}, 2), Floats(dims{2}, 5, 6)),
	chosen("gather", "int64", nil, Ints(dims{3}, 7, 8, 9), Ints(dims{2}, 2, 1), Ints(dims{2}, 9, 8)),
	chosen("gather", "none", nil, six, Ints(dims{0}), Floats(dims{0, 2})),
	{Type: "gather", Name: "axis from a tensor", Inputs: slots{"X": One(six), "Index": One(Ints(dims{1}, 1)), "Axis": One(Int32s(dims{1}, 1))},
		Want: slots{"Out": One(Floats(dims{3, 1}, 2, 4, 6))}},
	chosen("index_select", "", attrs{"dim": int32(1)}, Spread(2, 2, 3, 2), Int32s(dims{2}, 2, 2), Floats(dims{2, 2, 2}, threeByTwo(2, 2, 5, 5)...)),
	chosen("gather_nd", "elements", nil, six, Ints(dims{2, 2}, 2, 1, 0, -1), Floats(dims{2}, 6, 2)),
	chosen("gather_nd", "rows", nil, six, Int32s(dims{2, 1, 1}, 2, 2), Floats(dims{2, 1, 2}, 5, 6, 5, 6)),
	chosen("gather_nd", "one", nil, six, Ints(dims{2}, 1, 1), Floats(dims{1}, 4)),
	chosen("index_sample", "", nil, Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6), Ints(dims{2, 2}, 2, 2, 0, 1), Floats(dims{2, 2}, 3, 3, 4, 5)),
	scattered("scatter", "", attrs{"overwrite": true}, six, Ints(dims{2}, 2, 0), Floats(dims{2, 2}, 10, 20, 30, 40), Floats(dims{3, 2}, 30, 40, 3, 4, 10, 20)),
	scattered("scatter", "sums", attrs{"overwrite": false}, six, Int32s(dims{3, 1}, 2, 0, 2), Floats(dims{3, 2}, 10, 20, 30, 40, 50, 60),
		Floats(dims{3, 2}, 30, 40, 3, 4, 60, 80)),
	scattered("scatter", "int64", nil, Ints(dims{2}, 1, 2), Ints(dims{2}, 1, 1), Ints(dims{2}, 7, 8), Ints(dims{2}, 1, 8)),
	added("", nil, six, Ints(dims{3}, 2, 0, 2), Floats(dims{3, 2}, 10, 20, 30, 40, 50, 60), Floats(dims{3, 2}, 31, 42, 3, 4, 65, 86)),
	added("columns", attrs{"axis": int32(-1)}, six, Int32s(dims{2}, 1, 1), Floats(dims{3, 2}, 10, 20, 30, 40, 50, 60), Floats(dims{3, 2}, 1, 32, 3, 74, 5, 116)),
	added("whole numbers", nil, Ints(dims{2}, 1, 2), Ints(dims{1}, 1), Ints(dims{1}, 5), Ints(dims{2}, 1, 7)),
	added("a middle axis", attrs{"axis": int32(1)}, Spread(2, 2, 3, 2), Ints(dims{2}, 2, 0), Spread(3, 2, 2, 2), nil),
	scattered("scatter_nd_add", "elements", nil, six, Ints(dims{3, 2}, 0, 0, 2, 1, 0, 0), Floats(dims{3}, 10, 20, 30), Floats(dims{3, 2}, 41, 2, 3, 4, 5, 26)),
	scattered("scatter_nd_add", "rows", nil, six, Int32s(dims{2, 1}, 1, -2), Floats(dims{2, 2}, 10, 20, 30, 40), Floats(dims{3, 2}, 1, 2, 43, 64, 5, 6)),
	{Type: "where", Inputs: slots{"Condition": One(Bools(dims{3}, true, false, true)), "X": One(Floats(dims{3}, 1, 2, 3)), "Y": One(Floats(dims{3}, 4, 5, 6))},
		Want: slots{"Out": One(Floats(dims{3}, 1, 5, 3))}},
	{Type: "where", Name: "bool", Inputs: slots{"Condition": One(Bools(dims{1}, false)), "X": One(Bools(dims{1}, true)), "Y": One(Bools(dims{1}, false))},
		Want: slots{"Out": One(Bools(dims{1}, false))}},
	{Type: "multiplex", Inputs: slots{"Ids": One(Int32s(dims{3, 1}, 1, 0, 1)), "X": One(six, Floats(dims{3, 2}, 10, 20, 30, 40, 50, 60))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 10, 20, 3, 4, 50, 60))}},
	{Type: "multiplex", Name: "int64", Inputs: slots{"Ids": One(Ints(dims{2}, 0, 1)), "X": One(Ints(dims{2}, 1, 2), Ints(dims{2}, 3, 4))},
		Want: slots{"Out": One(Ints(dims{2}, 1, 4))}},
}

// scattered applies an op to X, places and updates.
func scattered(op, name string, a attrs, x, index, updates, want *tensor.Tensor) Case {
	slot := "Index"
	if op == "scatter" {
		slot = "Ids"
	}
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"X": One(x), slot: One(index), "Updates": One(updates)}, Want: slots{"Out": One(want)}}
}

// added applies index_add.
func added(name string, a attrs, x, index, values, want *tensor.Tensor) Case {
	c := Case{Type: "index_add", Name: name, Attrs: a, Inputs: slots{"X": One(x), "Index": One(index), "AddValue": One(values)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}

// threeByTwo returns rows of two of the tensor Spread(2, 2, 3, 2) by their numbers.
func threeByTwo(rows ...int) (values []float64) {
	all := Spread(2, 2, 3, 2).Float64s()
	for _, row := range rows {
		values = append(values, all[2*row:2*row+2]...)
	}
	return values
}

func TestGathersNameTheIndexThatIsWrong(t *testing.T) {
	for _, c := range []Case{
		chosen("gather", "beyond", nil, six, Ints(dims{2}, 0, 3), six),
		chosen("gather", "negative", nil, six, Ints(dims{2}, 0, -1), six),
		chosen("gather_nd", "beyond", nil, six, Ints(dims{1, 2}, 0, 2), six),
		chosen("gather_nd", "negative", nil, six, Ints(dims{1, 2}, -4, 0), six),
		chosen("index_sample", "beyond", nil, six, Ints(dims{3, 1}, 0, 1, 2), six),
		scattered("scatter", "beyond", nil, six, Ints(dims{1}, 3), Floats(dims{1, 2}, 1, 2), six),
		added("beyond", nil, six, Ints(dims{1}, 3), Floats(dims{1, 2}, 1, 2), nil),
		added("negative", nil, six, Ints(dims{1}, -1), Floats(dims{1, 2}, 1, 2), nil),
		scattered("scatter_nd_add", "beyond", nil, six, Ints(dims{1, 1}, 3), Floats(dims{1, 2}, 1, 2), six),
		{Type: "multiplex", Inputs: slots{"Ids": One(Ints(dims{3, 1}, 0, 1, 0)), "X": One(six)}},
	} {
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", c, err)
		}
	}
}
