//go:build !purego

package crc32c

import "golang.org/x/sys/cpu"

// folds reports whether this machine has the instructions of fold.
func folds() bool {
	x := &cpu.X86
	return x.HasAVX512F && x.HasAVX512VPCLMULQDQ && x.HasSSE42
}

// fold adds bytes to a sum whose bits are inverted.
//
//go:noescape
func fold(crc uint32, p []byte) uint32
