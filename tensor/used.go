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

// CopyUsed makes to equal to from, which has its length. Blocks of 4096 bytes that are zeros in both are not written. What the system has given no memory to is not read.
func CopyUsed(to, from []byte) {
	inTo, inFrom := Usage{memory: to}, Usage{memory: from}
	if len(to) >= copyLeast {
		inTo, inFrom = UsageOf(to), UsageOf(from)
	}
	for at := 0; at < len(to); {
		end := min(at+usageBlock, len(to))
		if inFrom.unused(at) {
			inTo.Clear(at, end)
		} else {
			inTo.Copy(at, from[at:end])
		}
		at = end
	}
}

// ClearUsed makes zeros of all bytes. Blocks of 4096 bytes that are zeros are not written. What the system has given no memory to is not read.
func ClearUsed(b []byte) { UsageOf(b).Clear(0, len(b)) }

// askLeast is from how many bytes on it is asked which parts of a memory are in use. The question takes some 30 microseconds.
const askLeast = 4 << 20

// copyLeast is from how many bytes on a copy asks. It is quick where all is in use.
const copyLeast = 16 << 20

// usageBlock is how much of a memory one bit of a Usage stands for, in bytes.
const usageBlock = 64 << 10

// A Usage says which parts of a memory the system had given nothing to when UsageOf was called: they are zeros, and are not read. It is for one pass over a memory that nobody else
// writes to meanwhile. The pass may write to a part, and does not ask for it after that.
type Usage struct {
	memory []byte
	used   []uint64 // a bit for each block; nil if all are in use
}

// UsageOf looks at a memory. Of a small one, and where the system does not say, all is in use.
func UsageOf(memory []byte) Usage {
	if len(memory) < askLeast {
		return Usage{memory: memory}
	}
	return Usage{memory: memory, used: blocksInUse(memory)}
}

// unused reports whether byte at lies in a block that was not in use.
func (u Usage) unused(at int) bool {
	block := at / usageBlock
	return u.used != nil && u.used[block/64]&(1<<(block%64)) == 0
}

// Unused reports whether bytes [from, to) of the memory lie in blocks of 64 KB that were not in use. It reads none of them.
func (u Usage) Unused(from, to int) bool {
	for ; from < to; from += usageBlock - from%usageBlock {
		if !u.unused(from) {
			return false
		}
	}
	return true
}

// inUse calls each with the parts of [from, to) that were in use, at most 4096 bytes each, until it returns false.
func (u Usage) inUse(from, to int, each func(part []byte) bool) bool {
	for from < to {
		end := min(to, from-from%usedBytes+usedBytes)
		if u.unused(from) {
			end = min(to, from-from%usageBlock+usageBlock)
		} else if !each(u.memory[from:end]) {
			return false
		}
		from = end
	}
	return true
}

// Zeros reports whether all bytes [from, to) of the memory are 0.
func (u Usage) Zeros(from, to int) bool {
	return u.inUse(from, to, func(part []byte) bool { return bytes.Equal(part, noBytes[:len(part)]) })
}

// Clear makes zeros of bytes [from, to) of the memory. Blocks of 4096 bytes that are zeros are not written.
func (u Usage) Clear(from, to int) {
	u.inUse(from, to, func(part []byte) bool {
		if !bytes.Equal(part, noBytes[:len(part)]) {
			clear(part)
		}
		return true
	})
}

// Copy puts bytes into the memory from an offset on. Blocks of 4096 bytes that are zeros in both are not written.
func (u Usage) Copy(at int, from []byte) {
	for len(from) > 0 {
		n := min(len(from), usedBytes-at%usedBytes)
		if bytes.Equal(from[:n], noBytes[:n]) {
			u.Clear(at, at+n)
		} else {
			copy(u.memory[at:], from[:n])
		}
		at, from = at+n, from[n:]
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
	if len(b) <= usedBytes { // such as a row of a table
		return bytes.Equal(b, noBytes[:len(b)])
	}
	return UsageOf(b).Zeros(0, len(b))
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
