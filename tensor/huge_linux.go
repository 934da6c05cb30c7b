package tensor

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page on most processors.
const hugePage = 2 << 20

// adviseHuge asks the kernel for large pages in the part of an array that whole large pages fit into. Then a row of a large table costs no walk
// through the page table. Linux gives large pages at the first touch of the memory, if its settings say "madvise" or "always". Results do not
// depend on it.
func adviseHuge(first unsafe.Pointer, bytes uintptr) {
	skip := -uintptr(first) & (hugePage - 1)
	if bytes < skip+hugePage {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Add(first, skip)), (bytes-skip)&^(hugePage-1))
	_ = syscall.Madvise(whole, syscall.MADV_HUGEPAGE)
}
