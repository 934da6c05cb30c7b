package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/edl-go/edl/fault"
	"google.golang.org/protobuf/encoding/protowire"
)

// Limits bounds what a decoder accepts. The decoder checks them before it allocates. A zero field means its default.
type Limits struct {
	Bytes     int64 // elements and LoD offsets of one stream together; default 4 GiB
	OfFile    bool  // Bytes are those of the file that is read: elements that have no room in it were cut off, which is Corrupt and not TooLarge
	Short     int64 // elements of one tensor in short form, of which few may be in the file; default 4 GiB
	Rank      int   // dims; default and upper bound MaxRank
	LoDLevels int   // LoD levels; default MaxLoDLevel
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = 4 << 30
	}
	if l.Short <= 0 {
		l.Short = 4 << 30
	}
	if l.Rank <= 0 || l.Rank > MaxRank {
		l.Rank = MaxRank
	}
	if l.LoDLevels <= 0 {
		l.LoDLevels = MaxLoDLevel
	}
	return l
}

// atByte is the place of a fault in a stream: an offset from its first byte.
func atByte(offset int64) string { return fmt.Sprintf("byte %d", offset) }

func corrupt(offset int64, got, want string) error {
	return fault.E(fault.Corrupt, fault.At(atByte(offset)), fault.Got(got), fault.Want(want))
}

func tooLarge(offset int64, got, want string) error {
	return fault.E(fault.TooLarge, fault.At(atByte(offset)), fault.Got(got), fault.Want(want))
}

// streamVersion is the only version that Fluid has ever written, of the stream and of the tensor in it.
const streamVersion = 0

// A Stream is one parsed Fluid LoDTensor stream. All numbers are little-endian: uint32 version, uint64 LoD level count, per level a uint64 byte
// size and uint64 offsets, then uint32 tensor version, int32 length of a TensorDesc, the TensorDesc, and the raw elements in row-major order.
//
// Reuse a Stream: Parse keeps the memory of Dims and LoD, so that reading records of one shape allocates nothing.
type Stream struct {
	DType DType     // any type with a known width, even one that a Tensor cannot hold
	Dims  []int64   // valid until the next Parse
	LoD   [][]int64 // valid until the next Parse; empty for a plain tensor
	Data  []byte    // elements, a part of the bytes that were parsed
}

// Parse reads one stream from the front of b and returns the rest of b. Data refers to b. Parse also reads streams from before 2017-12-28, which
// have one version word, and the LoD after the elements.
func (s *Stream) Parse(b []byte, limits Limits) (rest []byte, err error) {
	src := source{b: b}
	lodLast, err := s.parseHead(&src, limits.withDefaults())
	if err != nil {
		return nil, err
	}
	if s.Data, err = src.next(s.dataBytes(), "elements"); err != nil {
		return nil, err
	}
	if err = s.parseTail(&src, limits.withDefaults(), lodLast); err != nil {
		return nil, err
	}
	return src.b, nil
}

// parseHead reads up to the elements. lodLast reports the layout of 2017. In that layout the eight bytes after the version are not a level count.
// They are the length of the TensorDesc and its first four bytes, beginning with the tag of data_type. Read as a count, they are above any limit,
// so the two layouts are always distinct.
func (s *Stream) parseHead(src *source, limits Limits) (lodLast bool, err error) {
	if err := src.version("stream version"); err != nil {
		return false, err
	}
	return s.parseBody(src, limits)
}

// parseBody is parseHead behind the version.
func (s *Stream) parseBody(src *source, limits Limits) (lodLast bool, err error) {
	at := src.offset
	word, err := src.next(8, "LoD level count")
	if err != nil {
		return false, err
	}
	levels := binary.LittleEndian.Uint64(word)
	if length := int32(binary.LittleEndian.Uint32(word)); levels > uint64(limits.LoDLevels) &&
		length >= 4 && length <= maxDesc && word[4] == dataTypeTag {
		rest, err := src.next(int64(length)-4, "tensor description")
		if err != nil {
			return false, err
		}
		return true, s.parseDesc(append(append(make([]byte, 0, length), word[4:]...), rest...), at+4, limits)
	}
	if err := s.parseLoD(src, levels, at, limits); err != nil {
		return false, err
	}
	return false, s.parseTensorHead(src, limits)
}

// parseTensorHead reads the version and description of a tensor in a LoDTensor or SelectedRows stream.
func (s *Stream) parseTensorHead(src *source, limits Limits) error {
	if err := src.version("tensor version"); err != nil {
		return err
	}
	at := src.offset
	word, err := src.next(4, "length of the tensor description")
	if err != nil {
		return err
	}
	length := int32(binary.LittleEndian.Uint32(word))
	if length < 0 || length > maxDesc {
		return corrupt(at, fmt.Sprintf("a tensor description of %d bytes", length), fmt.Sprintf("0 to %d", maxDesc))
	}
	at = src.offset
	desc, err := src.next(int64(length), "tensor description")
	if err != nil {
		return err
	}
	return s.parseDesc(desc, at, limits)
}

// parseTail reads the bytes after the elements and checks the LoD against dims.
func (s *Stream) parseTail(src *source, limits Limits, lodLast bool) error {
	if lodLast {
		at := src.offset
		word, err := src.next(8, "LoD level count")
		if err != nil {
			return err
		}
		if err := s.parseLoD(src, binary.LittleEndian.Uint64(word), at, limits); err != nil {
			return err
		}
	}
	return s.checkLoD(src.offset)
}

// Len returns the number of elements.
func (s *Stream) Len() int {
	n, _ := Count(s.Dims)
	return n
}

func (s *Stream) dataBytes() int64 { return int64(s.Len()) * int64(s.DType.Size()) }

// CopyInto decodes the elements into dst from element offset on. It fails if the types differ or the elements do not fit. It does not compare dims.
// It allocates nothing.
func (s *Stream) CopyInto(dst *Tensor, offset int) error {
	if s.DType != dst.dtype {
		if !s.DType.Storable() {
			return unsupportedElements(s.DType)
		}
		return fault.E(fault.TypeMismatch, fault.Got(s.DType.String()), fault.Want(dst.dtype.String()))
	}
	n := s.Len()
	if offset < 0 || offset > dst.Len() || n > dst.Len()-offset {
		return fault.E(fault.ShapeMismatch, fault.Gotf("%d elements for offset %d", n, offset), fault.Want("room in "+dst.String()))
	}
	return decodeElements(dst, offset, n, s.Data)
}

// Tensor returns a copy of the parsed tensor. It converts nothing: types that a Tensor cannot hold are Unsupported.
func (s *Stream) Tensor() (*Tensor, error) {
	if !s.DType.Storable() {
		return nil, unsupportedElements(s.DType)
	}
	t, err := New(s.DType, s.Dims...)
	if err != nil {
		return nil, err
	}
	t.lod = cloneLoD(s.LoD)
	return t, s.CopyInto(t, 0)
}

// DecodeStream reads one LoDTensor stream from the front of b and returns the rest of b.
func DecodeStream(b []byte, limits Limits) (t *Tensor, rest []byte, err error) {
	var s Stream
	if rest, err = s.Parse(b, limits); err != nil {
		return nil, nil, err
	}
	if t, err = s.Tensor(); err != nil {
		return nil, nil, err
	}
	return t, rest, nil
}

func unsupportedElements(d DType) error {
	return fault.E(fault.Unsupported, fault.Got(d.String()+" elements"), fault.Want("bool, int32, int64, bfloat16, float32 or float64"))
}

// Fields of Fluid's VarType.TensorDesc: data_type = 1 (enum), dims = 2 (repeated int64, written unpacked).
const (
	descDataType protowire.Number = 1
	descDims     protowire.Number = 2

	dataTypeTag = 0x08 // field 1, varint: the first byte of every description
	maxDesc     = 4096 // bytes of a description; MaxRank dims take at most 178
)

// parseDesc reads a TensorDesc at byte at of the stream. Dims may be packed or not. It skips unknown fields.
func (s *Stream) parseDesc(b []byte, at int64, limits Limits) error {
	s.DType, s.Dims = -1, s.Dims[:0]
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return corruptDesc(at, n)
		}
		b, at = b[n:], at+int64(n)
		switch {
		case number == descDataType && wire == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				s.DType = DType(v)
			}
		case number == descDims && wire == protowire.VarintType:
			var v uint64
			if v, n = protowire.ConsumeVarint(b); n >= 0 {
				s.Dims = append(s.Dims, int64(v))
			}
		case number == descDims && wire == protowire.BytesType:
			var packed []byte
			if packed, n = protowire.ConsumeBytes(b); n >= 0 {
				if err := s.parsePackedDims(packed, at); err != nil {
					return err
				}
			}
		default:
			n = protowire.ConsumeFieldValue(number, wire, b)
		}
		if n < 0 {
			return corruptDesc(at, n)
		}
		b, at = b[n:], at+int64(n)
	}
	return s.checkDesc(at, limits)
}

func (s *Stream) parsePackedDims(b []byte, at int64) error {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return corruptDesc(at, n)
		}
		s.Dims, b = append(s.Dims, int64(v)), b[n:]
	}
	return nil
}

func (s *Stream) checkDesc(at int64, limits Limits) error {
	if len(s.Dims) > limits.Rank {
		return tooLarge(at, fmt.Sprintf("rank %d", len(s.Dims)), fmt.Sprintf("at most %d", limits.Rank))
	}
	size := int64(s.DType.Size())
	if size == 0 {
		return fault.E(fault.Unsupported, fault.At(atByte(at)), fault.Got(s.DType.String()), fault.Want("a known element type"))
	}
	n, ok := Count(s.Dims)
	if !ok {
		return corrupt(at, fmt.Sprintf("dims %v", s.Dims), "non-negative dims whose product fits into memory")
	}
	if int64(n) > limits.Bytes/size {
		got := fmt.Sprintf("%v elements of dims %v", s.DType, s.Dims)
		if limits.OfFile {
			return corrupt(at, got, fmt.Sprintf("what a file of %d bytes has room for: it was cut short, or is being written", limits.Bytes))
		}
		return tooLarge(at, got, fmt.Sprintf("at most %d bytes", limits.Bytes))
	}
	return nil
}

func corruptDesc(at int64, code int) error {
	return fault.E(fault.Corrupt, fault.At(atByte(at)), fault.Got("a damaged tensor description"), fault.Cause(protowire.ParseError(code)))
}

// appendDesc appends the TensorDesc of t.
func appendDesc(dst []byte, t *Tensor) []byte {
	dst = protowire.AppendTag(dst, descDataType, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(t.dtype))
	for _, d := range t.dims {
		dst = protowire.AppendTag(dst, descDims, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(d))
	}
	return dst
}

// A source returns the bytes of a stream in order, from a slice without copying, or from a reader.
type source struct {
	b      []byte    // the rest of the bytes, if r is nil
	r      io.Reader // never read beyond the requested bytes
	offset int64     // bytes returned so far
}

// next returns the next n bytes. From a reader it allocates as bytes arrive, so a false length costs no more than the bytes that are there.
func (s *source) next(n int64, what string) ([]byte, error) {
	if s.r == nil {
		if n > int64(len(s.b)) {
			return nil, s.cut(int64(len(s.b)), n, what)
		}
		b := s.b[:n:n]
		s.b, s.offset = s.b[n:], s.offset+n
		return b, nil
	}
	var buffer bytes.Buffer
	got, err := io.CopyN(&buffer, s.r, n)
	if err != nil {
		return nil, s.failed(err, got, n, what)
	}
	s.offset += n
	return buffer.Bytes(), nil
}

// version reads a version word and refuses all but streamVersion.
func (s *source) version(what string) error {
	at := s.offset
	b, err := s.next(4, what)
	if err != nil {
		return err
	}
	return checkVersion(b, at, what)
}

// checkVersion refuses a version word but that of streamVersion.
func checkVersion(b []byte, at int64, what string) error {
	if v := binary.LittleEndian.Uint32(b); v != streamVersion {
		return fault.E(fault.Unsupported, fault.At(atByte(at)), fault.Gotf("%s %d", what, v), fault.Want(fmt.Sprint(streamVersion)))
	}
	return nil
}

// failed turns an error of the reader into a fault. The end of the bytes means damage; another error does not.
func (s *source) failed(err error, got, want int64, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.cut(got, want, what)
	}
	return fault.Wrap(fault.Unavailable, atByte(s.offset+got), err)
}

func (s *source) cut(got, want int64, what string) error {
	return fault.E(fault.Corrupt, fault.At(atByte(s.offset)), fault.Cause(errCut), fault.Gotf("%d bytes of %s", got, what),
		fault.Want(fmt.Sprint(want)))
}

var errCut = fmt.Errorf("cut short: %w", io.ErrUnexpectedEOF)
