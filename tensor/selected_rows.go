package tensor

import (
	"github.com/edl-go/edl/fault"
)

// SelectedRows is some rows of a tall tensor: Value's row i is row Rows[i] of a tensor of Height rows. Rows may repeat, and what
// repeats adds up. It is the form of gradients and shards of embedding tables, whose dense form would not pay.
type SelectedRows struct {
	Rows   []int64
	Height int64
	Value  *Tensor // dims [len(Rows), width...]
}

// Tensor is Select of what s holds.
func (s *SelectedRows) Tensor() (*Tensor, error) {
	rows, err := FromSlice(s.Rows)
	if err != nil {
		return nil, err
	}
	return s.Value.Select(rows, s.Height)
}

// Select returns a tensor over the elements of t that knows itself to be rows of a tensor of height rows: row i is row rows[i],
// where rows is an int64 vector. The row numbers are not looked at, because a kernel may fill them in later.
func (t *Tensor) Select(rows *Tensor, height int64) (*Tensor, error) {
	if height < 0 || len(t.dims) == 0 || rows.dtype != Int64 || len(rows.dims) != 1 || rows.dims[0] != t.dims[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("row numbers %v of %d rows for %v", rows, height, t),
			fault.Want("one int64 for each row"))
	}
	selected := *t
	selected.rows, selected.height = rows, height
	return &selected, nil
}

// Selected returns the numbers of the rows of which t is the value, an int64 vector that t shares, and how many
// rows the whole has. An ordinary tensor returns nil.
func (t *Tensor) Selected() (rows *Tensor, height int64) { return t.rows, t.height }

// IsSelected reports whether t is some rows of a tall tensor and not a whole one.
func (t *Tensor) IsSelected() bool { return t.rows != nil }
