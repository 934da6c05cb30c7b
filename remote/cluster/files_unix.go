//go:build unix

package cluster

import "syscall"

// fileLimit returns how many files this process may have open.
func fileLimit() (n uint64, ok bool) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil
}
