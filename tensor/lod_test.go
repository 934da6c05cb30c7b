package tensor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestCheckLoD(t *testing.T) {
	for _, c := range []struct {
		lod  [][]int64
		good bool
	}{
		{nil, true},
		{[][]int64{{0, 4}}, true},
		{[][]int64{{0, 0, 3, 3, 4}}, true},
		{[][]int64{{0, 1, 3}, {0, 2, 2, 4}}, true},
		{[][]int64{{}}, false},
		{[][]int64{{0}}, false},
		{[][]int64{{1, 4}}, false},
		{[][]int64{{0, 3}}, false},
		{[][]int64{{0, 5}}, false},
		{[][]int64{{0, 3, 2, 4}}, false},
		{[][]int64{{0, 1, 2}, {0, 2, 2, 4}}, false},
		{[][]int64{{0, 2}, {}}, false},
	} {
		x, err := tensor.New(tensor.Float32, 4, 2)
		if err != nil {
			t.Fatal(err)
		}
		x.SetLoD(c.lod)
		if err := tensor.CheckLoD(x); c.good != (err == nil) || err != nil && !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%v over 4 rows: %v", c.lod, err)
		}
	}
}

func TestPartOfSequences(t *testing.T) {
	whole, err := tensor.FromSlice([]int64{0, 1, 2, 3, 4, 5, 6, 7, 8}, 9, 1)
	if err != nil {
		t.Fatal(err)
	}
	whole.SetLoD([][]int64{{0, 2, 2, 4}, {0, 3, 5, 5, 9}})
	joined, values := [][]int64{nil, nil}, []int64{}
	for _, c := range [][2]int64{{0, 1}, {1, 1}, {1, 2}, {2, 3}} {
		part, err := tensor.PartOf(whole, c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := tensor.CheckLoD(part); err != nil || tensor.Records(part) != c[1]-c[0] {
			t.Errorf("%v: %v of %d records, %v", c, part.LoD(), tensor.Records(part), err)
		}
		tensor.AppendLoD(joined, part.LoD())
		values = append(values, part.Int64s()...)
	}
	if !slices.Equal(values, whole.Int64s()) || !slices.EqualFunc(joined, whole.LoD(), slices.Equal[[]int64]) {
		t.Errorf("the parts make %v of %v", joined, values)
	}
	for _, c := range [][2]int64{{-1, 1}, {2, 1}, {0, 4}} {
		if _, err := tensor.PartOf(whole, c[0], c[1]); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%v: %v", c, err)
		}
	}
	whole.SetLoD(nil)
	if part, err := tensor.PartOf(whole, 2, 5); err != nil || !slices.Equal(part.Int64s(), []int64{2, 3, 4}) || tensor.Records(whole) != 9 {
		t.Errorf("without LoD: %v, %v", part, err)
	}
}
