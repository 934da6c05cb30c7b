package simd

import "unsafe"

// Transpose writes dst[c*dstStep+r] = src[r*srcStep+c] for r below rows and c below columns. Steps are in elements.
func Transpose[T Float](dst []T, dstStep int, src []T, srcStep, rows, columns int) {
	side := 32 / int(unsafe.Sizeof(T(0)))
	if rows < side || columns < side || current == None {
		for r := range rows {
			from := src[r*srcStep:][:columns]
			for c, v := range from {
				dst[c*dstStep+r] = v
			}
		}
		return
	}
	_, _ = src[(rows-1)*srcStep+columns-1], dst[(columns-1)*dstStep+rows-1]
	for r := 0; r < rows; r += side {
		r := min(r, rows-side) // the last blocks may overlap those before them
		transposeBlocks(dst[r:], dstStep, src[r*srcStep:], srcStep, columns/side)
		if columns%side != 0 {
			c := columns - side
			transposeBlocks(dst[c*dstStep+r:], dstStep, src[r*srcStep+c:], srcStep, 1)
		}
	}
}
