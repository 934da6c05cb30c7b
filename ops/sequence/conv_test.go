package sequence_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func convCases() []gradcheck.Case {
	inputs := func(width, columns, length, pad int64) slots {
		in := slots{"X": gradcheck.One(ragged(1, width, lengths...)), "Filter": gradcheck.One(gradcheck.Spread(2, length*width, columns))}
		if pad > 0 {
			in["PaddingData"] = gradcheck.One(gradcheck.Spread(3, pad, width))
		}
		return in
	}
	return []gradcheck.Case{
		{Name: "by hand", Type: "sequence_conv", Attrs: attrs{"contextLength": int32(3), "contextStart": int32(-1)},
			Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{4, 1}, 1, 2, 3, 4), 3, 1)),
				"Filter": gradcheck.One(gradcheck.Floats(dims{3, 1}, 100, 10, 1))},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 1}, 12, 123, 230, 40))}},
		{Name: "padding by hand", Type: "sequence_conv", Attrs: attrs{"contextLength": int32(3), "contextStart": int32(-2), "paddingTrainable": true},
			Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{4, 1}, 1, 2, 3, 4), 3, 1)),
				"Filter": gradcheck.One(gradcheck.Floats(dims{3, 1}, 100, 10, 1)), "PaddingData": gradcheck.One(gradcheck.Floats(dims{2, 1}, 7, 8))},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 1}, 781, 812, 123, 784))}},
		{Name: "centered", Type: "sequence_conv", Inputs: inputs(3, 2, 3, 0), Attrs: attrs{"contextLength": int32(3), "contextStart": int32(-1)}},
		{Name: "after", Type: "sequence_conv", Inputs: inputs(2, 3, 2, 0), Attrs: attrs{"contextLength": int32(2), "contextStart": int32(2)}},
		{Name: "before", Type: "sequence_conv", Inputs: inputs(2, 3, 2, 0), Attrs: attrs{"contextLength": int32(2), "contextStart": int32(-4)}},
		{Name: "padded", Type: "sequence_conv", Inputs: inputs(2, 3, 4, 3),
			Attrs: attrs{"contextLength": int32(4), "contextStart": int32(-2), "paddingTrainable": true}},
		{Name: "padded before", Type: "sequence_conv", Inputs: inputs(2, 3, 2, 4),
			Attrs: attrs{"contextLength": int32(2), "contextStart": int32(-4), "paddingTrainable": true}},
		{Name: "long", Type: "sequence_conv", Inputs: slots{"X": gradcheck.One(ragged(1, 2, 70, 3)), "Filter": gradcheck.One(gradcheck.Spread(2, 6, 2))},
			Attrs: attrs{"contextLength": int32(3), "contextStart": int32(-1)}},
	}
}

var softmaxCases = []gradcheck.Case{
	{Name: "by hand", Type: "sequence_softmax",
		Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{4, 1}, 0, math.Log(3), 5, 5), 2, 0, 2))},
		Want:   slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 1}, 0.25, 0.75, 0.5, 0.5))}},
	{Name: "rank 1", Type: "sequence_softmax", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Spread(1, 6), 1, 5))}},
	{Name: "two levels", Type: "sequence_softmax", Inputs: slots{"X": gradcheck.One(func() *tensor.Tensor {
		x := gradcheck.Spread(2, 6, 1)
		x.SetLoD([][]int64{{0, 2, 3}, {0, 1, 4, 6}})
		return x
	}())}},
}

// TestSequencesOfAConvolutionAreIndependent convolves sequences together and one by one: the bits are equal.
func TestSequencesOfAConvolutionAreIndependent(t *testing.T) {
	const width, columns = 5, 7
	filter := gradcheck.Spread(2, 3*width, columns)
	run := func(x *tensor.Tensor) []float64 {
		m := gradcheck.NewInterpreter(map[string]*tensor.Tensor{"x": x, "w": filter}, ops.Step{})
		op := &program.Op{Type: "sequence_conv", Attrs: attrs{"contextLength": int32(3), "contextStart": int32(-1)},
			Inputs: map[string][]string{"X": {"x"}, "Filter": {"w"}}, Outputs: map[string][]string{"Out": {"y"}}}
		if err := m.Run(t.Context(), op); err != nil {
			t.Fatal(err)
		}
		return m.Vars["y"].Float64s()
	}
	whole := run(ragged(1, width, 4, 0, 33, 2))
	at := int64(0)
	for _, n := range []int64{4, 0, 33, 2} {
		part, err := ragged(1, width, 4, 0, 33, 2).Rows(at, at+n)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range run(gradcheck.Sequences(part, n)) {
			if v != whole[at*columns+int64(i)] {
				t.Fatalf("element %d of the sequence from row %d is %v alone and %v together", i, at, v, whole[at*columns+int64(i)])
			}
		}
		at += n
	}
}
