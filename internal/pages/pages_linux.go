package pages

import (
	"os"
	"syscall"
	"unsafe"

	"github.com/edl-go/edl/fault"
)

// hugePage is the size of a large page on most processors.
const hugePage = 2 << 20

func newArea(bytes int, large bool) (*Area, error) {
	if bytes == 0 {
		return &Area{}, nil
	}
	room := bytes
	if large {
		room += hugePage // so that the memory can begin with a large page
	}
	all, err := syscall.Mmap(-1, 0, room, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.Gotf("no memory for %d bytes", bytes), fault.Cause(err))
	}
	a := &Area{memory: all[:bytes:bytes], all: all}
	if large {
		skip := int(-addressOf(all) & (hugePage - 1))
		a.memory = all[skip : skip+bytes : skip+bytes]
		_ = syscall.Madvise(all, syscall.MADV_HUGEPAGE) // a wish
	}
	return a, nil
}

// madvPopulateWrite gives pages to an area (Linux 5.14).
const madvPopulateWrite = 23

// Populate takes the memory of all of it now, so that who writes it first need not wait for pages. Where the system cannot, it does nothing.
func (a *Area) Populate() {
	if len(a.memory) > 0 {
		_ = syscall.Madvise(a.memory, madvPopulateWrite)
	}
}

// Release gives the pages that lie within [from, to) back. They have zeros afterwards.
func (a *Area) Release(from, to int) {
	page := uintptr(os.Getpagesize())
	first := addressOf(a.memory)
	begin := (first+uintptr(from)+page-1)&^(page-1) - first
	end := (first+uintptr(to))&^(page-1) - first
	if int(begin) < int(end) {
		_ = syscall.Madvise(a.memory[begin:end], syscall.MADV_DONTNEED)
	}
}

// Close gives all of it back.
func (a *Area) Close() {
	if a.all != nil {
		_ = syscall.Munmap(a.all)
	}
	a.memory, a.all = nil, nil
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
