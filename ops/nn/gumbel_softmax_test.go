package nn_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

var gumbelCases = []Case{
	{Type: "gumbel_softmax", Inputs: slots{"X": One(Spread(1, 3, 4))}, Outputs: map[string]int{"Soft": 0}},
	{Type: "gumbel_softmax", Name: "axis, temperature", Inputs: slots{"X": One(Spread(2, 3, 4, 2))}, Outputs: map[string]int{"Soft": 0}, Attrs: attrs{"axis": int32(1), "temperature": float32(0.5)}},
	{Type: "gumbel_softmax", Name: "hard", Inputs: slots{"X": One(Spread(1, 3, 4))}, Attrs: attrs{"hard": true}, NoDifferences: true},
	{Type: "gumbel_softmax", Name: "one class", Inputs: slots{"X": One(Spread(1, 2, 1))}, Attrs: attrs{"hard": true, "temperature": float32(2)}, NoDifferences: true, Want: slots{"Out": One(Floats(dims{2, 1}, 1, 1))}},
}

// gumbel runs gumbel_softmax over x, and its gradient for a gradient of Out.
func gumbel(t *testing.T, a attrs, step ops.Step, x, dout *tensor.Tensor) map[string]*tensor.Tensor {
	t.Helper()
	m := NewInterpreter(map[string]*tensor.Tensor{"x": x, "dout": dout}, step)
	forward := &program.Op{Type: "gumbel_softmax", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"out"}, "Soft": {"soft"}}, Attrs: a}
	backward := &program.Op{Type: "gumbel_softmax_grad", Inputs: map[string][]string{"X": {"x"}, "Out": {"out"}, "Soft": {"soft"}, "Out@GRAD": {"dout"}}, Outputs: map[string][]string{"X@GRAD": {"dx"}}, Attrs: a}
	if err := m.Run(context.Background(), forward, backward); err != nil {
		t.Fatal(err)
	}
	return m.Vars
}

func TestHardGumbelSoftmaxHasTheGradientOfTheSoftOne(t *testing.T) {
	x, dout, step := Spread(1, 3, 4), Spread(5, 3, 4), ops.Step{Round: 2, Rows: 3}
	soft := gumbel(t, attrs{"temperature": float32(0.5)}, step, x, dout)
	hard := gumbel(t, attrs{"temperature": float32(0.5), "hard": true}, step, x, dout)
	if !slices.Equal(hard["dx"].Float64s(), soft["dx"].Float64s()) || !slices.Equal(hard["soft"].Float64s(), soft["out"].Float64s()) {
		t.Errorf("gradients %v and %v", hard["dx"].Float64s(), soft["dx"].Float64s())
	}
	for row := range 3 {
		values, best := hard["out"].Float64s()[4*row:][:4], soft["out"].Float64s()[4*row:][:4]
		for k, v := range values {
			if want := best[k] == slices.Max(best); (v == 1) != want || v != 0 && v != 1 {
				t.Errorf("row %d: %v of %v", row, values, best)
			}
		}
	}
}

// Classes are drawn as often as the softmax of X says, and parts of a batch draw what the whole does.
func TestGumbelSoftmaxDrawsBySoftmax(t *testing.T) {
	const rows = 6000
	draw := func(first, n int64, step ops.Step) []float64 {
		x, err := tensor.FromSlice(slices.Repeat([]float64{0, math.Log(3)}, int(n)), n, 2)
		if err != nil {
			t.Fatal(err)
		}
		return gumbel(t, attrs{"hard": true}, step, x, Spread(1, n, 2))["out"].Float64s()
	}
	whole := draw(0, rows, ops.Step{Round: 3, Rows: rows})
	if part := draw(1000, 2000, ops.Step{Round: 3, RowOffset: 1000, Rows: 2000}); !slices.Equal(part, whole[2000:6000]) {
		t.Error("a part of the batch draws something else")
	}
	drawn := 0.0
	for i := 1; i < len(whole); i += 2 {
		drawn += whole[i]
	}
	if share := drawn / rows; share < 0.72 || share > 0.78 {
		t.Errorf("the second class in a share of %v, want 3/4", share)
	}
	if next := draw(0, rows, ops.Step{Round: 4, Rows: rows}); slices.Equal(next, whole) {
		t.Error("the next step draws the same")
	}
}

func TestGumbelSoftmaxThatDoesNotFit(t *testing.T) {
	for _, temperature := range []float32{0, -1, float32(math.NaN()), float32(math.Inf(1))} {
		c := Case{Type: "gumbel_softmax", Inputs: slots{"X": One(Spread(1, 2, 2))}, Attrs: attrs{"temperature": temperature}}
		if err := Golden(c); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%v: %v", temperature, err)
		}
	}
}
