package transpiler

// rowRange is a run of rows of axis 0.
type rowRange struct{ first, rows int64 }

// sliceRows cuts a variable of known dims into at most parts runs of whole rows, by Fluid's rule: no slice is smaller than
// minBlock elements unless there is only one, all are of equal size rounded up to a row, and the last one takes what is
// left. A variable without rows or elements is one run. minBlock is at least 1.
//
// With n elements: blocks = min(parts, max(1, n / minBlock)); size = ceil(n / blocks), rounded up to a multiple of the
// elements of a row; blocks = ceil(n / size).
func sliceRows(dims []int64, parts int, minBlock int64) []rowRange {
	if len(dims) == 0 {
		return []rowRange{{0, 1}}
	}
	total := dims[0]
	width := rowWidth(dims)
	elements := total * width
	if elements <= 0 {
		return []rowRange{{0, total}}
	}
	blocks := min(int64(parts), max(1, elements/minBlock))
	size := ceilDiv(elements, blocks)
	rows := ceilDiv(size, width)
	var ranges []rowRange
	for first := int64(0); first < total; first += rows {
		ranges = append(ranges, rowRange{first, min(rows, total-first)})
	}
	return ranges
}

// rowWidth is the number of elements of a row: the product of all extents but the first.
func rowWidth(dims []int64) int64 {
	width := int64(1)
	for _, d := range dims[1:] {
		width *= d
	}
	return width
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
