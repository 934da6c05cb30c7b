package sequence_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// network runs lstm over sequences, forwards and backwards, with the same weights every time.
func network(width int64, lengths []int64, input, dhidden []float32, attributes attrs) (*gradcheck.Interpreter, error) {
	random := rand.New(rand.NewPCG(1, 1))
	draw := func(dims ...int64) *tensor.Tensor {
		t, _ := tensor.New(tensor.Float32, dims...)
		for i := range t.Float32s() {
			t.Float32s()[i] = random.Float32() - 0.5
		}
		return t
	}
	rows := int64(len(input)) / (4 * width)
	parts := int64(7)
	if attributes["use_peepholes"] == false {
		parts = 4
	}
	x, err := tensor.FromSlice(input, rows, 4*width)
	if err != nil {
		return nil, err
	}
	dh, err := tensor.FromSlice(dhidden, rows, width)
	if err != nil {
		return nil, err
	}
	m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{
		"x": gradcheck.Sequences(x, lengths...), "w": draw(width, 4*width), "b": draw(1, parts*width), "h@GRAD": dh}, ops.Step{})
	op := &program.Op{Type: "lstm", Attrs: attributes,
		Inputs:  map[string][]string{"Input": {"x"}, "Weight": {"w"}, "Bias": {"b"}},
		Outputs: map[string][]string{"Hidden": {"h"}, "Cell": {"c"}, "BatchGate": {"g"}, "BatchCellPreAct": {"a"}}}
	def, _ := ops.Lookup("lstm")
	backward, err := def.Gradient(ops.NewGrad(op, def, func(name string) bool { return name == "h" }, func(name string) bool { return name == "x" }))
	if err != nil {
		return nil, err
	}
	return m, m.Run(context.Background(), append([]*program.Op{op}, backward...)...)
}

// TestSequencesAreIndependent runs a batch whole and sequence by sequence: the bits of outputs and of the gradient of the input are equal.
func TestSequencesAreIndependent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.OneOf(rapid.Int64Range(1, 40), rapid.SampledFrom([]int64{8, 32})).Draw(t, "width")
		lengths := rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 9).Draw(t, "lengths")
		attributes := attrs{"is_reverse": rapid.Bool().Draw(t, "reverse"), "use_peepholes": rapid.Bool().Draw(t, "peepholes")}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		rows := int64(0)
		for _, n := range lengths {
			rows += n
		}
		input, dhidden := make([]float32, rows*4*width), make([]float32, rows*width)
		for _, values := range [][]float32{input, dhidden} {
			for i := range values {
				values[i] = 4*random.Float32() - 2
			}
		}
		whole, err := network(width, lengths, slices.Clone(input), slices.Clone(dhidden), attributes)
		if err != nil {
			t.Fatal(err)
		}
		at := int64(0)
		for i, n := range lengths {
			one, err := network(width, lengths[i:i+1], slices.Clone(input[at*4*width:(at+n)*4*width]), slices.Clone(dhidden[at*width:(at+n)*width]),
				attributes)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"h", "c", "x@GRAD"} {
				part, err := whole.Vars[name].Rows(at, at+n)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(one.Vars[name].Float32s(), part.Float32s()) {
					t.Fatalf("%s of sequence %d differs", name, i)
				}
			}
			at += n
		}
	})
}

// TestKernelsRefuseOffsetsThatChanged swaps the LoD of a bound input.
func TestKernelsRefuseOffsetsThatChanged(t *testing.T) {
	for name, lod := range map[string][][]int64{
		"none":                nil,
		"too few rows":        {{0, 1, 2}},
		"another number":      {{0, 1, 2, 3}},
		"falling":             {{0, 4, 3}},
		"beyond the last row": {{0, 3, 1 << 40}},
	} {
		x := gradcheck.Sequences(gradcheck.Spread(1, 3, 2), 1, 2)
		m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{"x": x}, ops.Step{})
		kernel, err := m.Bind(&program.Op{Type: "sequence_pool", Inputs: map[string][]string{"X": {"x"}}, Outputs: map[string][]string{"Out": {"y"}}})
		if err != nil {
			t.Fatal(err)
		}
		x.SetLoD(lod)
		var f *fault.Fault
		if err := kernel(t.Context()); !errors.As(err, &f) || f.Op != "sequence_pool" || f.Variable != "x" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
