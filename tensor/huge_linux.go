package tensor

import (
	"math"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page on most processors.
const hugePage = 2 << 20

// giveBack is how many bytes must be zeros to be given back: whole pages of all systems.
const giveBack = 64 << 10

// madvCollapse moves what is in an area into large pages (Linux 6.1).
const madvCollapse = 25

// wholePages returns the part of an array that whole large pages fit into, nil if there is none.
func wholePages(first unsafe.Pointer, bytes uintptr) []byte {
	skip := -uintptr(first) & (hugePage - 1)
	if bytes < skip+hugePage {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(first, skip)), (bytes-skip)&^(hugePage-1))
}

// untouched allocates bytes, at least one, that are zeros and take no memory before they are written.
func untouched(bytes int) []byte {
	var room strings.Builder // which gets memory that the allocator has not written
	room.Grow(bytes)
	_ = room.WriteByte(0) // never fails
	b := unsafe.Slice(unsafe.StringData(room.String()), bytes)
	page := os.Getpagesize()
	from := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(page-1))
	to := from + (bytes-from)&^(page-1)
	if from >= to || syscall.Madvise(b[from:to], syscall.MADV_DONTNEED) != nil {
		clear(b)
		return b
	}
	clear(b[:from])
	clear(b[to:])
	return b
}

// adviseHuge asks the kernel for large pages in the part of an array that whole large pages fit into. Then a row of a large table costs no walk
// through the page table. Linux gives large pages at the first touch of the memory, if its settings say "madvise" or "always". Results do not
// depend on it.
func adviseHuge(first unsafe.Pointer, bytes uintptr) {
	if whole := wholePages(first, bytes); whole != nil {
		_ = syscall.Madvise(whole, syscall.MADV_HUGEPAGE)
	}
}

// SmallPages asks for small pages for the elements of a tensor that come into use little by little: a large page, which New asks for, takes memory for all that
// lies in it. It gives memory back that has zeros. LargePages is for elements that have come into use. Who calls it writes to t, and nobody else does meanwhile.
func SmallPages(t *Tensor) {
	if t.small || t.Bytes() < hugeLeast {
		return
	}
	t.small = true
	whole := wholePages(unsafe.Pointer(unsafe.SliceData(memoryOf(t))), uintptr(t.Bytes()))
	if whole == nil {
		return
	}
	// Zeros that were only read are one large page for all of them. The kernel makes a large page of it when it is written, whatever the advice. So it must go, too.
	usage := UsageOf(whole)
	for at := 0; at < len(whole); {
		end := at
		for end < len(whole) && usage.Zeros(end, end+giveBack) {
			end += giveBack
		}
		if end > at {
			_ = syscall.Madvise(whole[at:end], syscall.MADV_DONTNEED) // reads as zeros afterwards
		}
		at = end + giveBack
	}
	_ = syscall.Madvise(whole, syscall.MADV_NOHUGEPAGE)
}

// LargePages asks for large pages where whole ones lie within the elements [from, to), and moves what is there into them. It returns the least end with which one more
// lies there. Results do not depend on it.
func LargePages(t *Tensor, from, to int) (next int) {
	size := uintptr(t.dtype.Size())
	if t.Bytes() < hugeLeast {
		return math.MaxInt
	}
	first := unsafe.Pointer(unsafe.SliceData(memoryOf(t)[uintptr(from)*size:]))
	end := (uintptr(first) + hugePage - 1) &^ (hugePage - 1) // of what is asked for
	if whole := wholePages(first, uintptr(to-from)*size); whole != nil {
		_ = syscall.Madvise(whole, syscall.MADV_HUGEPAGE)
		_ = syscall.Madvise(whole, madvCollapse) // where the kernel cannot, it does so later
		end += uintptr(len(whole))
	}
	return from + int((end+hugePage-uintptr(first)+size-1)/size)
}
