package tensor

import (
	"fmt"

	"github.com/edl-go/edl/fault"
)

// SelectedRows is some rows of a tall tensor: Value's row i is row Rows[i] of a tensor of Height rows. Rows may repeat, and what
// repeats adds up. It is the form of gradients and shards of embedding tables, whose dense form would not pay.
type SelectedRows struct {
	Rows   []int64
	Height int64
	Value  *Tensor // dims [len(Rows), width...]
}

// Tensor returns a tensor over the elements of Value that knows which rows they are; see Tensor.Selected. The row numbers
// are not looked at: a kernel may fill them in later.
func (s *SelectedRows) Tensor() (*Tensor, error) {
	if s.Height < 0 || len(s.Value.Dims()) == 0 || s.Value.Dims()[0] != int64(len(s.Rows)) {
		return nil, &fault.Fault{Kind: fault.ShapeMismatch, Got: fmt.Sprintf("%d rows of %d in %v", len(s.Rows), s.Height, s.Value), Want: "a value with as many rows"}
	}
	t := *s.Value
	t.selected = &SelectedRows{Rows: s.Rows, Height: s.Height, Value: s.Value}
	return &t, nil
}

// Selected returns which rows of a taller tensor t holds, nil for an ordinary tensor. Its Value shares the elements of t.
func (t *Tensor) Selected() *SelectedRows { return t.selected }
