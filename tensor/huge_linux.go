package tensor

import (
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page on most processors.
const hugePage = 2 << 20

// adviseHuge asks the kernel for large pages where they lie within an array as a whole, so that a row of a large table costs no walk through
// the page table. Linux gives them when memory is touched for the first time, if its settings say "madvise" or "always". Nothing depends on it.
func adviseHuge(first unsafe.Pointer, bytes uintptr) {
	skip := -uintptr(first) & (hugePage - 1)
	if bytes < skip+hugePage {
		return
	}
	whole := unsafe.Slice((*byte)(unsafe.Add(first, skip)), (bytes-skip)&^(hugePage-1))
	_ = syscall.Madvise(whole, syscall.MADV_HUGEPAGE)
}
