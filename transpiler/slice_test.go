package transpiler

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The golden values of Fluid's own shard test, as elements per slice for ten servers.
func TestSliceRowsGolden(t *testing.T) {
	repeat := func(n int, size int64) []int64 { return slices.Repeat([]int64{size}, n) }
	for _, test := range []struct {
		minBlock int64
		dims     []int64
		want     []int64
	}{
		{1024, []int64{3, 5}, []int64{15}},
		{1024, []int64{1024}, []int64{1024}},
		{1024, []int64{28, 784}, append(repeat(9, 2352), 784)},
		{1024, []int64{8, 1020}, repeat(4, 2040)},
		{1024, []int64{800, 10}, append(repeat(6, 1150), 1100)},
		{8192, []int64{3, 5}, []int64{15}},
		{8192, []int64{1024}, []int64{1024}},
		{8192, []int64{28, 784}, repeat(2, 10976)},
		{8192, []int64{8, 1020}, []int64{8160}},
		{8192, []int64{800, 10}, []int64{8000}},
		{8192, []int64{6, 33, 33, 33}, repeat(6, 35937)},
	} {
		var got []int64
		for _, r := range sliceRows(test.dims, 10, test.minBlock) {
			got = append(got, r.rows*rowWidth(test.dims))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%v, at least %d elements: slices of %v elements, want %v", test.dims, test.minBlock, got, test.want)
		}
	}
}

func TestSliceRowsOfNothing(t *testing.T) {
	for _, dims := range [][]int64{{}, {0}, {0, 7}, {7, 0}} {
		if got := sliceRows(dims, 3, 1); len(got) != 1 {
			t.Errorf("%v is cut into %v, want one run", dims, got)
		}
	}
}

// Slices are a partition in order, never more than servers, and never smaller than the minimum unless single or last.
func TestSliceRowsProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SliceOfN(rapid.Int64Range(1, 40), 1, 4).Draw(t, "dims")
		parts := rapid.IntRange(1, 12).Draw(t, "parts")
		minBlock := rapid.Int64Range(1, 5000).Draw(t, "minBlock")
		ranges := sliceRows(dims, parts, minBlock)
		if len(ranges) > parts {
			t.Fatalf("%d slices for %d servers", len(ranges), parts)
		}
		var next int64
		for i, r := range ranges {
			if r.first != next || r.rows < 1 {
				t.Fatalf("slice %d is %+v, want rows from %d on", i, r, next)
			}
			next += r.rows
			if elements := r.rows * rowWidth(dims); i < len(ranges)-1 && elements < minBlock {
				t.Fatalf("slice %d has %d elements, want at least %d", i, elements, minBlock)
			}
		}
		if next != dims[0] {
			t.Fatalf("slices end at row %d of %d", next, dims[0])
		}
	})
}
