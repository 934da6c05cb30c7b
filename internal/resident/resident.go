// Package resident tells tests how much memory the system has given to a stretch of memory. It knows Linux.
package resident

import (
	"fmt"
	"os"
	"strings"
	"unsafe"
)

// Bytes is how many bytes of memory the system has given to mappings that lie within b. It counts no page of zeros that was only read. It fails where the system
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
