package tensor

import (
	"bytes"
	"iter"
	"unsafe"
)

// Memory that was never written costs nothing: the system gives pages to it when it is written first. So what copies a large tensor, of which a part may never have
// been in use, such as rows of a table that grows, does not write zeros where there are zeros.

// usedBytes is how many bytes are looked at at a time: a page on most processors.
const usedBytes = 4096

var noBytes [usedBytes]byte

// CopyUsed makes to equal to from, which has its length. Blocks of 4096 bytes that are zeros in both are not written. What the system has given no memory to is not read.
func CopyUsed(to, from []byte) {
	parts := whole(len(to))
	if len(to) >= copyLeast {
		parts = either(inUse(to), inUse(from))
	}
	for begin, end := range parts {
		for at := begin; at < end; at += usedBytes {
			till := min(end, at+usedBytes)
			if !bytes.Equal(from[at:till], noBytes[:till-at]) || !bytes.Equal(to[at:till], noBytes[:till-at]) {
				copy(to[at:till], from[at:till])
			}
		}
	}
}

// askLeast is from how many bytes on it is asked which parts of a memory are in use. The question takes some 30 microseconds.
const askLeast = 4 << 20

// copyLeast is from how many bytes on a copy asks which parts are in use. A copy is quick where all of them are.
const copyLeast = 16 << 20

// whole yields one part of n bytes.
func whole(n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) { yield(0, n) }
}

// either yields what lies in one of two sequences of parts, or in both, in order.
func either(a, b iter.Seq2[int, int]) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		next, stop := iter.Pull2(b)
		defer stop()
		done := 0 // what is before was yielded
		from, to, ok := next()
		for begin, end := range a {
			for ok && from < begin {
				if part := min(to, begin); max(from, done) < part && !yield(max(from, done), part) {
					return
				}
				if done = max(done, min(to, begin)); to > begin {
					break
				}
				from, to, ok = next()
			}
			if !yield(begin, end) {
				return
			}
			done = end
			for ok && to <= done {
				from, to, ok = next()
			}
		}
		for ; ok; from, to, ok = next() {
			if max(from, done) < to && !yield(max(from, done), to) {
				return
			}
		}
	}
}

// ClearUsed makes zeros of all bytes. Blocks of 4096 bytes that are zeros are not written. What the system has given no memory to is not read.
func ClearUsed(b []byte) {
	for from, to := range inUse(b) {
		for from < to {
			end := min(to, from+usedBytes)
			if !bytes.Equal(b[from:end], noBytes[:end-from]) {
				clear(b[from:end])
			}
			from = end
		}
	}
}

// ClearElements is ClearUsed for the elements of a tensor.
func ClearElements[T Bits](elements []T) { ClearUsed(bytesOf(elements)) }

// copied returns a copy.
func copied[T Bits](from []T) []T {
	if bytes := len(from) * int(unsafe.Sizeof(*new(T))); bytes < hugeLeast {
		return append([]T(nil), from...)
	}
	to := make([]T, len(from))
	CopyUsed(bytesOf(to), bytesOf(from))
	return to
}

// AreZeros reports whether all bits of the elements are 0.
func AreZeros[T Bits](elements []T) bool { return ZeroBytes(bytesOf(elements)) }

// ZeroBytes reports whether all bytes are 0. What the system has given no memory to is not read.
func ZeroBytes(b []byte) bool {
	for from, to := range inUse(b) {
		for from < to {
			end := min(to, from+usedBytes)
			if !bytes.Equal(b[from:end], noBytes[:end-from]) {
				return false
			}
			from = end
		}
	}
	return true
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
