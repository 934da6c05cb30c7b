//go:build unix

package kernel

import (
	"syscall"
	"testing"
	"unsafe"

	"github.com/edl-go/edl/tensor"
)

// guards hold memory whose neighbouring pages fault when they are touched, so that a kernel that reads or writes one
// element too far ends the test.
type guards struct {
	page  int
	areas [][]byte // the pages between the guards
}

const guardedBytes = 1 << 20

func newGuards(t *testing.T, count int) *guards {
	g := &guards{page: syscall.Getpagesize()}
	for range count {
		all, err := syscall.Mmap(-1, 0, guardedBytes+2*g.page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Munmap(all) })
		for _, edge := range [][]byte{all[:g.page], all[g.page+guardedBytes:]} {
			if err := syscall.Mprotect(edge, syscall.PROT_NONE); err != nil {
				t.Fatal(err)
			}
		}
		g.areas = append(g.areas, all[g.page:g.page+guardedBytes])
	}
	return g
}

// guarded returns a copy of x at one end of an area: the last element right before a guard or, for an odd length, the first
// right after one.
func guarded[T tensor.Float](g *guards, area int, x []T) []T {
	bytes := int(unsafe.Sizeof(T(0))) * len(x)
	if bytes > guardedBytes {
		panic("a guarded area is too small for its test")
	}
	start := 0
	if len(x)%2 == 0 {
		start = guardedBytes - bytes
	}
	if len(x) == 0 {
		return nil
	}
	y := unsafe.Slice((*T)(unsafe.Pointer(&g.areas[area][start])), len(x))
	copy(y, x)
	return y
}
