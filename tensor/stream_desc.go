package tensor

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/edl-go/edl/fault"
)

// Fields of Fluid's VarType.TensorDesc: data_type = 1 (enum), dims = 2 (repeated int64, written unpacked).
const (
	descDataType protowire.Number = 1
	descDims     protowire.Number = 2

	dataTypeTag = 0x08 // field 1, varint: the first byte of every description
	maxDesc     = 4096 // bytes of a description; MaxRank dims take at most 178
)

// parseDesc reads a TensorDesc that stands at byte at of the stream. Dims may be packed or not; unknown fields are skipped.
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
		return tooLarge(at, fmt.Sprintf("%v elements of dims %v", s.DType, s.Dims), fmt.Sprintf("at most %d bytes", limits.Bytes))
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
