package tensor

import (
	"errors"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestTensorOfSelectedRows(t *testing.T) {
	value, err := FromSlice([]float32{1, 2, 3, 4}, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	s := &SelectedRows{Rows: []int64{5, 7}, Height: 10, Value: value}
	x, err := s.Tensor()
	if err != nil {
		t.Fatal(err)
	}
	rows, height := x.Selected()
	if value.IsSelected() || !x.IsSelected() || height != 10 || x.String() != "float32[2 2] of 10 rows" {
		t.Errorf("%v holds rows of %d; its value %v", x, height, value)
	}
	c := x.Clone()
	value.Float32s()[3], s.Rows[0] = -4, 6
	if x.Float32s()[3] != -4 || rows.Int64s()[0] != 6 {
		t.Error("the tensor is apart from what it was made of")
	}
	copied, height := c.Selected()
	if !slices.Equal(copied.Int64s(), []int64{5, 7}) || height != 10 || c.Float32s()[3] != 4 {
		t.Errorf("the clone is not apart: rows %v of %d, value %v", copied.Int64s(), height, c.Float32s())
	}
	other, _ := FromSlice([]float32{9, 9, 9, 9}, 2, 2)
	if err := Share(x, other); err != nil || !x.IsSelected() || x.Float32s()[0] != 9 {
		t.Errorf("after sharing other elements %v is %v, %v", x, x.Float32s(), err)
	}
}

// TestRowsThatDisagreeWithTheirValue covers TFSA-2020-021 and TFSA-2020-022: indices of another shape than the values.
func TestRowsThatDisagreeWithTheirValue(t *testing.T) {
	value, _ := New(Float64, 2, 3)
	scalar, _ := New(Float64)
	for _, s := range []SelectedRows{
		{Rows: []int64{1}, Height: 4, Value: value},
		{Rows: []int64{1, 2, 3}, Height: 4, Value: value},
		{Rows: []int64{1, 2}, Height: -1, Value: value},
		{Rows: []int64{}, Height: 4, Value: scalar},
	} {
		if x, err := s.Tensor(); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("%d rows of %d and %v: %v, %v", len(s.Rows), s.Height, s.Value, x, err)
		}
	}
	floats, _ := New(Float32, 2)
	if x, err := Select(value, floats, 4); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("row numbers that are no integers: %v, %v", x, err)
	}
}
