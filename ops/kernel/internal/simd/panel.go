package simd

import "unsafe"

// panelBytes is the length of the rows that copyPanel copies: two cache lines.
const panelBytes = 128

// CopyPanel copies rows rows of columns elements. Steps are the distances between rows, in elements.
func CopyPanel[T Float](dst []T, dstStep int, src []T, srcStep, rows, columns int) {
	if columns*int(unsafe.Sizeof(T(0))) == panelBytes && dstStep == columns && rows > 0 && current != None {
		_, _ = src[(rows-1)*srcStep+columns-1], dst[rows*columns-1]
		copyPanel(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), srcStep*int(unsafe.Sizeof(T(0))), rows)
		return
	}
	for r := range rows {
		copy(dst[r*dstStep:][:columns], src[r*srcStep:][:columns])
	}
}
