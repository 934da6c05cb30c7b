package tensor

import (
	"encoding/binary"
	"io"

	"github.com/edl-go/edl/fault"
)

// blockBytes is how many bytes of elements are coded at a time between a tensor and a file.
const blockBytes = 64 << 10

// AppendStream appends the LoDTensor stream of t to dst.
func AppendStream(dst []byte, t *Tensor) []byte {
	dst = appendHead(dst, t)
	return appendElements(dst, t, 0, t.Len())
}

// appendHead appends everything that stands before the elements.
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

// WriteTo writes the LoDTensor stream of t and returns the bytes written. It needs 64 KiB beyond the tensor, whatever
// the tensor's size.
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

// Read reads one LoDTensor stream from r and no byte beyond it. Memory grows with the bytes that arrive. An end of the
// bytes inside the stream is Corrupt and io.ErrUnexpectedEOF.
func Read(r io.Reader, limits Limits) (*Tensor, error) {
	var s Stream
	limits, src := limits.withDefaults(), source{r: r}
	lodLast, err := s.parseHead(&src, limits)
	if err != nil {
		return nil, err
	}
	t, err := readElements(&src, s.DType, s.Dims)
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
func readElements(src *source, dtype DType, dims []int64) (*Tensor, error) {
	if !dtype.Computable() {
		return nil, unsupportedElements(dtype)
	}
	switch dtype {
	case Bool:
		return readBlocks[bool](src, dims)
	case Int32:
		return readBlocks[int32](src, dims)
	case Int64:
		return readBlocks[int64](src, dims)
	case Float32:
		return readBlocks[float32](src, dims)
	default:
		return readBlocks[float64](src, dims)
	}
}

func readBlocks[T Element](src *source, dims []int64) (*Tensor, error) {
	dtype := Of[T]()
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
	return FromSlice(data[:total:total], append([]int64{}, dims...)...)
}
