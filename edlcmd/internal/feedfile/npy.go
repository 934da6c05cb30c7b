package feedfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/sbinet/npyio/npy"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

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
