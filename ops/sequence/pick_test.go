package sequence_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// column makes rows of one number, in sequences of these lengths; without lengths they have no LoD.
func column(values []float64, lengths ...int64) []*tensor.Tensor {
	return one(gradcheck.Floats(dims{int64(len(values)), 1}, append([]float64{}, values...)...), lengths)
}

// words does so for whole numbers.
func words(values []int64, lengths ...int64) []*tensor.Tensor {
	return one(gradcheck.Ints(dims{int64(len(values)), 1}, values...), lengths)
}

func one(t *tensor.Tensor, lengths []int64) []*tensor.Tensor {
	if lengths != nil {
		t = gradcheck.Sequences(t, lengths...)
	}
	return gradcheck.One(t)
}

func twoLevelsOf(t *tensor.Tensor, outer, inner []int64) []*tensor.Tensor {
	t.SetLoD([][]int64{outer, inner})
	return gradcheck.One(t)
}

// pickCases have the examples of Fluid's pages.
func pickCases() []gradcheck.Case {
	reference := twoLevelsOf(gradcheck.Spread(3, 8, 1), []int64{0, 2, 4}, []int64{0, 3, 6, 7, 8})
	return []gradcheck.Case{
		{Name: "sequences", Type: "sequence_expand", Inputs: slots{"X": column([]float64{1, 2, 3, 4}, 2, 2), "Y": reference}, Constant: []string{"Y"},
			Attrs: attrs{"ref_level": int32(0)}, Want: slots{"Out": column([]float64{1, 2, 1, 2, 3, 4, 3, 4}, 2, 2, 2, 2)}},
		{Name: "rows", Type: "sequence_expand", Inputs: slots{"X": column([]float64{1, 2, 3}), "Y": gradcheck.One(ragged(1, 1, 2, 0, 3))}, Constant: []string{"Y"},
			Want: slots{"Out": column([]float64{1, 1, 3, 3, 3})}},
		{Name: "none", Type: "sequence_expand", Inputs: slots{"X": column([]float64{1, 2}), "Y": column(nil, 0, 0)}, Constant: []string{"Y"}},
		{Name: "wide", Type: "sequence_expand", Inputs: slots{"X": gradcheck.One(ragged(1, 3, 2, 1, 0, 3)), "Y": gradcheck.One(ragged(1, 2, 2, 3, 1, 0))},
			Constant: []string{"Y"}},
		{Type: "sequence_expand_as", Inputs: slots{"X": column([]float64{1, 2, 3}), "Y": gradcheck.One(ragged(1, 1, 2, 0, 3))}, Constant: []string{"Y"},
			Want: slots{"Out": column([]float64{1, 1, 3, 3, 3})}},
		{Name: "by hand", Type: "sequence_concat", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{3, 1}, 1, 2, 3), 2, 1),
			gradcheck.Sequences(gradcheck.Floats(dims{4, 1}, 4, 5, 6, 7), 0, 4))}, Want: slots{"Out": column([]float64{1, 2, 3, 4, 5, 6, 7}, 2, 5)}},
		{Name: "three", Type: "sequence_concat", Inputs: slots{"X": gradcheck.One(ragged(1, 3, 2, 0), ragged(2, 3, 0, 1), ragged(3, 3, 4, 2))}},
		{Name: "offsets", Type: "lod_reset", Inputs: slots{"X": gradcheck.One(ragged(1, 2, 4, 2))}, Attrs: attrs{"target_lod": []int32{0, 1, 6}}},
		{Name: "append", Type: "lod_reset", Inputs: slots{"X": gradcheck.One(ragged(1, 2, 4, 2))},
			Attrs: attrs{"target_lod": []int32{0, 1, 2, 3, 4, 5, 6}, "append": true}},
		{Name: "of Y", Type: "lod_reset", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 4, 2)), "Y": gradcheck.One(ragged(1, 1, 1, 3))}, Constant: []string{"Y"}},
		{Name: "values of Y", Type: "lod_reset", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 4, 2)), "Y": gradcheck.One(gradcheck.Int32s(dims{3}, 0, 3, 4))}},
		{Name: "by hand", Type: "sequence_reshape", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6), 2, 1))},
			Attrs: attrs{"new_dim": int32(1)}, Want: slots{"Out": column([]float64{1, 2, 3, 4, 5, 6}, 4, 2)}},
		{Name: "wider", Type: "sequence_reshape", Inputs: slots{"X": gradcheck.One(ragged(2, 2, 4, 2))}, Attrs: attrs{"new_dim": int32(4)}},
		{Name: "by hand", Type: "sequence_slice", Inputs: slots{"X": column([]float64{1, 2, 3, 4, 5}, 3, 2), "Offset": words([]int64{1, 0}), "Length": words([]int64{2, 1})},
			Want: slots{"Out": column([]float64{2, 3, 4})}},
		{Name: "wide", Type: "sequence_slice", Inputs: slots{"X": gradcheck.One(ragged(2, 3, 3, 0, 4)), "Offset": words([]int64{3, 0, 0}), "Length": words([]int64{0, 0, 3})}},
		{Type: "sequence_erase", Inputs: slots{"X": words([]int64{2, 2, 6, 1, 3, 9, 6, 1, 0, 1}, 3, 3, 4)}, Attrs: attrs{"tokens": []int32{2, 3, 5}},
			Want: slots{"Out": words([]int64{6, 1, 9, 6, 1, 0, 1})}},
		{Type: "sequence_reverse", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{4, 2}, 1, 2, 3, 4, 5, 6, 7, 8), 3, 1))},
			Want: slots{"Y": gradcheck.One(gradcheck.Floats(dims{4, 2}, 5, 6, 3, 4, 1, 2, 7, 8))}},
	}
}

func padCases() []gradcheck.Case {
	filling := gradcheck.One(gradcheck.Floats(dims{1}, 9))
	images := gradcheck.One(gradcheck.Floats(dims{1, 1, 3, 3}, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	return []gradcheck.Case{
		{Name: "longest", Type: "sequence_pad", Inputs: slots{"X": column([]float64{1, 2, 3, 4, 5}, 2, 0, 3), "PadValue": filling}, Constant: []string{"PadValue"},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 3, 1}, 1, 2, 9, 9, 9, 9, 3, 4, 5)), "Length": gradcheck.One(gradcheck.Ints(dims{3}, 2, 0, 3))}},
		{Name: "given", Type: "sequence_pad", Inputs: slots{"X": gradcheck.One(ragged(2, 2, 1, 3)), "PadValue": gradcheck.One(gradcheck.Floats(dims{2}, 7, 8))},
			Constant: []string{"PadValue"}, Attrs: attrs{"padded_length": int32(4)}},
		{Name: "by hand", Type: "sequence_unpad", Inputs: slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 3}, 1, 2, 3, 4, 5, 6)),
			"Length": gradcheck.One(gradcheck.Ints(dims{2}, 1, 3))}, Want: slots{"Out": column([]float64{1, 4, 5, 6})}},
		{Name: "wide", Type: "sequence_unpad", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(2, 3, 4, 2)), "Length": words([]int64{4, 0, 2})}},
		{Name: "largest", Type: "sequence_mask", Inputs: slots{"X": gradcheck.One(gradcheck.Ints(dims{3}, 3, 1, 0))}, Attrs: attrs{"out_dtype": int32(3)},
			Want: slots{"Y": gradcheck.One(gradcheck.Ints(dims{3, 3}, 1, 1, 1, 1, 0, 0, 0, 0, 0))}},
		{Name: "given", Type: "sequence_mask", Inputs: slots{"X": gradcheck.One(gradcheck.Int32s(dims{2, 1}, 3, 1))},
			Attrs: attrs{"out_dtype": int32(6), "maxlen": int32(2)}, Want: slots{"Y": gradcheck.One(gradcheck.Floats(dims{2, 1, 2}, 1, 1, 1, 0))}},
		{Name: "of a tensor", Type: "sequence_mask", Inputs: slots{"X": gradcheck.One(gradcheck.Ints(dims{1}, 1)), "MaxLenTensor": gradcheck.One(gradcheck.Int32s(dims{1}, 2))},
			Attrs: attrs{"out_dtype": int32(0)}, Want: slots{"Y": gradcheck.One(gradcheck.Bools(dims{1, 2}, true, false))}},
		{Type: "sequence_enumerate", Inputs: slots{"X": words([]int64{1, 2, 3, 4, 5}, 3, 2)}, Attrs: attrs{"win_size": int32(2), "pad_value": int32(7)},
			Want: slots{"Out": gradcheck.One(gradcheck.Ints(dims{5, 2}, 1, 2, 2, 3, 3, 7, 4, 5, 5, 7))}},
		{Type: "sequence_scatter", Inputs: slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 3}, 1, 1, 1, 1, 1, 1)), "Ids": words([]int64{0, 2, 1, 2, 2}, 2, 3),
			"Updates": column([]float64{1, 2, 3, 4, 5}, 2, 3)}, Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{2, 3}, 2, 1, 3, 1, 4, 10))}},
		{Name: "by hand", Type: "row_conv", Inputs: slots{"X": column([]float64{1, 2, 3, 4}, 3, 1), "Filter": gradcheck.One(gradcheck.Floats(dims{2, 1}, 10, 1))},
			Want: slots{"Out": column([]float64{12, 23, 30, 40})}},
		{Name: "wide", Type: "row_conv", Inputs: slots{"X": gradcheck.One(ragged(1, 9, lengths...)), "Filter": gradcheck.One(gradcheck.Spread(2, 3, 9))}},
		{Name: "padded", Type: "row_conv", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 2, 4, 3)), "Filter": gradcheck.One(gradcheck.Spread(2, 6, 3))}},
		{Name: "by hand", Type: "add_position_encoding", Inputs: slots{"X": gradcheck.One(gradcheck.Sequences(gradcheck.Floats(dims{3, 2}, 1, 2, 3, 4, 5, 6), 2, 1))},
			Attrs: attrs{"alpha": float32(2), "beta": float32(1)},
			Want:  slots{"Out": gradcheck.One(gradcheck.Floats(dims{3, 2}, 2, 5, 6.0000999999998333, 8.9999999950000000, 10, 13))}},
		{Name: "padded", Type: "add_position_encoding", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 2, 3, 6))}, Attrs: attrs{"alpha": float32(0.5), "beta": float32(3)}},
		{Name: "by hand", Type: "im2sequence", Inputs: slots{"X": images}, Attrs: attrs{"kernels": []int32{2, 2}},
			Want: slots{"Out": gradcheck.One(gradcheck.Floats(dims{4, 4}, 1, 2, 4, 5, 2, 3, 5, 6, 4, 5, 7, 8, 5, 6, 8, 9))}},
		{Name: "padded", Type: "im2sequence", Inputs: slots{"X": gradcheck.One(gradcheck.Spread(1, 2, 3, 4, 5))},
			Attrs: attrs{"kernels": []int32{3, 2}, "strides": []int32{2, 3}, "paddings": []int32{2, 1, 1, 3}}},
	}
}

// TestMadeLoD checks the LoD that ops make.
func TestMadeLoD(t *testing.T) {
	want := map[string][][]int64{
		"sequence_expand/sequences": {{0, 2, 4, 6, 8}},
		"sequence_expand/rows":      {{0, 2, 2, 5}},
		"sequence_expand_as":        {{0, 2, 2, 5}},
		"sequence_concat/by hand":   {{0, 2, 7}},
		"lod_reset/offsets":         {{0, 1, 6}},
		"lod_reset/of Y":            {{0, 1, 4}},
		"lod_reset/values of Y":     {{0, 3, 4}},
		"sequence_reshape/by hand":  {{0, 4, 6}},
		"sequence_slice/by hand":    {{0, 2, 3}},
		"sequence_erase":            {{0, 1, 3, 7}},
		"sequence_unpad/by hand":    {{0, 1, 4}},
		"im2sequence/by hand":       {{0, 4}},
		"sequence_enumerate":        {{0, 3, 5}},
	}
	for _, c := range append(pickCases(), padCases()...) {
		lod, listed := want[c.String()]
		if !listed {
			continue
		}
		delete(want, c.String())
		vars, op := map[string]*tensor.Tensor{}, &program.Op{Type: c.Type, Attrs: c.Attrs, Inputs: map[string][]string{}, Outputs: map[string][]string{"Out": {"out"}}}
		for slot, values := range c.Inputs {
			for i, v := range values {
				name := slot + string(rune('0'+i))
				vars[name], op.Inputs[slot] = v, append(op.Inputs[slot], name)
			}
		}
		m := gradcheck.NewInterpreter(vars, ops.Step{})
		if err := m.Run(t.Context(), op); err != nil {
			t.Errorf("%v: %v", c, err)
		} else if got := m.Vars["out"].LoD(); !slices.EqualFunc(got, lod, slices.Equal[[]int64]) {
			t.Errorf("%v: LoD %v, want %v", c, got, lod)
		}
	}
	if len(want) > 0 {
		t.Errorf("no cases %v", want)
	}
}

// TestUnknownLengths infers ops whose rows depend on values, without these: the program is fine, but cannot run.
func TestUnknownLengths(t *testing.T) {
	x := gradcheck.Spread(1, 2, 3)
	metas := map[string]ops.Meta{"x": ops.MetaOfValue(x), "n": ops.MetaOfValue(gradcheck.Ints(dims{2}, 1, 2))}
	s, err := ops.Infer(&program.Op{Type: "sequence_unpad", Inputs: map[string][]string{"X": {"x"}, "Length": {"n"}}, Outputs: map[string][]string{"Out": {"y"}}},
		func(name string) (ops.Meta, bool) { m, ok := metas[name]; return m, ok })
	if err != nil || s.Outs("Out")[0].Dims[0] != program.Unknown {
		t.Fatal(s, err)
	}
	if err := s.Decided(); fault.KindOf(err) != fault.Unsupported {
		t.Error(err)
	}
}
