package dataset

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// A column collects the samples of a field of sequences for one batch: their rows follow each other, and the offsets say where each begins. Its memory
// grows to the largest batch and is kept.
type column struct {
	room *tensor.Tensor // of dims [capacity, dims of the field...]; nil before the first sample
	rows int            // in use
	lod  [][]int64      // one level for each of the field
}

// leastRows is the capacity of a column that is used for the first time.
const leastRows = 64

// reset removes all samples.
func (c *column) reset(f Field) {
	if c.lod == nil {
		c.lod = make([][]int64, f.LoDLevel)
	}
	c.rows = 0
	for i := range c.lod {
		c.lod[i] = append(c.lod[i][:0], 0)
	}
}

// add appends a sample that f.check has accepted. budget is the largest size of the column's memory in bytes.
func (c *column) add(f Field, s *tensor.Stream, budget int64) error {
	rows := int(s.Dims[0])
	if err := c.grow(f, c.rows+rows, budget); err != nil {
		return err
	}
	width := 0
	if rows > 0 {
		width = s.Len() / rows
	}
	if err := s.CopyInto(c.room, c.rows*width); err != nil {
		return err
	}
	c.rows += rows
	below := s.LoD // the levels within the sample
	if len(below) == f.LoDLevel {
		below = below[1:]
	}
	for i, offsets := range below {
		level, last := i+1, c.lod[i+1][len(c.lod[i+1])-1]
		for _, offset := range offsets[1:] {
			c.lod[level] = append(c.lod[level], last+offset)
		}
	}
	end := int64(c.rows)
	if f.LoDLevel > 1 {
		end = int64(len(c.lod[1]) - 1)
	}
	c.lod[0] = append(c.lod[0], end)
	return nil
}

// grow makes room for so many rows.
func (c *column) grow(f Field, rows int, budget int64) error {
	have := 0
	if c.room != nil {
		have = int(c.room.Dims()[0])
	}
	if rows <= have && c.room != nil {
		return nil
	}
	elements, _ := tensor.Count(f.Dims)
	most := budget / max(1, int64(elements)*int64(f.DType.Size()))
	if int64(rows) > most {
		return fault.E(fault.TooLarge, fault.Gotf("%d rows of %v", rows, f), fault.Wantf("at most %d, which take %d bytes", most, budget),
			fault.Hint("make batches of fewer sequences"))
	}
	kept := c.room
	if err := c.allocate(f, min(int64(max(leastRows, rows, 2*have)), most)); err != nil || c.rows == 0 {
		return err
	}
	from, err := kept.Rows(0, int64(c.rows))
	if err != nil {
		return err
	}
	to, err := c.room.Rows(0, int64(c.rows))
	if err != nil {
		return err
	}
	return to.CopyFrom(from)
}

// allocate gives the column memory for so many rows.
func (c *column) allocate(f Field, rows int64) (err error) {
	c.room, err = tensor.New(f.DType, append([]int64{rows}, f.Dims...)...)
	return err
}

// value returns the batch's tensor. It shares the memory of the column.
func (c *column) value(f Field) (*tensor.Tensor, error) {
	if c.room == nil {
		if err := c.allocate(f, 0); err != nil {
			return nil, err
		}
	}
	view, err := c.room.Rows(0, int64(c.rows))
	if err != nil {
		return nil, err
	}
	view.SetLoD(c.lod)
	return view, nil
}

// bytes is the size of the memory of the rows.
func (c *column) bytes() int64 {
	if c.room == nil {
		return 0
	}
	return c.room.Bytes()
}

// checkSequence compares a parsed tensor of a sample with a field of sequences, whose type is right. A sample is one sequence of the outermost level:
// its first dim counts rows, and its LoD divides it into the sequences of the levels below. The outermost level, which has one sequence, may be left out.
func (f Field) checkSequence(s *tensor.Stream) *fault.Fault {
	switch {
	case len(s.Dims) == 0 || !slices.Equal(s.Dims[1:], f.Dims) && !(oneNumber(s.Dims[1:]) && oneNumber(f.Dims)):
		return fault.E(fault.ShapeMismatch, fault.Gotf("%v%v", s.DType, s.Dims), fault.Wantf("%v%v", f.DType, append([]int64{-1}, f.Dims...)),
			fault.Hint("the first dim of a sample counts the rows of its sequence"))
	case len(s.LoD) == f.LoDLevel-1, len(s.LoD) == f.LoDLevel && len(s.LoD[0]) == 2:
		return nil
	case len(s.LoD) == f.LoDLevel:
		return fault.E(fault.ShapeMismatch, fault.Gotf("%d sequences", len(s.LoD[0])-1), fault.Want("one sequence of the outermost level in each record"))
	}
	return fault.E(fault.ShapeMismatch, fault.Gotf("%d LoD levels", len(s.LoD)), fault.Wantf("%d, or %d without the outermost one", f.LoDLevel, f.LoDLevel-1))
}
