package kernel

import (
	"math/bits"
	"slices"

	"github.com/edl-go/edl/tensor"
)

// A gradient of a table comes as rows in the order of a batch, in which a row may stand several times. Updates that are not linear in
// the gradient need each row once, with its sum. OrderRows brings places of one row together; MergeRows and AddRowsFrom then
// sum them in the order of the batch, so the bits of a sum do not depend on what other rows there are, and
// are those of the dense gradient (EmbeddingGrad).

// digitBits bounds the radix of OrderRows: the counts of one digit fit into half of the L1 cache.
const digitBits = 11

// placeBits is how many low bits of an entry of OrderRows are the place.
func placeBits(n int) int { return bits.Len(uint(max(n-1, 0))) }

// OrderableRows reports whether row numbers below height and n places fit into the entries of OrderRows.
func OrderableRows(n int, height int64) bool { return placeBits(n)+bits.Len64(uint64(height)) < 64 }

// OrderRows sorts the places of rows by the row that stands there, places of one row in rising order. The entries
// are row<<bits | place with the bits of placeBits(len(rows)). The result is order or spare, both of the length of rows.
// Rows are in [0, height), and OrderableRows holds.
func OrderRows(order, spare, rows []int64, height int64) []int64 {
	n := len(rows)
	shift := placeBits(n)
	order, spare = order[:n], spare[:n]
	for i, row := range rows {
		order[i] = row<<shift | int64(i)
	}
	rowBits := bits.Len64(uint64(max(height-1, 0)))
	passes := (rowBits + digitBits - 1) / digitBits
	for pass := range passes {
		digit := (rowBits - pass*digitBits)
		digit = min(digit, digitBits)
		orderByDigit(spare, order, shift+pass*digitBits, digit)
		order, spare = spare, order
	}
	return order
}

// orderByDigit writes from to out, stably sorted by digit bits above shift.
func orderByDigit(out, from []int64, shift, digit int) {
	var starts [1 << digitBits]int32
	mask := int64(1)<<digit - 1
	for _, entry := range from {
		starts[entry>>shift&mask&(1<<digitBits-1)]++
	}
	start := int32(0)
	for i := range starts[:mask+1] {
		start, starts[i] = start+starts[i], start
	}
	for _, entry := range from {
		at := &starts[entry>>shift&mask&(1<<digitBits-1)]
		out[*at] = entry
		*at++
	}
}

// OrderedBetween returns the entries of OrderRows, for n places, whose row is in [from, to).
func OrderedBetween(ordered []int64, n int, from, to int64) []int64 {
	shift := placeBits(n)
	first, _ := slices.BinarySearch(ordered, from<<shift)
	last, _ := slices.BinarySearch(ordered, to<<shift)
	return ordered[first:last]
}

// MergeRows takes entries of OrderRows, for n places, from the front of ordered, for as many different rows as merged has room. It
// writes these rows, counted from row first, to merged, and to row k of sums the sum of the values at the places of merged[k].
// values and sums have rows of width. It returns how many rows it wrote and how many entries it took.
func MergeRows[T tensor.Float](sums []T, merged []int64, ordered []int64, first int64, n int, values []T, width int) (rows, taken int) {
	shift := placeBits(n)
	mask := int64(1)<<shift - 1
	last := int64(-1)
	for _, entry := range ordered { // merged is the first place of each row at first
		if row := entry >> shift; row != last {
			if rows == len(merged) {
				break
			}
			merged[rows], last = entry&mask, row
			rows++
		}
		taken++
	}
	GatherRows(sums, values, merged[:rows], width)
	at := -1
	last = -1
	for _, entry := range ordered[:taken] {
		row := entry >> shift
		if row == last {
			Accumulate(sums[at*width:][:width], values[int(entry&mask)*width:][:width])
			continue
		}
		at++
		merged[at], last = row-first, row
	}
	sums = sums[:rows*width]
	addScalar(sums, sums, 0) // as a dense gradient starts from zero: the sum of -0 is 0
	return rows, taken
}

// AddRowsFrom takes entries of OrderRows, for n places, from the front of ordered as long as their row is one of those that
// sums stands for: row first and those behind it. It adds the values at their places to sums, and returns how many entries it
// took. values and sums have rows of width, which is at least 1.
func AddRowsFrom[T tensor.Float](sums []T, first int64, ordered []int64, n int, values []T, width int) (taken int) {
	shift := placeBits(n)
	mask := int64(1)<<shift - 1
	end := first + int64(len(sums)/width)
	for ; taken < len(ordered) && ordered[taken]>>shift < end; taken++ {
		row := int(ordered[taken]>>shift - first)
		Accumulate(sums[row*width:][:width], values[int(ordered[taken]&mask)*width:][:width])
	}
	return taken
}
