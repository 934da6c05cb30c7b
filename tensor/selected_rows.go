package tensor

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/edl-go/edl/fault"
)

// SelectedRows holds some rows of a tall tensor: row i of Value is row Rows[i] of a tensor of Height rows. If rows repeat, their values add up. It
// is the form of sparse gradients and of parts of embedding tables.
type SelectedRows struct {
	Rows   []int64
	Height int64
	Value  *Tensor // dims [len(Rows), width...]
}

// Tensor calls Select on Value with Rows and Height.
func (s *SelectedRows) Tensor() (*Tensor, error) {
	rows, err := FromSlice(s.Rows)
	if err != nil {
		return nil, err
	}
	return Select(s.Value, rows, s.Height)
}

// Select returns a tensor with the elements of t that is marked as rows of a tensor of height rows: row i is row rows[i]. rows is an int64 vector.
// Select does not check the row numbers, because a kernel may fill them in later.
func Select(t, rows *Tensor, height int64) (*Tensor, error) {
	if height < 0 || len(t.dims) == 0 || rows.dtype != Int64 || len(rows.dims) != 1 || rows.dims[0] != t.dims[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("row numbers %s of %d rows for %s", rows, height, t),
			fault.Want("one int64 for each row"))
	}
	selected := &Tensor{dtype: t.dtype, dims: t.dims, data: t.data, lod: t.lod, rows: rows, height: height, room: t.room}
	if IsFixed(t) {
		Fix(selected)
	}
	return selected, nil
}

// Selected returns the row numbers of t, an int64 vector that t shares, and the height of the whole tensor. It returns nil for an ordinary tensor.
func (t *Tensor) Selected() (rows *Tensor, height int64) { return t.rows, t.height }

// UsedRows returns the row numbers of t that are in use: those before the first that equals the height. A tensor that has room for more rows than it
// holds ends them so. It returns nil for an ordinary tensor.
func UsedRows(t *Tensor) []int64 {
	if t.rows == nil {
		return nil
	}
	numbers := t.rows.Int64s()
	if end := slices.Index(numbers, t.height); end >= 0 {
		return numbers[:end]
	}
	return numbers
}

// A RowRange is the rows [From, To) of a tensor.
type RowRange struct{ From, To int64 }

// SetLive says which rows of the tall tensor are in use, if t is a sparse gradient of a table that grows: rows returns ascending ranges, which have all rows of t. All
// other rows are zeros, and so is what an optimizer keeps for them. It holds until the table changes again. Nil: nothing is known.
func SetLive(t *Tensor, rows func() []RowRange) { t.live = rows }

// Live returns the rows that SetLive has told of, nil if nothing is known. They are good until the next call for t.
func Live(t *Tensor) []RowRange {
	if t.live == nil {
		return nil
	}
	return t.live()
}

// IsSelected reports whether t holds some rows of a tall tensor.
func (t *Tensor) IsSelected() bool { return t.rows != nil }

// AppendSelectedRows appends Fluid's SelectedRows stream: uint32 version, uint64 row count, int64 rows, int64 height, and the value as in a
// LoDTensor stream without LoD.
func AppendSelectedRows(dst []byte, s *SelectedRows) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, streamVersion)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(s.Rows)))
	dst = appendInt64s(dst, s.Rows)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(s.Height))
	dst = appendTensorHead(dst, s.Value)
	return appendElements(dst, s.Value, 0, s.Value.Len())
}

// DecodeSelectedRows reads one SelectedRows stream from the front of b and returns the rest of b. Rows outside of [0, height), and a value with
// another number of rows, are Corrupt.
func DecodeSelectedRows(b []byte, limits Limits) (*SelectedRows, []byte, error) {
	src, limits := source{b: b}, limits.withDefaults()
	rows, height, err := parseRows(&src, limits)
	if err != nil {
		return nil, nil, err
	}
	at := src.offset
	var value Stream
	if err := value.parseTensorHead(&src, limits); err != nil {
		return nil, nil, err
	}
	if len(value.Dims) == 0 || value.Dims[0] != int64(len(rows)) {
		return nil, nil, corrupt(at, fmt.Sprintf("a value of dims %v", value.Dims), fmt.Sprintf("%d rows", len(rows)))
	}
	if value.Data, err = src.next(value.dataBytes(), "elements"); err != nil {
		return nil, nil, err
	}
	t, err := value.Tensor()
	if err != nil {
		return nil, nil, err
	}
	return &SelectedRows{Rows: rows, Height: height, Value: t}, src.b, nil
}

func parseRows(src *source, limits Limits) (rows []int64, height int64, err error) {
	if err := src.version("stream version"); err != nil {
		return nil, 0, err
	}
	at := src.offset
	word, err := src.next(8, "row count")
	if err != nil {
		return nil, 0, err
	}
	count := binary.LittleEndian.Uint64(word)
	if count > uint64(limits.Bytes/8) {
		return nil, 0, tooLarge(at, fmt.Sprintf("%d rows", count), fmt.Sprintf("at most %d bytes", limits.Bytes))
	}
	b, err := src.next(int64(count)*8, "row numbers")
	if err != nil {
		return nil, 0, err
	}
	at = src.offset
	if word, err = src.next(8, "height"); err != nil {
		return nil, 0, err
	}
	if height = int64(binary.LittleEndian.Uint64(word)); height < 0 {
		return nil, 0, corrupt(at, fmt.Sprintf("height %d", height), "0 or more")
	}
	rows = make([]int64, count)
	for i := range rows {
		rows[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		if rows[i] < 0 || rows[i] >= height {
			return nil, 0, corrupt(at, fmt.Sprintf("row %d", rows[i]), fmt.Sprintf("rows in [0, %d)", height))
		}
	}
	return rows, height, nil
}
