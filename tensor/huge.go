package tensor

import "unsafe"

// hugeLeast is from how many bytes on a tensor wishes for large pages: rows here and there in a table of this size already miss in the first of the
// buffers that translate addresses.
const hugeLeast = 4 << 20

// zeros allocates n elements.
func zeros[T Element](n int) []T {
	x := make([]T, n)
	if bytes := uintptr(n) * unsafe.Sizeof(*new(T)); bytes >= hugeLeast {
		adviseHuge(unsafe.Pointer(unsafe.SliceData(x)), bytes)
	}
	return x
}
