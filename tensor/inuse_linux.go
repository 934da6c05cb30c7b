package tensor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"iter"
	"os"
	"strconv"
	"sync"
	"unsafe"
)

// A page of private memory that the system has given nothing to reads as zeros. To read it is not free: some systems give memory to it then, and the others
// walk through a fault for each page. /proc/self/pagemap (Linux Documentation/admin-guide/mm/pagemap.rst) tells which pages these are: it has 8 bytes for each.
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62
)

// pagemap is the file, nil where it cannot be read. It is never closed.
var pagemap = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

// inUse yields the parts [from, to) of b, in order, that may have bytes other than 0. Nobody writes to b meanwhile. Where the system does not say, and for a small b, that is all of b.
func inUse(b []byte) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		at := 0
		if len(b) >= askLeast && anonymous(b) {
			var more bool
			if at, more = pagesInUse(b, yield); !more {
				return
			}
		}
		if at < len(b) {
			yield(at, len(b))
		}
	}
}

// pagesInUse yields the parts of b whose pages the system has given memory to. It returns up to where it could look, and false if yield has.
func pagesInUse(b []byte, yield func(from, to int) bool) (at int, more bool) {
	f, size := pagemap(), os.Getpagesize()
	if f == nil {
		return 0, true
	}
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	start := -int(first & uintptr(size-1)) // of a page in b, below 0 for the first one
	from := -1                             // of the part that is in use, -1 outside of one
	var entries [8 << 10]byte
	for start < len(b) {
		n := min(len(entries), (len(b)-start+size-1)/size*8)
		if _, err := f.ReadAt(entries[:n], int64(uintptr(int(first)+start)/uintptr(size)*8)); err != nil {
			if from >= 0 {
				return from, true
			}
			return max(0, start), true
		}
		for i := 0; i < n; i += 8 {
			used := binary.NativeEndian.Uint64(entries[i:])&(pagePresent|pageSwapped) != 0
			switch {
			case used && from < 0:
				from = max(0, start)
			case !used && from >= 0:
				if !yield(from, start) {
					return 0, false
				}
				from = -1
			}
			start += size
		}
	}
	return len(b), from < 0 || yield(from, len(b))
}

// anonymous reports whether all of b lies in private memory that no file is behind. Pages of a file may have bytes before the system has given memory to them.
func anonymous(b []byte) bool {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false
	}
	defer f.Close()
	first := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
	last := first + uint64(len(b))
	for lines := bufio.NewScanner(f); lines.Scan(); { // in the order of addresses: FROM-TO RIGHTS OFFSET DEVICE INODE NAME
		area, rest, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		begin, end, _ := bytes.Cut(area, []byte("-"))
		to, err := strconv.ParseUint(string(end), 16, 64)
		if err != nil {
			return false
		}
		if to <= first {
			continue
		}
		from, err := strconv.ParseUint(string(begin), 16, 64)
		fields := bytes.Fields(rest)
		if err != nil || from > first || len(fields) < 4 || !bytes.HasSuffix(fields[0], []byte("p")) || string(fields[3]) != "0" {
			return false
		}
		if first = to; first >= last {
			return true
		}
	}
	return false
}
