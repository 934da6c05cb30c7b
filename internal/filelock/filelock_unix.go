//go:build unix

// Package filelock locks files as long as the process that holds them lives: the system frees the lock of a process that dies.
package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Supported says whether this system has such locks.
const Supported = true

// Try locks an open file, or says why it could not. Another open file of the same name, also one of this process, cannot lock it then. The lock ends
// when f is closed.
func Try(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// Held reports whether an error of Try says that the file is locked by somebody.
func Held(err error) bool { return errors.Is(err, syscall.EWOULDBLOCK) }
