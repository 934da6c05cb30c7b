package sequence_test

import (
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/tensor"
)

// Two sequences of 2 and 1 rows beside sequences of 3 and 1, and channels of their grids.
func grids(seed int, channels int64) slots {
	return slots{
		"X":      gradcheck.One(ragged(seed, 1, channels*6, channels)),
		"ROW":    gradcheck.One(ragged(1, 1, 2, 1)),
		"COLUMN": gradcheck.One(ragged(2, 2, 3, 1)),
	}
}

func with(in slots, slot string, value *tensor.Tensor) slots {
	in[slot] = gradcheck.One(value)
	return in
}

var gridOffsets = []string{"ROW", "COLUMN"}

func pairingCases() []gradcheck.Case {
	kernel := func(outputs, deep int64) *tensor.Tensor { return gradcheck.Spread(5, outputs, deep) }
	return []gradcheck.Case{
		{Name: "by hand", Type: "match_matrix_tensor", Inputs: slots{
			"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{3, 2}, 1, 0, 0, 1, 1, 1), 2, 1)),
			"Y": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{2, 2}, 1, 2, 3, 4), 1, 1)),
			"W": gradcheck.One(gradcheck.Floats(dims{2, 1, 2}, 1, 0, 0, 10))},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 1}, 1, 20, 43)), "Tmp": gradcheck.One(gradcheck.Floats(dims{6, 1}, 1, 0, 0, 10, 1, 10))}},
		{Name: "channels", Type: "match_matrix_tensor", Attrs: attrs{"dim_t": int32(3)}, Inputs: slots{
			"X": gradcheck.One(ragged(1, 2, 2, 0, 4, 1)), "Y": gradcheck.One(ragged(2, 3, 3, 2, 0, 2)), "W": gradcheck.One(gradcheck.Spread(3, 2, 3, 3))}},

		{Name: "by hand", Type: "var_conv_2d", Attrs: attrs{"KernelH": int32(2), "KernelW": int32(1), "StrideW": int32(2)}, Constant: gridOffsets,
			Inputs: with(with(grids(1, 1), "X", gradcheck.Sequences(gradcheck.Floats(dims{7, 1}, 1, 2, 3, 4, 5, 6, 7), 6, 1)), "W", gradcheck.Floats(dims{1, 2}, 10, 1)),
			Want:   slots{"Out": gradcheck.One(gradcheck.Floats(dims{5, 1}, 1, 3, 14, 36, 7))}},
		{Name: "channels", Type: "var_conv_2d", Constant: gridOffsets, Inputs: with(grids(3, 2), "W", kernel(3, 2*3*2)),
			Attrs: attrs{"InputChannel": int32(2), "OutputChannel": int32(3), "KernelH": int32(3), "KernelW": int32(2), "StrideH": int32(2)}},

		{Name: "by hand", Type: "sequence_topk_avg_pooling", Attrs: attrs{"topks": []int32{1, 2}, "channel_num": int32(1)}, Constant: gridOffsets,
			Inputs: with(grids(1, 1), "X", gradcheck.Sequences(gradcheck.Floats(dims{7, 1}, 1, 3, 2, 4, 6, 5, 8), 6, 1)),
			Want:   slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 2}, 3, 2.5, 6, 5.5, 8, 4)), "pos": gradcheck.One(gradcheck.Int32s(dims{6}, 1, 2, 1, 2, 0, -1))}},
		{Name: "channels, unordered", Type: "sequence_topk_avg_pooling", Constant: gridOffsets, Inputs: grids(4, 2),
			Attrs: attrs{"topks": []int32{5, 1, 2}, "channel_num": int32(2)}},
	}
}

// The elements of X must be those of the grids.
func TestGridsHaveTheirExtents(t *testing.T) {
	for _, lengths := range [][]int64{{6, 2}, {5, 1}} {
		in := func() slots { return with(grids(1, 1), "X", ragged(1, 1, lengths...)) }
		for _, c := range []gradcheck.Case{
			{Type: "sequence_topk_avg_pooling", Inputs: in(), Attrs: attrs{"topks": []int32{1}, "channel_num": int32(1)}},
			{Type: "var_conv_2d", Inputs: with(in(), "W", gradcheck.Spread(1, 1, 1))},
		} {
			if err := gradcheck.Golden(c); fault.KindOf(err) != fault.ShapeMismatch {
				t.Errorf("%s of %v elements: %v", c.Type, lengths, err)
			}
		}
	}
}
