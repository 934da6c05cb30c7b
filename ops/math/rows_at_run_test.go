package math_test

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/gradcheck"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// atRun runs an op whose outputs get their dims when it runs, twice. The second run allocates nothing.
func atRun(t *testing.T, opType string, a attrs, in slots, outputs ...string) map[string]*tensor.Tensor {
	t.Helper()
	op := &program.Op{Type: opType, Attrs: a, Inputs: map[string][]string{}, Outputs: map[string][]string{}}
	outs, results := slots{}, map[string]*tensor.Tensor{}
	for slot := range in {
		op.Inputs[slot] = []string{slot}
	}
	for _, slot := range outputs {
		op.Outputs[slot] = []string{slot}
		results[slot] = gradcheck.Ints(dims{0}, []int64{}...)
		outs[slot] = gradcheck.One(results[slot])
	}
	def, _ := ops.Lookup(opType)
	if _, err := ops.Infer(op, func(name string) (ops.Meta, bool) { return ops.MetaOfValue(in[name][0]), true }); err != nil {
		t.Fatal(err)
	}
	kernel, err := def.Bind(ops.NewBinding(op, def, &ops.Env{}, in, outs, nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := kernel(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(2, func() { err = kernel(t.Context()) }); n != 0 || err != nil {
		t.Errorf("%v allocations a run, %v", n, err)
	}
	return results
}

func TestElementsThatAreNotZero(t *testing.T) {
	for _, c := range []struct {
		x    *tensor.Tensor
		want []int64
	}{
		{gradcheck.Floats(dims{2, 3}, 0, 1, 0, 2, 0, -3), []int64{0, 1, 1, 0, 1, 2}},
		{gradcheck.Bools(dims{3}, true, false, true), []int64{0, 2}},
		{gradcheck.Ints(dims{2, 1, 2}, 0, 0, 0, 5), []int64{1, 0, 1}},
		{gradcheck.Ints(dims{2, 2}, 0, 0, 0, 0), []int64{}},
	} {
		rank := int64(len(c.x.Dims()))
		got := atRun(t, "where_index", nil, slots{"Condition": gradcheck.One(c.x)}, "Out")["Out"]
		if !slices.Equal(got.Int64s(), c.want) || !slices.Equal(got.Dims(), dims{int64(len(c.want)) / rank, rank}) {
			t.Errorf("%v: %v %v, want %v", c.x, got.Dims(), got.Int64s(), c.want)
		}
	}
}

func TestElementsUnderAMask(t *testing.T) {
	in := slots{"X": gradcheck.One(gradcheck.Floats(dims{2, 2}, 1, 2, 3, 4)), "Mask": gradcheck.One(gradcheck.Bools(dims{2, 2}, true, false, false, true))}
	if got := atRun(t, "masked_select", nil, in, "Y")["Y"]; !slices.Equal(got.Float64s(), []float64{1, 4}) {
		t.Errorf("%v", got)
	}
	in["Mask"] = gradcheck.One(gradcheck.Bools(dims{2, 2}, false, false, false, false))
	if got := atRun(t, "masked_select", nil, in, "Y")["Y"]; !slices.Equal(got.Dims(), dims{0}) {
		t.Errorf("%v", got)
	}
}

// The values are those of Fluid's page.
func TestUniqueElements(t *testing.T) {
	in := slots{"X": gradcheck.One(gradcheck.Int32s(dims{6}, 2, 3, 3, 1, 5, 3))}
	got := atRun(t, "unique_with_counts", attrs{"dtype": int32(tensor.Int32)}, in, "Out", "Index", "Count")
	for slot, want := range map[string][]int32{"Out": {2, 3, 1, 5}, "Index": {0, 1, 1, 2, 3, 1}, "Count": {1, 3, 1, 1}} {
		if !slices.Equal(got[slot].Int32s(), want) {
			t.Errorf("%s is %v, want %v", slot, got[slot].Int32s(), want)
		}
	}
	got = atRun(t, "unique", nil, slots{"X": gradcheck.One(gradcheck.Floats(dims{3}, 4, 4, 0.5))}, "Out", "Index")
	if !slices.Equal(got["Out"].Float64s(), []float64{4, 0.5}) || !slices.Equal(got["Index"].Int64s(), []int64{0, 0, 1}) {
		t.Errorf("%v", got)
	}
}
