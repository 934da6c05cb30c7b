package math_test

import . "github.com/edl-go/edl/ops/gradcheck"

var printCases = []Case{
	{Type: "print", Inputs: slots{"In": One(Spread(1, 3, 2))}, Attrs: attrs{"message": "x", "first_n": int32(1)}},
	{Type: "print", Name: "integers", Inputs: slots{"In": One(Ints(dims{2}, 1, 2))}, Attrs: attrs{"print_phase": "FORWARD"}, Want: slots{"Out": One(Ints(dims{2}, 1, 2))}},
	{Type: "assert", Inputs: slots{"Cond": One(Bools(dims{1}, true)), "Data": One(Floats(dims{2}, 1, 2), Ints(dims{1}, 3))}},
	{Type: "equal_all", Constant: []string{"X", "Y"}, Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2)), "Y": One(Floats(dims{2, 1}, 1, 2))}, Want: slots{"Out": One(Bools(dims{1}, true))}},
	{Type: "equal_all", Name: "other dims", Inputs: slots{"X": One(Ints(dims{2, 1}, 1, 2)), "Y": One(Ints(dims{2}, 1, 2))}, Want: slots{"Out": One(Bools(dims{1}, false))}},
	{Type: "merge_selected_rows", Constant: []string{"X"}, Inputs: slots{"X": One(Rows(4, []int64{3, 0, 3}, dims{3, 2}, 1, 2, 3, 4, 5, 6))},
		Want: slots{"Out": One(Rows(4, []int64{0, 3, 4}, dims{3, 2}, 3, 4, 6, 8, 0, 0))}},
	{Type: "get_tensor_from_selected_rows", Constant: []string{"X"}, Inputs: slots{"X": One(Rows(4, []int64{0, 3, 4}, dims{3, 2}, 3, 4, 6, 8, 9, 9))},
		Want: slots{"Out": One(Floats(dims{3, 2}, 3, 4, 6, 8, 0, 0))}},
}
