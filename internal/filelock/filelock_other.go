//go:build !unix

// Package filelock locks files as long as the process that holds them lives: the system frees the lock of a process that dies.
package filelock

import "os"

// Supported says whether this system has such locks.
const Supported = false

// Try reports false: this system has no such locks, so every file counts as locked by somebody.
func Try(*os.File) bool { return false }
