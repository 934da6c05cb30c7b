package kernel

import (
	"math/bits"
	"slices"

	"github.com/edl-go/edl/tensor"
)

// Where there are vector instructions, rows are asked for before their turn by instructions of their own. The loops in portable Go serve other
// types and machines, and what is left from a row number outside of the table on, for Go's panic.

// rowsAhead is how many rows are asked of memory at a time. The processor waits for that many cache lines at once, and they fit into
// the L1 cache with room to spare.
const rowsAhead = 64

// touch reads the first and the last element of rows of a table that is larger than the caches. Reading them where nothing
// waits for the values lets the processor fetch many rows at once, where the loops on whole rows would wait for one after
// another. Rows are width long, at least 1. The result has no meaning, but must not be thrown away by the compiler.
//
//go:noinline
func touch[T tensor.Float | uint16](table []T, rows []int64, width int) (sum T) {
	for _, row := range rows {
		sum += table[int(row)*width] + table[int(row)*width+width-1]
	}
	return sum
}

// GatherRows copies row rows[i] of table to row i of out. Rows are width long and row numbers are within table.
func GatherRows[T tensor.Float](out, table []T, rows []int64, width int) {
	if v := vectorsOf[T](); v != nil && width > 0 {
		out = out[:len(rows)*width]
		did := v.GatherRows(singles(out), singles(table), rows, width, len(table)/width)
		out, rows = out[did*width:], rows[did:]
	}
	if width == 1 {
		out = out[:len(rows)]
		for i, row := range rows {
			out[i] = table[row]
		}
		return
	}
	for len(rows) > 0 && width > 0 {
		some := rows[:min(rowsAhead, len(rows))]
		touch(table, some, width)
		for i, row := range some {
			copy(out[i*width:][:width], table[int(row)*width:][:width])
		}
		out, rows = out[len(some)*width:], rows[len(some):]
	}
}

// ScatterRows copies row i of from to row rows[i] of table; it is the inverse of GatherRows when no row repeats.
func ScatterRows[T tensor.Float](table, from []T, rows []int64, width int) {
	if v := vectorsOf[T](); v != nil && width > 0 {
		from = from[:len(rows)*width]
		did := v.ScatterRows(singles(table), singles(from), rows, width, len(table)/width)
		from, rows = from[did*width:], rows[did:]
	}
	if width == 1 {
		from = from[:len(rows)]
		for i, row := range rows {
			table[row] = from[i]
		}
		return
	}
	for i, row := range rows {
		copy(table[int(row)*width:][:width], from[i*width:][:width])
	}
}

// ClearRowsOf sets the rows of values to zero at whose place in ids the id stands. Rows are width long.
func ClearRowsOf[T tensor.Float](values []T, ids []int64, width int, id int64) {
	for i, other := range ids {
		if other == id {
			clear(values[i*width:][:width])
		}
	}
}

// SGDRows computes param[rows[i]] -= lr*grad[i] for each i in turn, so gradients of a repeated row are applied one after another. Rows are width
// long. If no row repeats, the bits are those of SGD with the dense gradient.
func SGDRows[T tensor.Float](param []T, rows []int64, grad []T, width int, lr T) {
	if v := vectorsOf[T](); v != nil && width > 0 {
		grad = grad[:len(rows)*width]
		did := v.SGDRows(singles(param), singles(grad), rows, width, len(param)/width, float32(lr))
		grad, rows = grad[did*width:], rows[did:]
	}
	for len(rows) > 0 && width > 0 {
		some := rows[:min(rowsAhead, len(rows))]
		touch(param, some, width)
		for i, row := range some {
			p, g := param[int(row)*width:][:width], grad[i*width:][:width]
			for j := range p {
				p[j] -= T(lr * g[j])
			}
		}
		grad, rows = grad[len(some)*width:], rows[len(some):]
	}
}

// A gradient of a table comes as rows in the order of a batch, in which a row may stand several times. Updates that are not linear in
// the gradient need each row once, with its sum. OrderRows brings places of one row together; MergeRows and AddRowsFrom then
// sum them in the order of the batch, so the bits of a sum do not depend on what other rows there are, and
// are those of the dense gradient (EmbeddingGrad).

// digitBits bounds the radix of OrderRows. The counts of one digit fit into half of the L1 cache.
const digitBits = 11

// fewRows is how many rows are sorted without counting digits, which takes about a microsecond for each digit.
const fewRows = 32

// placeBits is the number of low bits of an entry of OrderRows that hold the place.
func placeBits(n int) int { return bits.Len(uint(max(n-1, 0))) }

// OrderableRows reports whether row numbers below height and n places fit into the entries of OrderRows.
func OrderableRows(n int, height int64) bool { return placeBits(n)+bits.Len64(uint64(height)) < 64 }

// OrderRows sorts the places of rows by the row at each place. Places of one row stay in rising order. An entry is row<<bits | place, with bits =
// placeBits(len(rows)). The result is order or spare, which both have the length of rows. Rows are in [0, height), and OrderableRows must hold.
func OrderRows(order, spare, rows []int64, height int64) []int64 {
	n := len(rows)
	shift := placeBits(n)
	order, spare = order[:n], spare[:n]
	for i, row := range rows {
		order[i] = row<<shift | int64(i)
	}
	if n <= fewRows {
		slices.Sort(order)
		return order
	}
	rowBits := bits.Len64(uint64(max(height-1, 0)))
	passes := ceilDiv(rowBits, digitBits)
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

// OrderedBetween returns the entries of OrderRows, for n places, with rows in [from, to).
func OrderedBetween(ordered []int64, n int, from, to int64) []int64 {
	shift := placeBits(n)
	first, _ := slices.BinarySearch(ordered, from<<shift)
	last, _ := slices.BinarySearch(ordered, to<<shift)
	return ordered[first:last]
}

// RowAndPlace returns the row and the place of an entry of OrderRows, for n places.
func RowAndPlace(entry int64, n int) (row, place int64) {
	shift := placeBits(n)
	return entry >> shift, entry & (1<<shift - 1)
}

// DifferentRows counts the rows among entries of OrderRows, for n places.
func DifferentRows(ordered []int64, n int) (rows int) {
	shift := placeBits(n)
	last := int64(-1)
	for _, entry := range ordered {
		if row := entry >> shift; row != last {
			rows, last = rows+1, row
		}
	}
	return rows
}

// MergeRows takes entries of OrderRows, for n places, from the front of ordered, until merged is full of different rows. It writes the rows,
// counted from row first, to merged. It sets row k of sums to the sum of the values at the places of merged[k]. values and sums have rows of width.
// It returns the number of rows and the number of entries.
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

// AddRowsFrom takes entries of OrderRows, for n places, from the front of ordered while their row is in sums, whose first row is row first. It adds
// the values at their places to sums, and returns the number of entries. values and sums have rows of width, which is at least 1.
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

// NoPadding is the paddingID of a table without a padding row, Fluid's -1.
const NoPadding int64 = -1

// FirstBadID returns the index of the first id outside of [0, rows), -1 if there is none. Functions on rows require -1.
func FirstBadID(ids []int64, rows int64) int {
	for i, id := range ids {
		if id < 0 || id >= rows {
			return i
		}
	}
	return -1
}

// Embedding copies row ids[i] of table, whose rows are width long, to row i of out (Fluid's lookup_table). A row whose id
// is paddingID is zeros.
func Embedding[T tensor.Float](out, table []T, ids []int64, width int, paddingID int64) {
	GatherRows(out, table, ids, width)
	if paddingID != NoPadding {
		ClearRowsOf(out, ids, width, paddingID)
	}
}

// EmbeddingGrad overwrites rows [from, to) of dtable with the dense gradient of the table. It starts with zeros, and adds row i of dout to row
// ids[i], in the order of ids. It skips rows whose id is paddingID.
func EmbeddingGrad[T tensor.Float](dtable []T, ids []int64, dout []T, width int, paddingID int64, from, to int) {
	clear(dtable[from*width : to*width])
	for i, id := range ids {
		if id != paddingID && id >= int64(from) && id < int64(to) {
			Accumulate(dtable[int(id)*width:][:width], dout[i*width:][:width])
		}
	}
}

// EmbeddingSums sets row i of out to the sum of the rows of table that ids[offsets[i]:offsets[i+1]] name, added in their order; to zeros if there is none. A row whose
// id is paddingID counts as zeros. It is Embedding and SequenceSum in one, without the rows in between.
func EmbeddingSums[T tensor.Float](out, table []T, ids, offsets []int64, width int, paddingID int64) {
	touched := offsets[0]
	for i := range offsets[1:] {
		from, to := offsets[i], offsets[i+1]
		sum := out[i*width:][:width]
		if from == to {
			clear(sum)
		}
		for at := from; at < to; at++ {
			if at == touched && width > 0 {
				touched = min(at+rowsAhead, offsets[len(offsets)-1])
				touch(table, ids[at:touched], width)
			}
			id := ids[at]
			row := table[int(id)*width:][:width]
			switch {
			case id == paddingID && at == from:
				clear(sum)
			case id == paddingID:
				addScalar(sum, sum, 0) // makes a zero of a negative one, as the sum does
			case at == from:
				copy(sum, row)
			default:
				addVectors(sum, sum, row)
			}
		}
	}
}

// EmbeddingSumsGrad overwrites rows [from, to) of dtable with the dense gradient of EmbeddingSums: it starts with zeros, and adds row i of dout to each row that
// ids[offsets[i]:offsets[i+1]] name, in the order of ids. It skips paddingID.
func EmbeddingSumsGrad[T tensor.Float](dtable []T, ids, offsets []int64, dout []T, width int, paddingID int64, from, to int) {
	clear(dtable[from*width : to*width])
	for i := range offsets[1:] {
		for _, id := range ids[offsets[i]:offsets[i+1]] {
			if id != paddingID && id >= int64(from) && id < int64(to) {
				Accumulate(dtable[int(id)*width:][:width], dout[i*width:][:width])
			}
		}
	}
}
