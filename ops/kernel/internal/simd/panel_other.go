//go:build !amd64 || purego

package simd

import "unsafe"

// copyPanel is never called: there is no level but None.
func copyPanel(dst, src unsafe.Pointer, srcStep, rows int) {}
