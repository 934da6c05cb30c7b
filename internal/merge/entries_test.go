package merge_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/merge"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// entries makes a contribution of entries for some elements.
func entries(t testing.TB, indices []int32, x []float32) *tensor.Tensor {
	all := append([]int32{}, indices...)
	for _, v := range x {
		all = append(all, int32(math.Float32bits(v)))
	}
	v, err := tensor.FromSlice(all, 2, int64(len(indices)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Contributions of entries merge to what the elements with zeros between them merge to, with any number of entries.
func TestEntriesMergeAsTheirElements(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		how := rapid.SampledFrom([]ops.Merge{ops.MergeMean, ops.MergeSum, ops.MergeFirst}).Draw(rt, "how")
		length := rapid.SampledFrom([]int{1, 7, 100, 4096, 20_000}).Draw(rt, "length")
		var sparse, dense []merge.Share
		for range rapid.IntRange(1, 4).Draw(rt, "trainers") {
			state, of1000 := rapid.Uint32().Draw(rt, "state"), rapid.Uint32Range(0, 1000).Draw(rt, "entries of 1000 elements")
			var indices []int32
			var some []float32
			x := make([]float32, length)
			for i := range x {
				if state = state*1664525 + 1013904223; state>>16%1000 < of1000 {
					x[i] = 1 + float32(int32(state))/(1<<31)
					indices, some = append(indices, int32(i)), append(some, x[i])
				}
			}
			rows := rapid.Int64Range(1, 100).Draw(rt, "rows")
			sparse = append(sparse, merge.Share{Value: entries(t, indices, some), Rows: rows})
			dense = append(dense, merge.Share{Value: of(t, x...), Rows: rows})
		}
		got, want := of(t, make([]float32, length)...), of(t, make([]float32, length)...)
		for i := range got.Float32s() {
			got.Float32s()[i] = 77 // what was merged before
		}
		for dst, shares := range map[*tensor.Tensor][]merge.Share{got: sparse, want: dense} {
			if err := merge.Gradients(dst, shares, how); err != nil {
				rt.Fatal(err)
			}
		}
		for i, w := range want.Float32s() {
			if math.Float32bits(got.Float32s()[i]) != math.Float32bits(w) {
				rt.Fatalf("element %d is %v, want %v", i, got.Float32s()[i], w)
			}
		}
	})
}

// One contribution of entries is taken as it is, to the bit.
func TestOneShareOfEntriesIsTakenAsItIs(t *testing.T) {
	odd := []float32{0.1, float32(math.Copysign(0, -1)), 1e-45, float32(math.Inf(1)), float32(math.NaN())}
	dst := of(t, make([]float32, 9)...)
	if err := merge.Gradients(dst, []merge.Share{{Value: entries(t, []int32{0, 2, 3, 5, 8}, odd), Rows: 3}}, ops.MergeMean); err != nil {
		t.Fatal(err)
	}
	for i, at := range []int{0, 2, 3, 5, 8} {
		if got := dst.Float32s()[at]; math.Float32bits(got) != math.Float32bits(odd[i]) {
			t.Errorf("element %d is %v, want %v", at, got, odd[i])
		}
	}
}

// Entries for elements that are not there are refused, wherever they stand among many, and change no other memory.
func TestEntriesThatCannotBeMerged(t *testing.T) {
	const length = 6000
	dst := of(t, make([]float32, length)...)
	ascending := func(change func(indices []int32)) *tensor.Tensor {
		indices := make([]int32, 5000)
		for i := range indices {
			indices[i] = int32(i)
		}
		change(indices)
		return entries(t, indices, make([]float32, 5000))
	}
	for name, value := range map[string]*tensor.Tensor{
		"negative":                  ascending(func(i []int32) { i[0] = -1 }),
		"beyond the end":            ascending(func(i []int32) { i[4999] = length }),
		"far beyond the end":        ascending(func(i []int32) { i[4999] = math.MaxInt32 }),
		"twice":                     ascending(func(i []int32) { i[4097] = 4096 }),
		"descending":                ascending(func(i []int32) { i[10] = 9 }),
		"twice, at an edge of 4096": ascending(func(i []int32) { i[4096] = 4095 }),
	} {
		good := ascending(func([]int32) {})
		if err := merge.Check(dst, value); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: check: %v", name, err)
		}
		for _, shares := range [][]merge.Share{{{Value: value, Rows: 1}}, {{Value: good, Rows: 1}, {Value: value, Rows: 1}}} {
			if err := merge.Gradients(dst, shares, ops.MergeMean); !errors.Is(err, fault.Corrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := merge.Check(dst, good); err != nil {
			t.Error(err)
		}
	}
	one, float := of(t, float32(0)), of(t, float32(0), 0)
	for name, c := range map[string]struct {
		dst    *tensor.Tensor
		shares []merge.Share
	}{
		"more entries than elements": {one, []merge.Share{{Value: entries(t, []int32{0, 1}, []float32{1, 2}), Rows: 1}}},
		"int32 of one row":           {float, []merge.Share{{Value: of(t, int32(0), 1), Rows: 1}}},
		"and float32":                {float, []merge.Share{{Value: entries(t, []int32{0}, []float32{1}), Rows: 1}, {Value: float.Clone(), Rows: 1}}},
		"into float64":               {of(t, 0.0, 0), []merge.Share{{Value: entries(t, []int32{0}, []float32{1}), Rows: 1}}},
	} {
		if err := merge.Gradients(c.dst, c.shares, ops.MergeMean); !errors.Is(err, fault.ShapeMismatch) && !errors.Is(err, fault.TypeMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	changes := []merge.Share{{Value: entries(t, []int32{0}, []float32{1}), Rows: 1}}
	if err := merge.State(float, float.Clone(), append(changes, changes...), ops.MergeSum); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("state: %v", err)
	}
}
