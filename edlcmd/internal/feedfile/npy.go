package feedfile

import (
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/npz"
)

// blockBytes is how many bytes of elements are read and converted at a time.
const blockBytes = 1 << 20

// readNPY reads an array of size bytes as the dtype. It makes room for as many elements as present bytes can hold before it reads them, so present is how
// many of the bytes are there for sure; for the others memory grows as they arrive.
func readNPY(r io.Reader, size, present int64, dtype tensor.DType, budget *tensor.Budget) (*tensor.Tensor, error) {
	description, dims, bytes, err := npz.ReadHeader(r, size)
	if err != nil {
		return nil, err
	}
	a := array{r: r, dims: dims, bytes: bytes, present: min(present, bytes), dtype: dtype, budget: budget}
	if stored, ok := asStored[description]; ok && stored == dtype {
		return a.whole()
	}
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

// asStored has the descriptions of elements that tensors hold bit by bit.
var asStored = map[string]tensor.DType{"<f4": tensor.Float32, "<f8": tensor.Float64, "<i4": tensor.Int32, "<i8": tensor.Int64}

// An array is the elements of one .npy file.
type array struct {
	r       io.Reader
	dims    []int64
	bytes   int64 // of elements, as the file says
	present int64 // of them, those that are there for sure
	dtype   tensor.DType
	budget  *tensor.Budget
}

// count returns the number of elements. Elements of so many bytes each fill the array exactly.
func (a array) count(width int64) (int, error) {
	n, ok := tensor.Count(a.dims)
	if !ok || len(a.dims) > tensor.MaxRank || int64(n) > a.bytes/width || int64(n)*width != a.bytes {
		return 0, fault.E(fault.Corrupt, fault.Gotf("%d bytes of elements", a.bytes), fault.Wantf("those of shape %v at %d bytes each", a.dims, width))
	}
	return n, nil
}

// whole reads an array that needs no conversion, which is as fast as reading its bytes.
func (a array) whole() (*tensor.Tensor, error) {
	if _, err := a.count(int64(a.dtype.Size())); err != nil {
		return nil, err
	}
	if err := a.budget.Take("", a.bytes); err != nil {
		return nil, err
	}
	var place tensor.Place // for as much as is there for sure
	if a.present == a.bytes {
		place = func(dtype tensor.DType, dims []int64) (*tensor.Tensor, error) { return tensor.New(dtype, dims...) }
	}
	return tensor.ReadElementsInto(a.r, place, a.dtype, a.dims...)
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
	if err := a.budget.Take("", int64(n)*int64(a.dtype.Size())); err != nil {
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
