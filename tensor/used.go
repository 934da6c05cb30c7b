package tensor

import (
	"bytes"
	"unsafe"
)

// Memory that was never written costs nothing: the system gives pages to it when it is written first. So what copies a large tensor, of which a part may never have
// been in use, such as rows of a table that grows, does not write zeros where there are zeros.

// usedBytes is how many bytes are looked at at a time: a page on most processors.
const usedBytes = 4096

var noBytes [usedBytes]byte

// CopyUsed makes to equal to from, which has its length. Blocks of 4096 bytes that are zeros in both are not written.
func CopyUsed(to, from []byte) {
	for len(to) > 0 {
		n := min(len(to), usedBytes)
		if !bytes.Equal(from[:n], noBytes[:n]) || !bytes.Equal(to[:n], noBytes[:n]) {
			copy(to[:n], from)
		}
		to, from = to[n:], from[n:]
	}
}

// ClearUsed makes zeros of all bytes. Blocks of 4096 bytes that are zeros are not written.
func ClearUsed(b []byte) {
	for len(b) > 0 {
		n := min(len(b), usedBytes)
		if !bytes.Equal(b[:n], noBytes[:n]) {
			clear(b[:n])
		}
		b = b[n:]
	}
}

// copied returns a copy.
func copied[T Bits](from []T) []T {
	if bytes := len(from) * int(unsafe.Sizeof(*new(T))); bytes < hugeLeast {
		return append([]T(nil), from...)
	}
	to := make([]T, len(from))
	CopyUsed(bytesOf(to), bytesOf(from))
	return to
}

// AreZeros reports whether all bits of the elements are 0. Reading them takes no memory where they were never in use, if the system has one page for all zeros.
func AreZeros[T Bits](elements []T) bool { return ZeroBytes(bytesOf(elements)) }

// ZeroBytes reports whether all bytes are 0.
func ZeroBytes(b []byte) bool {
	for len(b) > usedBytes {
		if !bytes.Equal(b[:usedBytes], noBytes[:]) {
			return false
		}
		b = b[usedBytes:]
	}
	return bytes.Equal(b, noBytes[:len(b)])
}

// memoryOf returns the bytes of the elements of a tensor.
func memoryOf(t *Tensor) []byte {
	switch d := t.data.(type) {
	case []bool:
		return bytesOf(d)
	case []int32:
		return bytesOf(d)
	case []int64:
		return bytesOf(d)
	case []float32:
		return bytesOf(d)
	case []float64:
		return bytesOf(d)
	}
	return bytesOf(t.data.([]uint16))
}

func bytesOf[T Bits](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(*new(T))))
}
