//go:build !purego

package simd

import "unsafe"

// copyPanel copies rows of panelBytes, which are srcStep bytes apart, to one after another; there is one at least.
//
//go:noescape
func copyPanel(dst, src unsafe.Pointer, srcStep, rows int)
