package simd

import "unsafe"

// wideSide is the side of the blocks of float32 that AVX-512 transposes.
const wideSide = 16

// Transpose writes dst[c*dstStep+r] = src[r*srcStep+c] for r below rows and c below columns. Steps are in elements.
func Transpose[T Float](dst []T, dstStep int, src []T, srcStep, rows, columns int) {
	side := 32 / int(unsafe.Sizeof(T(0)))
	if current == AVX512 && unsafe.Sizeof(T(0)) == 4 && rows >= wideSide && columns >= wideSide {
		side = wideSide
	}
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
	if dstStep > srcStep { // rows of dst are written from their beginning to their end: its lines may share a set of the cache
		for c := 0; c < columns; c += side {
			c := min(c, columns-side)
			transposeBlocks(side, dst[c*dstStep:], dstStep, side, src[c:], srcStep, side*srcStep, rows/side)
			if rows%side != 0 {
				r := rows - side
				transposeBlocks(side, dst[c*dstStep+r:], dstStep, side, src[r*srcStep+c:], srcStep, side*srcStep, 1)
			}
		}
		return
	}
	for r := 0; r < rows; r += side {
		r := min(r, rows-side) // the last blocks may overlap those before them
		transposeBlocks(side, dst[r:], dstStep, side*dstStep, src[r*srcStep:], srcStep, side, columns/side)
		if columns%side != 0 {
			c := columns - side
			transposeBlocks(side, dst[c*dstStep+r:], dstStep, side*dstStep, src[r*srcStep+c:], srcStep, side, 1)
		}
	}
}
