package kernel

import "github.com/edl-go/edl/tensor"

// GatherRows copies row rows[i] of table to row i of out. Rows are width long and row numbers are within table.
func GatherRows[T tensor.Float](out, table []T, rows []int64, width int) {
	if width == 1 {
		out = out[:len(rows)]
		for i, row := range rows {
			out[i] = table[row]
		}
		return
	}
	for i, row := range rows {
		copy(out[i*width:][:width], table[int(row)*width:][:width])
	}
}

// ScatterRows copies row i of from to row rows[i] of table; it is the inverse of GatherRows when no row repeats.
func ScatterRows[T tensor.Float](table, from []T, rows []int64, width int) {
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

// SGDRows computes param[rows[i]] -= lr*grad[i] for each i in turn, so that the gradients of a row that repeats are
// applied one after another. Rows are width long. Where no row repeats, the bits are those of SGD with the dense gradient.
func SGDRows[T tensor.Float](param []T, rows []int64, grad []T, width int, lr T) {
	for i, row := range rows {
		SGD(param[int(row)*width:][:width], grad[i*width:][:width], lr)
	}
}
