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

// Paddle 2 sorts, and counts along an axis.
func TestSortedUniqueElements(t *testing.T) {
	x := gradcheck.Int32s(dims{2, 3}, 5, 1, 5, 5, 0, 5)
	for _, c := range []struct {
		axis []int32
		dims []int64
		want map[string][]int32
	}{
		{nil, []int64{3}, map[string][]int32{"Out": {0, 1, 5}, "Indices": {4, 1, 0}, "Index": {2, 1, 2, 2, 0, 2}, "Counts": {1, 1, 4}}},
		{[]int32{1}, []int64{2, 2}, map[string][]int32{"Out": {1, 5, 0, 5}, "Indices": {1, 0}, "Index": {1, 0, 1}, "Counts": {1, 2}}},
		{[]int32{-2}, []int64{2, 3}, map[string][]int32{"Out": {5, 0, 5, 5, 1, 5}, "Indices": {1, 0}, "Index": {1, 0}, "Counts": {1, 1}}},
	} {
		a := attrs{"dtype": int32(tensor.Int32), "is_sorted": true, "axis": c.axis, "return_index": true, "return_inverse": true, "return_counts": true}
		got := atRun(t, "unique", a, slots{"X": gradcheck.One(x)}, "Out", "Indices", "Index", "Counts")
		for slot, want := range c.want {
			if !slices.Equal(got[slot].Int32s(), want) {
				t.Errorf("axis %v: %s is %v, want %v", c.axis, slot, got[slot].Int32s(), want)
			}
		}
		if !slices.Equal(got["Out"].Dims(), c.dims) {
			t.Errorf("axis %v: Out is %v, want dims %v", c.axis, got["Out"], c.dims)
		}
	}
}
