package compress

import (
	"math"
	"unsafe"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// Of a sparse gradient, and of a table of which a round has changed some rows, only those rows travel, as they are. What travels of a table of so many rows
// of float32, each width long, is an int32 tensor of RowsDims. It has room for all rows, or on a trainer for as many as a batch names. Its first elements are
// in use, one after another:
//
//	n                  how many rows there are
//	n row numbers      ascending, so each row is there once
//	n*width elements   as the bits of float32, row after row
//
// The rest of the tensor has no meaning. Who sends it leaves the rest out where the way allows that.

// MaxRows bounds the rows of a table, or of a slice of one, that travels by rows: a row number is an int32.
const MaxRows = math.MaxInt32 - 1

// RowsDims are the dims of the tensor in which so many rows of a table travel. An open extent stays open.
func RowsDims(rows, width int64) []int64 {
	dims := []int64{program.Unknown, program.Unknown}
	if rows != program.Unknown {
		dims[0] = 1 + rows
	}
	if width != program.Unknown {
		dims[1] = 1 + width
	}
	return dims
}

// A RowsForm is a view of a tensor in which rows of a table travel.
type RowsForm struct {
	all   []int32
	rows  int // that there is room for: where contributions merge, all of the table
	width int
}

// RowsOf returns the view of a tensor. It reports false if rows do not travel in such a tensor. It does not look at the elements.
func RowsOf(t *tensor.Tensor) (f RowsForm, ok bool) {
	dims := t.Dims()
	if t.DType() != tensor.Int32 || len(dims) != 2 || dims[0] < 1 || dims[1] < 1 || dims[0]-1 > MaxRows {
		return RowsForm{}, false
	}
	return RowsForm{all: t.Int32s(), rows: int(dims[0] - 1), width: int(dims[1] - 1)}, true
}

// Height is how many rows there is room for.
func (f RowsForm) Height() int { return f.rows }

// Width is how many elements a row has.
func (f RowsForm) Width() int { return f.width }

// Begin makes room for n rows, at most Height, and returns their numbers and their elements, which the caller fills in.
func (f RowsForm) Begin(n int) (numbers []int32, values []float32) {
	f.all[0] = int32(n)
	return f.parts(n)
}

// Used returns the numbers and the elements of the rows that are there. It refuses a count that cannot be, and does not look at the numbers.
func (f RowsForm) Used() (numbers []int32, values []float32, err error) {
	n := int(f.all[0])
	if n < 0 || n > f.rows {
		return nil, nil, fault.E(fault.Corrupt, fault.Gotf("%d rows of a table of %d", n, f.rows), fault.Want("no more rows than the table has"))
	}
	numbers, values = f.parts(n)
	return numbers, values, nil
}

func (f RowsForm) parts(n int) (numbers []int32, values []float32) {
	numbers, bits := f.all[1:1+n], f.all[1+n:][:n*f.width]
	if len(bits) == 0 {
		return numbers, nil
	}
	return numbers, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(bits))), len(bits))
}

// RowsInUse returns the elements of such a tensor that travel, as a vector that shares its memory.
func RowsInUse(t *tensor.Tensor) (*tensor.Tensor, error) {
	form, ok := RowsOf(t)
	if !ok {
		return nil, fault.E(fault.TypeMismatch, fault.Got(t.String()), fault.Want("rows of a table"))
	}
	n, err := form.Bytes()
	if err != nil {
		return nil, err
	}
	return tensor.FromSlice(form.all[:n/4])
}

// Bytes is how many bytes of the tensor are in use.
func (f RowsForm) Bytes() (int, error) {
	numbers, values, err := f.Used()
	return 4 * (1 + len(numbers) + len(values)), err
}

// Check refuses rows that cannot be: more than there is room for, or numbers that are not ascending rows of the table.
func (f RowsForm) Check() error {
	numbers, _, err := f.Used()
	if err != nil {
		return err
	}
	return CheckIndices(numbers, -1, f.rows)
}
