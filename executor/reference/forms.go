package reference

import (
	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/tensor"
)

// forms keeps copies of the tensors in which rows of tables cross from the ranks to the update (compress.RowsForm). Such a tensor has room for all rows of a table, and a
// batch uses a few. So a copy takes over only what is in use, and each round uses the same copies again. A new copy in each round would get memory that the
// collector has freed and clears as a whole: 23 GB for 39 tables.
type forms struct {
	kept  map[string][]*tensor.Tensor // by the name of the variable
	taken map[string]int              // of kept, in this round
}

// begin begins a round: the copies of the one before are not needed any more.
func (f *forms) begin() { clear(f.taken) }

// copyOf returns a copy of a variable that crosses, or of another one. A copy of rows of a table is good until the next round.
func (f *forms) copyOf(name string, t *tensor.Tensor) (*tensor.Tensor, error) {
	if !compress.IsForm(t) {
		return t.Clone(), nil
	}
	used, err := compress.RowsInUse(t)
	if err != nil {
		return nil, err
	}
	if f.kept == nil {
		f.kept, f.taken = map[string][]*tensor.Tensor{}, map[string]int{}
	}
	at := f.taken[name]
	if at == len(f.kept[name]) {
		fresh, err := tensor.New(t.DType(), t.Dims()...)
		if err != nil {
			return nil, err
		}
		tensor.SmallPages(fresh)
		f.kept[name] = append(f.kept[name], fresh)
	}
	f.taken[name]++
	to := f.kept[name][at]
	if used.DType() == tensor.Int64 {
		copy(to.Int64s(), used.Int64s())
	} else {
		copy(to.Int32s(), used.Int32s())
	}
	return to, nil
}
