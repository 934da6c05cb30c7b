package tensor

import (
	"bufio"
	"bytes"
	"encoding/binary"
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

// blocksInUse returns a bit for each block of usageBlock bytes of b, set if the system has given memory to a page in it, nil where the system does not say.
func blocksInUse(b []byte) []uint64 {
	f, size := pagemap(), os.Getpagesize()
	if f == nil || !anonymous(b) {
		return nil
	}
	used := make([]uint64, len(b)/usageBlock/64+1)
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	start := -int(first & uintptr(size-1)) // of a page in b, below 0 for the first one
	var entries [8 << 10]byte
	for start < len(b) {
		n := min(len(entries), (len(b)-start+size-1)/size*8)
		if _, err := f.ReadAt(entries[:n], int64(uintptr(int(first)+start)/uintptr(size)*8)); err != nil {
			return nil
		}
		for i := 0; i < n; i, start = i+8, start+size {
			if binary.NativeEndian.Uint64(entries[i:])&(pagePresent|pageSwapped) == 0 {
				continue
			}
			last := min(start+size, len(b)) - 1
			for block := max(0, start) / usageBlock; block <= last/usageBlock; block++ {
				used[block/64] |= 1 << (block % 64)
			}
		}
	}
	return used
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
