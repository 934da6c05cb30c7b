package checkpoint

import (
	"os"
	"syscall"
)

// startWriteback asks the system to begin to write n bytes of a file to the disk (sync_file_range). It promises nothing, so errors do not count: those of the disk
// come with Sync.
func startWriteback(f *os.File, from, n int64) {
	const begin = 2 // SYNC_FILE_RANGE_WRITE
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.SyncFileRange(int(fd), from, n, begin) })
}
