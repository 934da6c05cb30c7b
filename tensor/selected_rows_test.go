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
	rows := &SelectedRows{Rows: []int64{5, 7}, Height: 10, Value: value}
	x, err := rows.Tensor()
	if err != nil {
		t.Fatal(err)
	}
	if value.Selected() != nil || x.Selected().Height != 10 || x.String() != "float32[2 2] of 10 rows" {
		t.Errorf("%v holds %+v, its value %+v", x, x.Selected(), value.Selected())
	}
	c := x.Clone()
	value.Float32s()[3], rows.Rows[0] = -4, 6
	if x.Float32s()[3] != -4 || x.Selected().Rows[0] != 6 {
		t.Error("the tensor is apart from what it was made of")
	}
	if !slices.Equal(c.Selected().Rows, []int64{5, 7}) || c.Selected().Value.Float32s()[3] != 4 || c.Float32s()[3] != 4 {
		t.Errorf("the clone is not apart: rows %v, value %v", c.Selected().Rows, c.Float32s())
	}
	c.Float32s()[0] = 9
	if c.Selected().Value.Float32s()[0] != 9 {
		t.Error("the value of a clone is apart from the clone")
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
}
