//go:build !linux

package tensor

import "unsafe"

// adviseHuge does nothing: other systems choose the size of pages themselves.
func adviseHuge(unsafe.Pointer, uintptr) {}
