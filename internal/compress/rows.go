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
//
// Rows of a table that grows have keys for numbers: mixed keys (kernel.MixKey), ascending as numbers without sign. They travel in an int64 tensor of the same
// dims. Two elements of float32 are in each int64, and the last of them may be empty.

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

// A Number is what a row is known by: a row number, or a mixed key.
type Number interface{ int32 | int64 }

// A SparseForm is a view of a tensor in which rows of a table travel.
type SparseForm[N Number] struct {
	all   []N
	rows  int // that there is room for: where contributions merge, all of the table
	width int
}

// A RowsForm has row numbers, a KeysForm has mixed keys.
type (
	RowsForm = SparseForm[int32]
	KeysForm = SparseForm[int64]
)

// RowsOf returns the view of a tensor. It reports false if rows do not travel in such a tensor. It does not look at the elements.
func RowsOf(t *tensor.Tensor) (f RowsForm, ok bool) {
	if t.DType() != tensor.Int32 {
		return f, false
	}
	return formOf(t, t.Int32s())
}

// KeysOf is RowsOf for rows that have keys.
func KeysOf(t *tensor.Tensor) (f KeysForm, ok bool) {
	if t.DType() != tensor.Int64 {
		return f, false
	}
	return formOf(t, t.Int64s())
}

// IsForm reports whether rows travel in such a tensor, with numbers or with keys.
func IsForm(t *tensor.Tensor) bool {
	_, rows := RowsOf(t)
	_, keys := KeysOf(t)
	return rows || keys
}

func formOf[N Number](t *tensor.Tensor, all []N) (f SparseForm[N], ok bool) {
	dims := t.Dims()
	if len(dims) != 2 || dims[0] < 1 || dims[1] < 1 || dims[0]-1 > MaxRows {
		return f, false
	}
	return SparseForm[N]{all: all, rows: int(dims[0] - 1), width: int(dims[1] - 1)}, true
}

// Height is how many rows there is room for.
func (f SparseForm[N]) Height() int { return f.rows }

// Width is how many elements a row has.
func (f SparseForm[N]) Width() int { return f.width }

// Begin makes room for n rows, at most Height, and returns their numbers and their elements, which the caller fills in.
func (f SparseForm[N]) Begin(n int) (numbers []N, values []float32) {
	f.all[0] = N(n)
	return f.parts(n)
}

// Used returns the numbers and the elements of the rows that are there. It refuses a count that cannot be, and does not look at the numbers.
func (f SparseForm[N]) Used() (numbers []N, values []float32, err error) {
	n := int(f.all[0])
	if n < 0 || n > f.rows {
		return nil, nil, fault.E(fault.Corrupt, fault.Gotf("%d rows of a table of %d", n, f.rows), fault.Want("no more rows than the table has"))
	}
	numbers, values = f.parts(n)
	return numbers, values, nil
}

func (f SparseForm[N]) parts(n int) (numbers []N, values []float32) {
	numbers, rest := f.all[1:1+n], f.all[1+n:]
	if n*f.width == 0 {
		return numbers, nil
	}
	return numbers, unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(rest))), n*f.width)
}

// RowsInUse returns the elements of such a tensor that travel, as a vector that shares its memory.
func RowsInUse(t *tensor.Tensor) (*tensor.Tensor, error) {
	if form, ok := KeysOf(t); ok {
		return inUse(form)
	}
	form, ok := RowsOf(t)
	if !ok {
		return nil, fault.E(fault.TypeMismatch, fault.Got(t.String()), fault.Want("rows of a table"))
	}
	return inUse(form)
}

func inUse[N Number](f SparseForm[N]) (*tensor.Tensor, error) {
	n, err := f.Bytes()
	if err != nil {
		return nil, err
	}
	return tensor.FromSlice(f.all[:n/int(unsafe.Sizeof(N(0)))])
}

// Bytes is how many bytes of the tensor are in use.
func (f SparseForm[N]) Bytes() (int, error) {
	numbers, _, err := f.Used()
	return FormBytes(len(numbers), f.width, int(unsafe.Sizeof(N(0)))), err
}

// FormBytes is how many bytes n rows have that travel, with numbers of so many bytes.
func FormBytes(n, width, number int) int {
	values := (4*n*width + number - 1) / number * number
	return number*(1+n) + values
}

// Check refuses rows that cannot be: more than there is room for, or numbers that are not ascending rows of the table.
func (f SparseForm[N]) Check() error {
	numbers, _, err := f.Used()
	if err != nil {
		return err
	}
	return CheckNumbers(numbers, f.rows)
}

// CheckForm is Check for rows that travel in a tensor, whatever their numbers are.
func CheckForm(t *tensor.Tensor) error {
	if form, ok := KeysOf(t); ok {
		return form.Check()
	}
	form, ok := RowsOf(t)
	if !ok {
		return fault.E(fault.TypeMismatch, fault.Got(t.String()), fault.Want("rows of a table"))
	}
	return form.Check()
}

// CheckNumbers refuses row numbers that are not ascending rows of a table of so many, and mixed keys that are not ascending or no keys.
func CheckNumbers[N Number](numbers []N, rows int) error {
	switch numbers := any(numbers).(type) {
	case []int32:
		return CheckIndices(numbers, -1, rows)
	case []int64:
		last := uint64(0)
		for _, key := range numbers {
			if uint64(key) <= last {
				return fault.E(fault.Corrupt, fault.Gotf("the mixed key %#x after %#x", uint64(key), last), fault.Want("ascending keys"))
			}
			last = uint64(key)
		}
	}
	return nil
}
