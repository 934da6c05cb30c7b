package kernel

import "github.com/edl-go/edl/tensor"

// packRows copies count rows of length depth, ld apart, into panels of width rows: panel by panel, and within a panel
// the width elements of one position beside each other. Rows missing from the last panel are zeros, so that every element
// of C runs through the same tile.
func packRows[T tensor.Float](dst, src []T, ld, count, depth, width int) {
	for i := 0; i < count; i += width {
		panel := dst[i*depth : (i+width)*depth]
		if count-i < width {
			clear(panel)
		}
		for r := range min(width, count-i) {
			row := src[(i+r)*ld:][:depth]
			to := panel[r:]
			for p, v := range row {
				to[p*width] = v
			}
		}
	}
}

// packColumns is packRows for the columns of a depth x count matrix whose rows are ld apart.
func packColumns[T tensor.Float](dst, src []T, ld, count, depth, width int) {
	for i := 0; i < count; i += width {
		panel := dst[i*depth : (i+width)*depth]
		have := min(width, count-i)
		if have < width {
			clear(panel)
		}
		for p := range depth {
			copy(panel[p*width:][:have], src[p*ld+i:])
		}
	}
}
