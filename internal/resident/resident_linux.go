// Package resident tells tests how much memory the system has given to a stretch of memory. It knows Linux.
package resident

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// ReadsAreFree fails where a page that is only read takes memory, as in some virtual machines. Linux has one page of zeros for all of these otherwise. A test of code that reads what was never
// in use cannot tell there what was written.
var ReadsAreFree = sync.OnceValue(func() error {
	page := os.Getpagesize()
	b, err := syscall.Mmap(-1, 0, 3*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = syscall.Munmap(b) }()
	middle := b[page : 2*page]
	if err := syscall.Madvise(middle, syscall.MADV_DONTFORK); err != nil { // a mapping of its own
		return err
	}
	if middle[0] != 0 {
		return errors.New("a new mapping has elements that are not 0")
	}
	have, err := Bytes(middle)
	if err == nil && have > 0 {
		err = fmt.Errorf("this system gives memory to pages that are only read: %d bytes for one byte", have)
	}
	return err
})

// Bytes is how many bytes of memory the system has given to mappings that lie within b. It counts pages that were only read where ReadsAreFree fails. It fails where the system
// does not say.
func Bytes(b []byte) (bytes int64, err error) {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return 0, err
	}
	first := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	last, within := first+uint64(len(b)), false
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			within = from >= first && to <= last
		}
		if rest, ok := strings.CutPrefix(line, "Rss:"); ok && within {
			var kilobytes int64
			if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
				return 0, err
			}
			bytes += kilobytes << 10
		}
	}
	return bytes, nil
}
