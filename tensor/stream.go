package tensor

import (
	"encoding/binary"
	"fmt"

	"github.com/edl-go/edl/fault"
)

// streamVersion is the only version that Fluid ever wrote, both of the stream and of the tensor inside it.
const streamVersion = 0

// A Stream is one parsed Fluid LoDTensor stream: uint32 version, uint64 LoD level count, per level a uint64 byte size and
// uint64 offsets, then uint32 tensor version, int32 length of a TensorDesc, the TensorDesc, and the raw elements in
// row-major order; all little-endian.
//
// A Stream is meant to be reused: Parse keeps the memory of Dims and LoD, so that reading records of one shape allocates
// nothing.
type Stream struct {
	DType DType     // any type with a known width, also those that a Tensor cannot hold
	Dims  []int64   // valid until the next Parse
	LoD   [][]int64 // valid until the next Parse; empty for a plain tensor
	Data  []byte    // elements, a part of the bytes that were parsed
}

// Parse reads one stream from the front of b and returns the bytes behind it. Data refers to b. Streams of before
// 2017-12-28, which carry one version word and the LoD behind the elements, are recognised and read as well.
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

// parseHead reads up to the elements. lodLast reports the layout of 2017. There the eight bytes behind the version are not
// a level count but the length of the TensorDesc and its first four bytes, the first of which is the tag of data_type: as
// a count they are above any limit, so the two layouts cannot be confused.
func (s *Stream) parseHead(src *source, limits Limits) (lodLast bool, err error) {
	if err := src.version("stream version"); err != nil {
		return false, err
	}
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

// parseTensorHead reads the version and description with which a tensor begins inside LoDTensor and SelectedRows streams.
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

// parseTail reads what follows the elements and checks the LoD against dims.
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

// CopyInto decodes the elements into dst from element offset on. It fails when the types differ or the elements do not
// fit; it does not look at dims otherwise. It allocates nothing.
func (s *Stream) CopyInto(dst *Tensor, offset int) error {
	if s.DType != dst.dtype {
		if !s.DType.Computable() {
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

// Tensor returns a copy of what was parsed. Types that a Tensor cannot hold are Unsupported: nothing is converted.
func (s *Stream) Tensor() (*Tensor, error) {
	if !s.DType.Computable() {
		return nil, unsupportedElements(s.DType)
	}
	t, err := New(s.DType, s.Dims...)
	if err != nil {
		return nil, err
	}
	t.lod = cloneLoD(s.LoD)
	return t, s.CopyInto(t, 0)
}

// DecodeStream reads one LoDTensor stream from the front of b and returns the bytes behind it.
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
	return fault.E(fault.Unsupported, fault.Got(d.String()+" elements"), fault.Want("bool, int32, int64, float32 or float64"))
}
