package dataset

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/tensor"
)

// A Batch is the rows of one step, or a trainer's part of them.
type Batch struct {
	Tensors    []*tensor.Tensor // one per field, of dims [Rows, field dims...]
	Rows       int              // rows here; 0 when the global batch has fewer rows than parts
	GlobalRows int              // rows of the global batch
	RowOffset  int              // of the first row here within the global batch
	Records    []Range          // the records here, in row order
}

// A Range is the records From, From+1, ..., To-1 of a dataset. Records are numbered through all its files, from 0 on.
type Range = ranges.Range

// appendRecord adds a record, to the last range if it follows it.
func appendRecord(list []Range, record int64) []Range {
	if n := len(list); n > 0 && list[n-1].To == record {
		list[n-1].To++
		return list
	}
	return append(list, Range{From: record, To: record + 1})
}

// A Part is one of several equal shares of each global batch: of n rows, rows n*Index/Of up to n*(Index+1)/Of. The zero
// value is the whole.
type Part struct {
	Index, Of int
}

// Rows returns the share of a global batch of n rows.
func (p Part) Rows(n int) (from, to int) {
	if p.Of <= 1 {
		return 0, n
	}
	return int(int64(n) * int64(p.Index) / int64(p.Of)), int(int64(n) * int64(p.Index+1) / int64(p.Of))
}

// BatchOptions says what batches are made of.
type BatchOptions struct {
	Fields   []Field // what each record holds, in its order
	Rows     int     // of a global batch; the last one of a pass may have fewer
	DropLast bool    // leave out a last batch of fewer rows
	// Slots is how many batches exist at a time. A batch is valid until the Slots-th batch after it, or the next iteration, is asked for. Default 1;
	// under Prefetch it must be depth + 2: one in use, depth waiting, one in the making.
	Slots    int
	MaxBytes int64 // of all slots together; default 1 GiB
}

// Bounds far beyond any cluster, within which rows*parts does not overflow.
const (
	maxParts = 1 << 20
	maxRows  = 1 << 30
)

func (o BatchOptions) check() error {
	if o.Rows < 1 || o.Rows > maxRows || o.Slots < 1 {
		return fault.E(fault.InvalidArgument, fault.At("batch options"), fault.Gotf("%d rows, %d slots", o.Rows, o.Slots),
			fault.Wantf("1 to %d rows, 1 or more slots", maxRows))
	}
	for _, f := range o.Fields {
		if _, ok := tensor.Count(f.Dims); !ok || !f.DType.Computable() || len(f.Dims) >= tensor.MaxRank {
			return fault.E(fault.InvalidArgument, fault.At("batch options"), fault.Gotf("field %s of %v", fault.Quote(f.Name), f),
				fault.Want("known dims and type bool, int32, int64, float32 or float64"))
		}
	}
	return nil
}

// check refuses a part that is none.
func (p Part) check() error {
	if p != (Part{}) && (p.Of < 1 || p.Of > maxParts || p.Index < 0 || p.Index >= p.Of) {
		return fault.E(fault.InvalidArgument, fault.At("batches"), fault.Gotf("part %d of %d", p.Index, p.Of),
			fault.Wantf("an index below the number of parts, which is at most %d", maxParts))
	}
	return nil
}

// most returns the most rows that the part can have of a global batch of n rows.
func (p Part) most(n int) int { return (n + max(1, p.Of) - 1) / max(1, p.Of) }

// fit checks that slots of so many rows stay within the budget.
func (o BatchOptions) fit(rows int) error {
	left := o.MaxBytes / int64(o.Slots) / int64(rows) // bytes that a sample may have
	for _, f := range o.Fields {
		n, _ := tensor.Count(f.Dims)
		if size := int64(f.DType.Size()); int64(n) > left/size {
			return fault.E(fault.TooLarge, fault.At("batches"), fault.Var(f.Name), fault.Gotf("%d slots of %d rows of %v", o.Slots, rows, f),
				fault.Wantf("at most %d bytes", o.MaxBytes))
		}
		left -= int64(n) * int64(f.DType.Size())
	}
	return nil
}
