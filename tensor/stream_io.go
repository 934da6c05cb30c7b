package tensor

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
)

// blockBytes is how many bytes of elements are converted at a time.
const blockBytes = 64 << 10

// AppendStream appends the LoDTensor stream of t to dst. It allocates at most once. Read makes float32 of a stream of float16.
func AppendStream(dst []byte, t *Tensor) []byte {
	const versions, desc, dim = 16, 2, 11 // with the lengths that they have; at most, in bytes
	head := versions + 8 + desc + dim*len(t.dims)
	for _, level := range t.lod {
		head += 8 + 8*len(level)
	}
	if need := len(dst) + head + int(t.Bytes()); need > cap(dst) {
		dst = append(make([]byte, 0, max(need, 2*cap(dst))), dst...)
	}
	dst = appendHead(dst, t)
	return appendElements(dst, t, 0, t.Len())
}

// appendHead appends everything before the elements.
func appendHead(dst []byte, t *Tensor) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, streamVersion)
	dst = appendLoD(dst, t.lod)
	return appendTensorHead(dst, t)
}

func appendTensorHead(dst []byte, t *Tensor) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, streamVersion)
	length := len(dst)
	dst = appendDesc(append(dst, 0, 0, 0, 0), t)
	binary.LittleEndian.PutUint32(dst[length:], uint32(len(dst)-length-4))
	return dst
}

// WriteTo writes the LoDTensor stream of t and returns the number of bytes. It needs 64 KiB of memory in addition to the tensor.
func (t *Tensor) WriteTo(w io.Writer) (int64, error) {
	block := appendHead(make([]byte, 0, blockBytes), t)
	written := int64(0)
	for from, total := 0, t.Len(); ; {
		to := min(total, from+(blockBytes-len(block))/t.dtype.Size())
		block = appendElements(block, t, from, to)
		n, err := w.Write(block)
		written += int64(n)
		if err != nil {
			return written, fault.Wrap(fault.Unavailable, "", err)
		}
		if from, block = to, block[:0]; from == total {
			return written, nil
		}
	}
}

// Read reads one LoDTensor stream, of a type that kernels do not know as one of Wider, or a tensor that WriteShort has written, from r and no byte after it, of short form if r is an io.ByteReader. Memory grows with
// the bytes that arrive. If the bytes end inside the stream, the error is Corrupt and wraps io.ErrUnexpectedEOF.
func Read(r io.Reader, limits Limits) (*Tensor, error) { return ReadInto(r, limits, nil) }

// A Place gives the tensor that is read into, of this type and dims, whatever its elements are; nil: memory of Go. It is asked before the elements are read.
type Place func(dtype DType, dims []int64) (*Tensor, error)

// ReadInto is Read into the memory of a place. A nil place is memory of Go, and so is that of types that only Wider ones stand for.
func ReadInto(r io.Reader, limits Limits, place Place) (*Tensor, error) {
	var s Stream
	limits, src := limits.withDefaults(), source{r: r}
	short, err := beginsShort(&src)
	switch {
	case err != nil:
		return nil, err
	case short:
		return readShort(&src, limits, place)
	}
	lodLast, err := s.parseBody(&src, limits)
	if err != nil {
		return nil, err
	}
	t, err := readElements(&src, s.DType, s.Dims, place)
	if err != nil {
		return nil, err
	}
	if err := s.parseTail(&src, limits, lodLast); err != nil {
		return nil, err
	}
	t.lod = cloneLoD(s.LoD)
	return t, nil
}

// readElements reads a tensor's elements block by block.
func readElements(src *source, dtype DType, dims []int64, place Place) (*Tensor, error) {
	if !dtype.Storable() {
		return readWider(src, dtype, dims)
	}
	if t, err := place.take(dtype, dims); t != nil || err != nil {
		if err == nil {
			err = fillElements(src, t)
		}
		return t, err
	}
	switch dtype {
	case Bool:
		return readBlocks[bool](src, dtype, dims)
	case Int32:
		return readBlocks[int32](src, dtype, dims)
	case Int64:
		return readBlocks[int64](src, dtype, dims)
	case Float32:
		return readBlocks[float32](src, dtype, dims)
	case BFloat16:
		return readBlocks[uint16](src, dtype, dims)
	default:
		return readBlocks[float64](src, dtype, dims)
	}
}

// take asks a place for a tensor; nil: memory of Go.
func (p Place) take(dtype DType, dims []int64) (*Tensor, error) {
	if p == nil {
		return nil, nil
	}
	return p(dtype, slices.Clone(dims))
}

// fillElements reads the elements of a tensor that has its memory.
func fillElements(src *source, t *Tensor) error {
	size := t.dtype.Size()
	buffer := make([]byte, min(blockBytes, t.Len()*size))
	for at := 0; at < t.Len(); {
		n := min(t.Len()-at, blockBytes/size)
		if got, err := io.ReadFull(src.r, buffer[:n*size]); err != nil {
			return src.failed(err, int64(got), int64(n*size), "elements")
		}
		if err := decodeElements(t, at, n, buffer[:n*size]); err != nil {
			return err
		}
		at, src.offset = at+n, src.offset+int64(n*size)
	}
	return nil
}

func readBlocks[T Bits](src *source, dtype DType, dims []int64) (*Tensor, error) {
	total, _ := Count(dims)
	size := dtype.Size()
	buffer := make([]byte, min(blockBytes, total*size))
	block := Tensor{dtype: dtype}
	var data []T
	for len(data) < total {
		n := min(total-len(data), blockBytes/size)
		if got, err := io.ReadFull(src.r, buffer[:n*size]); err != nil {
			return nil, src.failed(err, int64(got), int64(n*size), "elements")
		}
		data = append(data, make([]T, n)...)
		block.data = data[len(data)-n:]
		if err := decodeElements(&block, 0, n, buffer[:n*size]); err != nil {
			return nil, err
		}
		src.offset += int64(n * size)
	}
	return &Tensor{dtype: dtype, dims: append([]int64{}, dims...), data: data[:total:total]}, nil
}

// decodeElements fills n elements of t from element offset on with the little-endian elements of b, which has their exact length. Of much it does not write zeros
// where there are zeros.
func decodeElements(t *Tensor, offset, n int, b []byte) error {
	for size := t.dtype.Size(); len(b) > blockBytes; offset, n, b = offset+blockBytes/size, n-blockBytes/size, b[blockBytes:] {
		if err := decodeBlock(t, offset, blockBytes/size, b[:blockBytes]); err != nil {
			return err
		}
	}
	return decodeBlock(t, offset, n, b)
}

// decodeBlock is decodeElements for a block.
func decodeBlock(t *Tensor, offset, n int, b []byte) error {
	if len(b) == blockBytes && ZeroBytes(b) && ZeroBytes(memoryOf(t)[offset*t.dtype.Size():][:blockBytes]) {
		return nil
	}
	switch d := t.data.(type) {
	case []bool:
		return decodeBools(d[offset:offset+n], b)
	case []int32:
		for i, to := 0, d[offset:offset+n]; i < len(to); i, b = i+1, b[4:] {
			to[i] = int32(binary.LittleEndian.Uint32(b))
		}
	case []int64:
		for i, to := 0, d[offset:offset+n]; i < len(to); i, b = i+1, b[8:] {
			to[i] = int64(binary.LittleEndian.Uint64(b))
		}
	case []float32:
		for i, to := 0, d[offset:offset+n]; i < len(to); i, b = i+1, b[4:] {
			to[i] = math.Float32frombits(binary.LittleEndian.Uint32(b))
		}
	case []float64:
		for i, to := 0, d[offset:offset+n]; i < len(to); i, b = i+1, b[8:] {
			to[i] = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case []uint16:
		for i, to := 0, d[offset:offset+n]; i < len(to); i, b = i+1, b[2:] {
			to[i] = binary.LittleEndian.Uint16(b)
		}
	}
	return nil
}

func decodeBools(dst []bool, b []byte) error {
	for i := range dst {
		if b[i] > 1 {
			return fault.E(fault.Corrupt, fault.Gotf("%d as bool element %d", b[i], i), fault.Want("0 or 1"))
		}
		dst[i] = b[i] == 1
	}
	return nil
}

// appendElements appends elements [from, to) of t.
func appendElements(dst []byte, t *Tensor, from, to int) []byte {
	dst = slices.Grow(dst, (to-from)*t.dtype.Size())
	switch d := t.data.(type) {
	case []bool:
		for _, v := range d[from:to] {
			b := byte(0)
			if v {
				b = 1
			}
			dst = append(dst, b)
		}
	case []int32:
		for _, v := range d[from:to] {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(v))
		}
	case []int64:
		dst = appendInt64s(dst, d[from:to])
	case []float32:
		for _, v := range d[from:to] {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
		}
	case []float64:
		for _, v := range d[from:to] {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
	case []uint16:
		for _, v := range d[from:to] {
			dst = binary.LittleEndian.AppendUint16(dst, v)
		}
	}
	return dst
}

func appendInt64s(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// WriteElements writes the elements of t alone, row-major and little-endian, as other formats than Fluid's hold them. It needs 64 KiB of memory in addition
// to the tensor.
func WriteElements(w io.Writer, t *Tensor) error {
	block := make([]byte, 0, blockBytes)
	for from, total := 0, t.Len(); from < total; {
		to := min(total, from+blockBytes/t.dtype.Size())
		if _, err := w.Write(appendElements(block, t, from, to)); err != nil {
			return fault.Wrap(fault.Unavailable, "", err)
		}
		from = to
	}
	return nil
}

// ReadElements reads a tensor of known dtype and dims whose elements WriteElements has written, and no byte after it; as one of Wider, if kernels do not know the dtype. Memory grows with the bytes that
// arrive. If they end too early, the error is Corrupt and wraps io.ErrUnexpectedEOF.
func ReadElements(r io.Reader, dtype DType, dims ...int64) (*Tensor, error) {
	return ReadElementsInto(r, nil, dtype, dims...)
}

// ReadElementsInto is ReadElements into the memory of a place.
func ReadElementsInto(r io.Reader, place Place, dtype DType, dims ...int64) (*Tensor, error) {
	if len(dims) > MaxRank {
		return nil, fault.E(fault.TooLarge, fault.Gotf("rank %d", len(dims)), fault.Wantf("at most %d", MaxRank))
	}
	if _, ok := Count(dims); !ok {
		return nil, fault.E(fault.TooLarge, fault.Got("dims "+fmt.Sprint(dims)), fault.Want("dims that are not negative, with a countable number of elements"))
	}
	return readElements(&source{r: r}, dtype, dims, place)
}
