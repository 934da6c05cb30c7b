//go:build linux || darwin || freebsd

// Package diskfree tells how much a disk can still take.
package diskfree

import "syscall"

// Of returns the bytes that this process may still write to the file system of a directory. known is false where the system does not tell.
func Of(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Bsize <= 0 {
		return 0, false
	}
	blocks, size := int64(s.Bavail), int64(s.Bsize)
	if blocks < 0 { // below the reserve of the administrator
		return 0, true
	}
	if blocks > (1<<63-1)/size {
		return 0, false
	}
	return blocks * size, true
}
