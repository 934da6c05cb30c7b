package tensor

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/edl-go/edl/fault"
)

// decodeElements fills n elements of t from element offset on with the little-endian elements of b, which has their exact
// length.
func decodeElements(t *Tensor, offset, n int, b []byte) error {
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
	}
	return dst
}

func appendInt64s(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}
