package math_test

import (
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	. "github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// grid is 1 to 12 as three rows of four.
func grid() *tensor.Tensor { return Floats(dims{3, 4}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12) }

// cutOut cuts a part out of the grid.
func cutOut(op, name string, a attrs, want *tensor.Tensor) Case {
	return Case{Type: op, Name: name, Attrs: a, Inputs: slots{"Input": One(grid())}, Want: slots{"Out": One(want)}}
}

const end32 = math.MaxInt32

var sliceCases = []Case{
	cutOut("slice", "columns", attrs{"axes": []int32{1}, "starts": []int32{1}, "ends": []int32{3}}, Floats(dims{3, 2}, 2, 3, 6, 7, 10, 11)),
	cutOut("slice", "rows, beyond the end", attrs{"axes": []int32{0}, "starts": []int32{1}, "ends": []int32{end32}},
		Floats(dims{2, 4}, 5, 6, 7, 8, 9, 10, 11, 12)),
	cutOut("slice", "from the end", attrs{"axes": []int32{0, 1}, "starts": []int32{-2, -3}, "ends": []int32{-1, 4}}, Floats(dims{1, 3}, 6, 7, 8)),
	cutOut("slice", "first axes", attrs{"starts": []int32{2}, "ends": []int32{3}}, Floats(dims{1, 4}, 9, 10, 11, 12)),
	cutOut("slice", "a row as a vector", attrs{"axes": []int32{0}, "starts": []int32{-1}, "ends": []int32{0}, "decrease_axis": []int32{0}},
		Floats(dims{4}, 9, 10, 11, 12)),
	cutOut("slice", "one number", attrs{"axes": []int32{0, 1}, "starts": []int32{1, 1}, "ends": []int32{2, 2}, "decrease_axis": []int32{0, 1}},
		Floats(dims{1}, 6)),
	cutOut("slice", "nothing", attrs{"axes": []int32{1}, "starts": []int32{3}, "ends": []int32{1}}, Floats(dims{3, 0})),
	{Type: "slice", Name: "numbers from tensors", Attrs: attrs{"axes": []int32{0, 1}, "starts": []int32{-1, -1}, "ends": []int32{-1, -1}},
		Inputs: slots{"Input": One(grid()), "StartsTensor": One(Int32s(dims{2}, 1, 2)), "EndsTensorList": One(Ints(dims{1}, 3), Ints(dims{1}, 4))},
		Want:   slots{"Out": One(Floats(dims{2, 2}, 7, 8, 11, 12))}},
	{Type: "slice", Name: "int64", Attrs: attrs{"starts": []int32{1}, "ends": []int32{2}}, Inputs: slots{"Input": One(Ints(dims{3}, 5, 6, 7))},
		Want: slots{"Out": One(Ints(dims{1}, 6))}},
	cutOut("strided_slice", "every other column", strided([]int32{1}, []int32{0}, []int32{end32}, []int32{2}), Floats(dims{3, 2}, 1, 3, 5, 7, 9, 11)),
	cutOut("strided_slice", "backwards", strided([]int32{0, 1}, []int32{1, 3}, []int32{2, 0}, []int32{1, -1}), Floats(dims{1, 3}, 8, 7, 6)),
	cutOut("strided_slice", "backwards to the first", strided([]int32{1}, []int32{3}, []int32{-1}, []int32{-2}), Floats(dims{3, 2}, 4, 2, 8, 6, 12, 10)),
	cutOut("strided_slice", "rows backwards", strided([]int32{0}, []int32{-1}, []int32{-10}, []int32{-1}),
		Floats(dims{3, 4}, 9, 10, 11, 12, 5, 6, 7, 8, 1, 2, 3, 4)),
}

func strided(axes, starts, ends, strides []int32) attrs {
	return attrs{"axes": axes, "starts": starts, "ends": ends, "strides": strides}
}

// Every slice gives what NumPy gives, which walks from start to end.
func TestStridedSliceWalksFromStartToEnd(t *testing.T) {
	x := []float64{10, 11, 12, 13, 14}
	for start := int32(-7); start <= 7; start++ {
		for end := int32(-7); end <= 7; end++ {
			for _, step := range []int32{-7, -2, -1, 1, 2, 7} {
				from, to := start, end
				if from < 0 {
					from += 5
				}
				if to < 0 && !(step < 0 && end == -1) {
					to += 5
				}
				if step < 0 {
					from = min(from, 4)
				} else {
					from = max(from, 0)
				}
				var want []float64
				for at := from; step > 0 && at < min(to, 5) || step < 0 && at > max(to, -1); at += step {
					want = append(want, x[at])
				}
				c := Case{Type: "strided_slice", Attrs: strided([]int32{0}, []int32{start}, []int32{end}, []int32{step}),
					Inputs: slots{"Input": One(Floats(dims{5}, x...))}, Want: slots{"Out": One(Floats(dims{int64(len(want))}, want...))}}
				if err := Golden(c); err != nil {
					t.Fatalf("%d:%d:%d: %v", start, end, step, err)
				}
			}
		}
	}
}

func TestSliceRefusesWhatItCannotCut(t *testing.T) {
	for name, a := range map[string]attrs{
		"no ends":      {"axes": []int32{0}, "starts": []int32{1}},
		"axis":         {"axes": []int32{2}, "starts": []int32{1}, "ends": []int32{2}},
		"twice":        {"axes": []int32{0, -2}, "starts": []int32{1, 1}, "ends": []int32{2, 2}},
		"several left": {"axes": []int32{0}, "starts": []int32{0}, "ends": []int32{2}, "decrease_axis": []int32{0}},
	} {
		if err := Golden(cutOut("slice", name, a, grid())); fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Golden(cutOut("strided_slice", "", strided([]int32{0}, []int32{0}, []int32{1}, []int32{0}), grid())); fault.KindOf(err) != fault.InvalidArgument {
		t.Errorf("a stride of 0: %v", err)
	}
}

// A slice keeps the rows of a batch if it leaves axis 0 alone.
func TestSliceKnowsWhetherItCutsTheBatch(t *testing.T) {
	for _, c := range []struct {
		a     attrs
		mixes bool
	}{
		{attrs{"axes": []int32{1}, "starts": []int32{0}, "ends": []int32{1}}, false},
		{attrs{"axes": []int32{1}, "starts": []int32{0}, "ends": []int32{1}, "decrease_axis": []int32{1}}, false},
		{attrs{"axes": []int32{0, 1}, "starts": []int32{0, 0}, "ends": []int32{end32, 1}}, false},
		{attrs{"axes": []int32{0, 1}, "starts": []int32{0, 0}, "ends": []int32{ops.WholeAxis, 1}}, false},
		{attrs{"axes": []int32{0}, "starts": []int32{0}, "ends": []int32{5}}, true},
		{attrs{"axes": []int32{-2}, "starts": []int32{1}, "ends": []int32{end32}}, true},
		{attrs{"starts": []int32{1}, "ends": []int32{end32}}, true},
	} {
		op := &program.Op{Type: "slice", Inputs: map[string][]string{"Input": {"x"}}, Outputs: map[string][]string{"Out": {"out"}}, Attrs: c.a}
		s, err := ops.Infer(op, func(string) (ops.Meta, bool) {
			return ops.Meta{Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{-1, 4}, LoDLevel: 1, LoDOf: "x"}, true
		})
		if err != nil {
			t.Fatal(err)
		}
		def, _ := ops.Lookup("slice")
		keeps := s.Outs("Out")[0].LoDLevel == 1
		if mixes := def.MixesRows(s, func(string) bool { return true }); mixes != c.mixes || keeps == c.mixes {
			t.Errorf("%v: mixes rows %v, keeps sequences %v", c.a, mixes, keeps)
		}
	}
}
