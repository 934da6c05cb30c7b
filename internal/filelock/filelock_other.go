//go:build !unix

// Package filelock locks files as long as the process that holds them lives: the system frees the lock of a process that dies.
package filelock

import (
	"errors"
	"os"
)

// Supported says whether this system has such locks.
const Supported = false

// Try fails: this system has no such locks, so every file counts as locked by somebody.
func Try(*os.File) error { return errors.ErrUnsupported }

// Held reports whether an error of Try says that the file is locked by somebody: nobody can know here.
func Held(error) bool { return false }
