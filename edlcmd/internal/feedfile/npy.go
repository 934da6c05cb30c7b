package feedfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// maxHeader bounds the header of a .npy file, which names a type and a few extents.
const maxHeader = 64 << 10

// blockBytes is how many bytes of elements are read and converted at a time.
const blockBytes = 1 << 20

// headerForm is the header of plain arrays as NumPy writes it: type, order and shape.
var headerForm = regexp.MustCompile(`^\{'descr': '([<>|=]?[a-z][0-9]+)', 'fortran_order': (True|False), ` +
	`'shape': \(((?:[0-9]{1,18}, ?)*(?:[0-9]{1,18})?)\), \} *\n$`)

// readNPY reads an array of size bytes as the dtype. It makes room for as many elements as present bytes can hold before it reads them, so present is how
// many of the bytes are there for sure; for the others memory grows as they arrive.
func readNPY(r io.Reader, size, present int64, dtype tensor.DType) (*tensor.Tensor, error) {
	description, dims, bytes, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	a := array{r: r, dims: dims, bytes: bytes, present: min(present, bytes), dtype: dtype}
	var order binary.ByteOrder = binary.LittleEndian
	if description[0] == '>' {
		order = binary.BigEndian
	}
	switch description {
	case "<f4", ">f4":
		return elements(a, 4, func(b []byte) float32 { return math.Float32frombits(order.Uint32(b)) })
	case "<f8", ">f8":
		return elements(a, 8, func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) })
	case "<i4", ">i4":
		return elements(a, 4, func(b []byte) int32 { return int32(order.Uint32(b)) })
	case "<i8", ">i8":
		return elements(a, 8, func(b []byte) int64 { return int64(order.Uint64(b)) })
	case "<f2", ">f2":
		return elements(a, 2, func(b []byte) float32 { return tensor.WidenHalf(order.Uint16(b)) })
	case "<i2", ">i2":
		return elements(a, 2, func(b []byte) int32 { return int32(int16(order.Uint16(b))) })
	case "|u1":
		return elements(a, 1, func(b []byte) uint8 { return b[0] })
	case "|i1":
		return elements(a, 1, func(b []byte) int8 { return int8(b[0]) })
	case "|b1":
		if dtype != tensor.Bool {
			return nil, mismatch("bool", dtype)
		}
		return truths(a)
	}
	return nil, fault.E(fault.Unsupported, fault.Got("an array of "+description), fault.Want("bool, int8, uint8, int16, int32, int64, float16, float32 or float64"))
}

// readHeader reads what stands before the elements of an array of size bytes. It returns the type, the dims and the number of bytes of elements.
func readHeader(r io.Reader, size int64) (description string, dims []int64, bytes int64, err error) {
	corrupt := func(got, want string) error { return fault.E(fault.Corrupt, fault.Got(got), fault.Want(want)) }
	fixed := make([]byte, 10, 12)
	if n, err := io.ReadFull(r, fixed); err != nil {
		return "", nil, 0, corrupt(fmt.Sprintf("an array of %d bytes", n), "a .npy file")
	}
	if string(fixed[:6]) != "\x93NUMPY" {
		return "", nil, 0, corrupt("bytes without NumPy's signature", "a .npy file")
	}
	length := int64(binary.LittleEndian.Uint16(fixed[8:]))
	switch fixed[6] {
	case 1:
	case 2:
		fixed = fixed[:12]
		if _, err := io.ReadFull(r, fixed[10:]); err != nil {
			return "", nil, 0, corrupt("a header that is cut off", "a whole .npy file")
		}
		length = int64(binary.LittleEndian.Uint32(fixed[8:]))
	default:
		return "", nil, 0, fault.E(fault.Unsupported, fault.Gotf("version %d of the .npy format", fixed[6]), fault.Want("1 or 2"))
	}
	bytes = size - int64(len(fixed)) - length
	if length > maxHeader || bytes < 0 {
		return "", nil, 0, corrupt(fmt.Sprintf("a header of %d bytes in an array of %d", length, size), "a whole .npy file")
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return "", nil, 0, corrupt("a header that is cut off", "a whole .npy file")
	}
	m := headerForm.FindStringSubmatch(string(text))
	if m == nil {
		return "", nil, 0, corrupt("header "+fault.Quote(string(text)), "type and shape of a plain array")
	}
	if m[2] == "True" {
		return "", nil, 0, fault.E(fault.Unsupported, fault.Got("an array in column-major order"), fault.Want("row-major"),
			fault.Hint("save numpy.ascontiguousarray(x)"))
	}
	for extent := range strings.SplitSeq(m[3], ",") {
		if extent = strings.TrimSpace(extent); extent != "" {
			n, _ := strconv.ParseInt(extent, 10, 64) // the form bounds its digits
			dims = append(dims, n)
		}
	}
	return m[1], dims, bytes, nil
}

// An array is the elements of one .npy file.
type array struct {
	r       io.Reader
	dims    []int64
	bytes   int64 // of elements, as the file says
	present int64 // of them, those that are there for sure
	dtype   tensor.DType
}

// count returns the number of elements. Elements of so many bytes each fill the array exactly.
func (a array) count(width int64) (int, error) {
	n, ok := tensor.Count(a.dims)
	if !ok || len(a.dims) > tensor.MaxRank || int64(n) > a.bytes/width || int64(n)*width != a.bytes {
		return 0, fault.E(fault.Corrupt, fault.Gotf("%d bytes of elements", a.bytes), fault.Wantf("those of shape %v at %d bytes each", a.dims, width))
	}
	return n, nil
}

// elements reads an array whose elements have so many bytes each.
func elements[S source](a array, width int, decode func([]byte) S) (*tensor.Tensor, error) {
	switch a.dtype {
	case tensor.Int32:
		return numbers[S, int32](a, width, decode)
	case tensor.Int64:
		return numbers[S, int64](a, width, decode)
	case tensor.Float32:
		return numbers[S, float32](a, width, decode)
	case tensor.Float64:
		return numbers[S, float64](a, width, decode)
	}
	return nil, mismatch(name[S](), a.dtype)
}

func numbers[S source, D number](a array, width int, decode func([]byte) S) (*tensor.Tensor, error) {
	var block []S
	return blocks(a, width, func(dst []D, b []byte) ([]D, error) {
		block = block[:0]
		for ; len(b) > 0; b = b[width:] {
			block = append(block, decode(b))
		}
		return appendNumbers(dst, block)
	})
}

func truths(a array) (*tensor.Tensor, error) {
	return blocks(a, 1, func(dst []bool, b []byte) ([]bool, error) {
		for _, v := range b {
			if v > 1 {
				return nil, fault.E(fault.Corrupt, fault.Gotf("the byte %d at element %d", v, len(dst)), fault.Want("0 or 1, as a bool has"))
			}
			dst = append(dst, v == 1)
		}
		return dst, nil
	})
}

// blocks reads an array block by block, each of which add appends to the elements.
func blocks[D tensor.Element](a array, width int, add func(dst []D, b []byte) ([]D, error)) (*tensor.Tensor, error) {
	n, err := a.count(int64(width))
	if err != nil {
		return nil, err
	}
	data := make([]D, 0, a.present/int64(width))
	buffer := make([]byte, min(blockBytes, n*width))
	for len(data) < n {
		b := buffer[:min(len(buffer), (n-len(data))*width)]
		if _, err := io.ReadFull(a.r, b); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, fault.E(fault.Corrupt, fault.Gotf("an array that is cut off after %d elements", len(data)), fault.Wantf("%d", n))
			}
			return nil, err
		}
		if data, err = add(data, b); err != nil {
			return nil, err
		}
	}
	return tensor.FromSlice(data, a.dims...)
}
