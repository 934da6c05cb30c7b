package tensor_test

import (
	"errors"
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
