package tensor

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// CheckLoD reports a LoD whose offsets do not cut the rows of t into sequences: every level starts at 0 and does not fall, the innermost ends at the
// number of rows, and each other one at the number of sequences of the next. A tensor without LoD is in order.
func (t *Tensor) CheckLoD() error {
	rows := int64(0)
	if len(t.dims) > 0 {
		rows = t.dims[0]
	}
	if got, want := lodMistake(t.lod, rows); got != "" {
		return fault.E(fault.ShapeMismatch, fault.Got(got), fault.Want(want))
	}
	return nil
}

// lodMistake describes the first thing that is wrong with a LoD over so many rows; got is empty when nothing is.
func lodMistake(lod [][]int64, rows int64) (got, want string) {
	for i, level := range lod {
		if len(level) == 0 {
			return fmt.Sprintf("LoD level %d without offsets", i), "a 0 at least"
		}
		if level[0] != 0 {
			return fmt.Sprintf("LoD level %d that starts at %d", i, level[0]), "0"
		}
		for j := 1; j < len(level); j++ {
			if level[j] < level[j-1] {
				return fmt.Sprintf("LoD level %d that falls from %d to %d", i, level[j-1], level[j]), "ascending offsets"
			}
		}
		below := rows
		if i+1 < len(lod) {
			below = int64(len(lod[i+1])) - 1
		}
		if last := level[len(level)-1]; last != below {
			return fmt.Sprintf("LoD level %d that ends at %d", i, last), fmt.Sprint(below)
		}
	}
	return "", ""
}
