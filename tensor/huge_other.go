//go:build !linux

package tensor

import (
	"math"
	"unsafe"
)

// untouched allocates bytes that are zeros.
func untouched(bytes int) []byte { return make([]byte, bytes) }

// adviseHuge does nothing: other systems choose the size of pages themselves.
func adviseHuge(unsafe.Pointer, uintptr) {}

// SmallPages asks for small pages for the elements of a tensor that come into use little by little. It does nothing here.
func SmallPages(*Tensor) {}

// LargePages asks for large pages where whole ones lie within the elements [from, to). It returns the least end with which one more lies there. Here there are none.
func LargePages(*Tensor, int, int) (next int) { return math.MaxInt }

// blocksInUse knows of no block that was never in use.
func blocksInUse([]byte) []uint64 { return nil }
