package tensor

import "bytes"

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
	u := Usage{memory: memory}
	if len(memory) < askLeast {
		return u
	}
	u.used = make([]uint64, len(memory)/usageBlock/64+1)
	for from, to := range inUse(memory) {
		if to-from == len(memory) {
			return Usage{memory: memory}
		}
		for block := from / usageBlock; block <= (to-1)/usageBlock; block++ {
			u.used[block/64] |= 1 << (block % 64)
		}
	}
	return u
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
