// Package feedfile reads the values that are fed to a program from files that people have: NumPy's .npy and tables in .csv.
//
// Files are not trusted: the size of a file is compared with what it declares before anything is allocated for it.
package feedfile

import (
	"bufio"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/regularfile"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/sbinet/npyio/npy"
)

// MaxBytes bounds a file.
const MaxBytes = 1 << 30

// Read returns the value in a file as it is declared by the variable that it is fed to. Numbers are converted to the declared dtype where
// every value fits: whole numbers to any type that holds them exactly, and float64 to float32 by rounding. Extents are those of the
// file; a table whose rows have as many numbers as one declared record takes the dims of records.
func Read(path string, declared *program.Var) (*tensor.Tensor, error) {
	read := map[string]func(*os.File, int64) (*tensor.Tensor, error){".npy": readNPY, ".csv": readCSV}[filepath.Ext(path)]
	if read == nil {
		return nil, fault.E(fault.InvalidArgument, fault.At(path), fault.Got("a file of unknown form"),
			fault.Want("a name that ends in .npy or .csv"))
	}
	t, err := readFile(path, read)
	if err != nil {
		return nil, err
	}
	if t, err = convert(t, declared.DType); err != nil {
		return nil, at(path, declared.Name, err)
	}
	return shapeRecords(t, declared.Dims)
}

func readFile(path string, read func(*os.File, int64) (*tensor.Tensor, error)) (*tensor.Tensor, error) {
	f, size, err := regularfile.Open(fault.InvalidArgument, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > MaxBytes {
		return nil, fault.E(fault.TooLarge, fault.At(path), fault.Gotf("%d bytes", size), fault.Wantf("at most %d", MaxBytes))
	}
	t, err := read(f, size)
	if err != nil {
		return nil, at(path, "", err)
	}
	return t, nil
}

// at names the file, and the variable, that an error is about.
func at(path, variable string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) {
		return fault.Wrap(fault.Corrupt, path, err)
	}
	c := *f
	c.Where, c.Variable = path, variable
	return &c
}

// shapeRecords gives a matrix the declared dims of its records, where the numbers of a row are as many as those of a record.
func shapeRecords(t *tensor.Tensor, declared []int64) (*tensor.Tensor, error) {
	if len(t.Dims()) != 2 || len(declared) < 2 || declared[0] != program.Unknown {
		return t, nil
	}
	if n, ok := tensor.Count(declared[1:]); !ok || int64(n) != t.Dims()[1] {
		return t, nil
	}
	return t.Reshape(append([]int64{t.Dims()[0]}, declared[1:]...)...)
}

// maxLine bounds one row of a table.
const maxLine = 1 << 20

// readCSV reads a table of numbers without header into float64 [rows, columns].
func readCSV(f *os.File, _ int64) (*tensor.Tensor, error) {
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var data []float64
	rows, columns := 0, 0
	for lines.Scan() {
		fields, err := splitRow(lines.Text())
		if err != nil || len(fields) == 0 {
			if err != nil {
				return nil, rowFault(rows, err.Error(), "numbers between commas")
			}
			continue
		}
		if rows > 0 && len(fields) != columns {
			return nil, rowFault(rows, fmt.Sprintf("%d numbers", len(fields)), fmt.Sprintf("%d, as in the first row", columns))
		}
		for _, field := range fields {
			v, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
			if err != nil {
				return nil, rowFault(rows, fault.Quote(field), "a number")
			}
			data = append(data, v)
		}
		rows, columns = rows+1, len(fields)
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, rowFault(rows, fmt.Sprintf("more than %d bytes", maxLine), "a shorter row")
		}
		return nil, err
	}
	if rows == 0 {
		return nil, fault.E(fault.Corrupt, fault.Got("no row"), fault.Want("at least one row of numbers"))
	}
	return tensor.FromSlice(data, int64(rows), int64(columns))
}

// splitRow returns the fields of one line, none for a blank one.
func splitRow(line string) ([]string, error) {
	fields, err := csv.NewReader(strings.NewReader(line)).Read()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return fields, err
}

func rowFault(row int, got, want string) error {
	return fault.E(fault.Corrupt, fault.Cause(fmt.Errorf("row %d", row+1)), fault.Got(got), fault.Want(want))
}

// maxHeader bounds the header of a .npy file, which names a type and a few extents.
const maxHeader = 64 << 10

// headerForm is the header of plain arrays as NumPy writes it. The library that parses it relies on this form, so it is checked here first.
var headerForm = regexp.MustCompile(`^\{'descr': '[<>|=]?[a-z][0-9]+', 'fortran_order': (True|False), ` +
	`'shape': \(([0-9]{1,18}, ?)*([0-9]{1,18})?\), \} *\n$`)

func readNPY(f *os.File, size int64) (*tensor.Tensor, error) {
	data, err := checkHeader(f, size)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	r, err := npy.NewReader(f)
	if err != nil {
		return nil, err
	}
	if r.Header.Descr.Fortran {
		return nil, fault.E(fault.Unsupported, fault.Got("an array in column-major order"), fault.Want("row-major"),
			fault.Hint("save numpy.ascontiguousarray(x)"))
	}
	dims := make([]int64, len(r.Header.Descr.Shape))
	for i, n := range r.Header.Descr.Shape {
		dims[i] = int64(n)
	}
	switch kind := r.Header.Descr.Type; kind {
	case "<f4", ">f4":
		return elements[float32](r, data, 4, dims)
	case "<f8", ">f8":
		return elements[float64](r, data, 8, dims)
	case "<i4", ">i4":
		return elements[int32](r, data, 4, dims)
	case "<i8", ">i8":
		return elements[int64](r, data, 8, dims)
	case "|b1":
		return elements[bool](r, data, 1, dims)
	case "|u1":
		return widened[uint8](r, data, dims)
	case "|i1":
		return widened[int8](r, data, dims)
	default:
		return nil, fault.E(fault.Unsupported, fault.Got("an array of "+kind), fault.Want("bool, int8, uint8, int32, int64, float32 or float64"))
	}
}

// checkHeader reads the fixed part and the header text of a file, and returns the number of bytes behind them.
func checkHeader(f *os.File, size int64) (int64, error) {
	corrupt := func(got, want string) error { return fault.E(fault.Corrupt, fault.Got(got), fault.Want(want)) }
	fixed := make([]byte, 12)
	if n, err := io.ReadFull(f, fixed); err != nil {
		return 0, corrupt(fmt.Sprintf("a file of %d bytes", n), "a .npy file")
	}
	if string(fixed[:6]) != "\x93NUMPY" {
		return 0, corrupt("a file without NumPy's signature", "a .npy file")
	}
	start, length := int64(10), int64(binary.LittleEndian.Uint16(fixed[8:]))
	switch fixed[6] {
	case 1:
	case 2:
		start, length = 12, int64(binary.LittleEndian.Uint32(fixed[8:]))
	default:
		return 0, fault.E(fault.Unsupported, fault.Gotf("version %d of the .npy format", fixed[6]), fault.Want("1 or 2"))
	}
	if length > maxHeader || start+length > size {
		return 0, corrupt(fmt.Sprintf("a header of %d bytes in a file of %d", length, size), "a whole .npy file")
	}
	text := make([]byte, length)
	if _, err := f.ReadAt(text, start); err != nil {
		return 0, err
	}
	if !headerForm.Match(text) {
		return 0, corrupt("header "+fault.Quote(string(text)), "type and shape of a plain array")
	}
	return size - start - length, nil
}

// elements reads an array whose elements fill exactly the given bytes.
func elements[T tensor.Element](r *npy.Reader, bytes, width int64, dims []int64) (*tensor.Tensor, error) {
	data, err := exactly[T](r, bytes, width, dims)
	if err != nil {
		return nil, err
	}
	return tensor.FromSlice(data, dims...)
}

// widened reads an array of bytes as int32.
func widened[T int8 | uint8](r *npy.Reader, bytes int64, dims []int64) (*tensor.Tensor, error) {
	narrow, err := exactly[T](r, bytes, 1, dims)
	if err != nil {
		return nil, err
	}
	wide := make([]int32, len(narrow))
	for i, v := range narrow {
		wide[i] = int32(v)
	}
	return tensor.FromSlice(wide, dims...)
}

func exactly[T any](r *npy.Reader, bytes, width int64, dims []int64) ([]T, error) {
	n, ok := tensor.Count(dims)
	if !ok || len(dims) > tensor.MaxRank || int64(n) > bytes/width || int64(n)*width != bytes {
		return nil, fault.E(fault.Corrupt, fault.Gotf("%d bytes of elements", bytes),
			fault.Wantf("those of shape %v at %d bytes each", dims, width))
	}
	data := make([]T, n)
	if n == 0 {
		return data, nil
	}
	return data, r.Read(&data)
}

// number lists the element types that convert into each other.
type number interface {
	int32 | int64 | float32 | float64
}

// convert returns t as dtype, t itself where it is that already.
func convert(t *tensor.Tensor, dtype tensor.DType) (*tensor.Tensor, error) {
	if t.DType() == dtype {
		return t, nil
	}
	switch t.DType() {
	case tensor.Int32:
		return convertFrom(t, t.Int32s(), dtype)
	case tensor.Int64:
		return convertFrom(t, t.Int64s(), dtype)
	case tensor.Float32:
		return convertFrom(t, t.Float32s(), dtype)
	case tensor.Float64:
		return convertFrom(t, t.Float64s(), dtype)
	}
	return nil, mismatch(t.DType().String(), dtype)
}

func convertFrom[S number](t *tensor.Tensor, source []S, dtype tensor.DType) (*tensor.Tensor, error) {
	switch dtype {
	case tensor.Int32:
		return convertTo[S, int32](t, source)
	case tensor.Int64:
		return convertTo[S, int64](t, source)
	case tensor.Float32:
		return convertTo[S, float32](t, source)
	case tensor.Float64:
		return convertTo[S, float64](t, source)
	}
	return nil, mismatch(t.DType().String(), dtype)
}

// convertTo converts every element. Between floats, and from NaN and infinities, precision may go; otherwise the value must stay.
func convertTo[S, D number](t *tensor.Tensor, source []S) (*tensor.Tensor, error) {
	out := make([]D, len(source))
	rounds := t.DType().IsFloat() && tensor.Of[D]().IsFloat()
	for i, v := range source {
		out[i] = D(v)
		if !rounds && (float64(out[i]) != float64(v) || S(out[i]) != v) {
			return nil, mismatch(fmt.Sprintf("%v of %s at element %d", v, t.DType(), i), tensor.Of[D]())
		}
	}
	return tensor.FromSlice(out, t.Dims()...)
}

func mismatch(got string, want tensor.DType) error {
	return fault.E(fault.TypeMismatch, fault.Got(got), fault.Want(want.String()))
}
