package math_test

import (
	"context"
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var productCases = []Case{
	{Type: "scale", Inputs: slots{"X": One(Floats(dims{2}, 1, 3))}, Attrs: attrs{"scale": float32(2), "bias": float32(0.5)},
		Want: slots{"Out": One(Floats(dims{2}, 2.5, 6.5))}},
	{Type: "scale", Name: "bias first", Inputs: slots{"X": One(Floats(dims{2}, 1, 3))},
		Attrs: attrs{"scale": float32(2), "bias": float32(0.5), "bias_after_scale": false},
		Want:  slots{"Out": One(Floats(dims{2}, 3, 7))}},
	{Type: "scale", Name: "int64", Inputs: slots{"X": One(Ints(dims{2}, 1, 3))}, Attrs: attrs{"scale": float32(2), "bias": float32(-1)},
		Want: slots{"Out": One(Ints(dims{2}, 1, 5))}},
	{Type: "sum", Inputs: slots{"X": One(Floats(dims{2, 1}, 1, 2), Floats(dims{2, 1}, 10, 20), Floats(dims{2, 1}, 100, 200))},
		Want: slots{"Out": One(Floats(dims{2, 1}, 111, 222))}},
	{Type: "sum", Name: "rows", Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(4, []int64{3, 0}, dims{2, 2}, 1, 2, 3, 4), Rows(4, []int64{3}, dims{1, 2}, 5, 6))},
		Want:   slots{"Out": One(Rows(4, []int64{3, 0, 3}, dims{3, 2}, 1, 2, 3, 4, 5, 6))}},
	{Type: "sum", Name: "one sparse term", Constant: []string{"X"}, Inputs: slots{"X": One(Rows(4, []int64{3, 0}, dims{2, 2}, 1, 2, 3, 4))},
		Want: slots{"Out": One(Rows(4, []int64{3, 0}, dims{2, 2}, 1, 2, 3, 4))}},
	{Type: "sum", Name: "rows and dense", Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(2, []int64{1, 0, 1}, dims{3, 1}, 1, 2, 3), Floats(dims{2, 1}, 10, 20))},
		Want:   slots{"Out": One(Floats(dims{2, 1}, 12, 24))}},
	{Type: "sum", Name: "as many rows as dense", Constant: []string{"X"},
		Inputs: slots{"X": One(Rows(2, []int64{1, 1}, dims{2, 1}, 1, 2), Floats(dims{2, 1}, 10, 20))},
		Want:   slots{"Out": One(Floats(dims{2, 1}, 10, 23))}},
	{Type: "sum", Name: "dense and rows", Constant: []string{"X"},
		Inputs: slots{"X": One(Floats(dims{2, 1}, 10, 20), Rows(2, []int64{1}, dims{1, 1}, 1))},
		Want:   slots{"Out": One(Floats(dims{2, 1}, 10, 21))}},
	{Type: "sum", Name: "one term", Inputs: slots{"X": One(Floats(dims{2}, 1, 2))}, Want: slots{"Out": One(Floats(dims{2}, 1, 2))}},
	{Type: "mean", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 6))}, Want: slots{"Out": One(Floats(dims{1}, 3))}},
	{Type: "mul", Inputs: slots{"X": One(Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)), "Y": One(Floats(dims{3, 2}, 1, 0, 0, 1, 2, -1))},
		Want: slots{"Out": One(Floats(dims{2, 2}, 7, -1, 16, -1))}},
	{Type: "mul", Name: "flattened", Inputs: slots{"X": One(Spread(1, 2, 1, 2, 3)), "Y": One(Spread(2, 3, 2, 2, 2))},
		Attrs: attrs{"x_num_col_dims": int32(2), "y_num_col_dims": int32(2)}},
	matmul("", nil, Floats(dims{2, 2}, 1, 2, 3, 4), Floats(dims{2, 2}, 1, 0, 2, -1), Floats(dims{2, 2}, 5, -2, 11, -4)),
	matmul("transposed", attrs{"transpose_X": true, "transpose_Y": true, "alpha": float32(0.5)},
		Floats(dims{2, 1}, 1, 2), Floats(dims{3, 2}, 1, 0, 2, -1, 4, 4), Floats(dims{1, 3}, 0.5, 0, 6)),
	matmul("cut by columns and rows", nil, Spread(1, 33, 2), Spread(2, 2, 50), nil),
	matmul("cut by columns and rows, transposed", attrs{"transpose_X": true, "transpose_Y": true}, Spread(1, 2, 33), Spread(2, 50, 2), nil),
	matmul("batched", attrs{"transpose_Y": true}, Floats(dims{2, 1, 2}, 1, 2, 3, 4), Floats(dims{2, 1, 2}, 1, 1, 2, -1), Floats(dims{2, 1, 1}, 3, 2)),
	matmul("batched, X transposed", attrs{"transpose_X": true}, Spread(1, 2, 3, 2), Spread(2, 2, 3, 4), nil),
	matmul("one Y for all", nil, Spread(1, 2, 2, 2, 3), Spread(2, 3, 2), nil),
	matmul("more matrices of X than of Y", attrs{"transpose_Y": true}, Spread(1, 2, 3, 2, 4), Spread(2, 3, 1, 4), nil),
	matmul("both broadcast", nil, Spread(1, 2, 1, 2, 3), Spread(2, 3, 3, 2), nil),
	matmul("both broadcast and transposed", attrs{"transpose_X": true, "transpose_Y": true}, Spread(1, 2, 1, 3, 2), Spread(2, 1, 3, 2, 3), nil),
	matmul("vectors", nil, Floats(dims{3}, 1, 2, 3), Floats(dims{3}, 4, 5, 6), Floats(dims{1}, 32)),
	matmul("column and row", attrs{"transpose_X": true, "transpose_Y": true}, Floats(dims{2}, 1, 2), Floats(dims{2}, 3, 4), Floats(dims{2, 2}, 3, 4, 6, 8)),
	matmul("row and matrices", nil, Floats(dims{2}, 1, 2), Spread(2, 3, 2, 2), nil),
	{Type: "matmul_v2", Attrs: attrs{"trans_y": true}, Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{1, 2}, 1, -1))},
		Want: slots{"Out": One(Floats(dims{2, 1}, -1, -1))}},
	{Type: "matmul_v2", Name: "column", Attrs: attrs{"trans_y": true}, Inputs: slots{"X": One(Spread(1, 2, 2, 3)), "Y": One(Spread(2, 3))}},
	{Type: "matmul_v2", Name: "broadcast", Attrs: attrs{"trans_x": true}, Inputs: slots{"X": One(Spread(1, 1, 2, 3)), "Y": One(Spread(2, 2, 2, 2, 2))}},
	{Type: "bmm", Inputs: slots{"X": One(Floats(dims{2, 1, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{2, 2, 1}, 1, 1, 2, -1))},
		Want: slots{"Out": One(Floats(dims{2, 1, 1}, 3, 2))}},
	{Type: "mv", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Vec": One(Floats(dims{2}, 1, -1))}, Want: slots{"Out": One(Floats(dims{2}, -1, -1))}},
	{Type: "dot", Inputs: slots{"X": One(Floats(dims{2, 2}, 1, 2, 3, 4)), "Y": One(Floats(dims{2, 2}, 1, -1, 2, 0))}, Want: slots{"Out": One(Floats(dims{2, 1}, -1, 6))}},
	{Type: "dot", Name: "vectors", Inputs: slots{"X": One(Floats(dims{2}, 1, 2)), "Y": One(Floats(dims{2}, 3, 4))}, Want: slots{"Out": One(Floats(dims{1}, 11))}},
	matmul("one X for all", attrs{"transpose_X": true, "transpose_Y": true}, Spread(1, 3, 2), Spread(2, 3, 2, 3), nil),
}

func TestSumOfOneVariableSeveralTimes(t *testing.T) {
	for _, out := range []string{"out", "x"} {
		x := Floats(dims{2}, 1, -2)
		m := NewInterpreter(map[string]*tensor.Tensor{"x": x}, ops.Step{})
		op := &program.Op{Type: "sum", Inputs: map[string][]string{"X": {"x", "x", "x"}}, Outputs: map[string][]string{"Out": {out}}}
		if err := m.Run(context.Background(), op); err != nil {
			t.Fatal(err)
		}
		if got := m.Vars[out].Float64s(); !slices.Equal(got, []float64{3, -6}) {
			t.Errorf("x + x + x into %s gives %v", out, got)
		}
	}
}

func matmul(name string, a attrs, x, y, want *tensor.Tensor) Case {
	c := Case{Type: "matmul", Name: name, Attrs: a, Inputs: slots{"X": One(x), "Y": One(y)}}
	if want != nil {
		c.Want = slots{"Out": One(want)}
	}
	return c
}
