package kernel

import (
	"slices"
	"testing"
)

func TestConcatAndSplit(t *testing.T) {
	// [2, 1, 2] and [2, 2, 2] along axis 1.
	a, b := []int64{1, 2, 7, 8}, []int64{3, 4, 5, 6, 9, 10, 11, 12}
	whole := make([]int64, 12)
	CopyStrided(whole, 0, 6, a, 0, 2, 2, 2)
	CopyStrided(whole, 2, 6, b, 0, 4, 2, 4)
	if want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}; !slices.Equal(whole, want) {
		t.Errorf("concat gives %v, want %v", whole, want)
	}
	part := make([]int64, 8)
	if CopyStrided(part, 0, 4, whole, 2, 6, 2, 4); !slices.Equal(part, b) {
		t.Errorf("split gives %v, want %v", part, b)
	}
	CopyStrided(part, 0, 4, nil, 0, 0, 2, 0) // an empty part
}
