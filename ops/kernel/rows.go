package kernel

import "github.com/edl-go/edl/tensor"

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
func touch[T tensor.Float](table []T, rows []int64, width int) (sum T) {
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

// SGDRows computes param[rows[i]] -= lr*grad[i] for each i in turn, so that the gradients of a row that repeats are
// applied one after another. Rows are width long. Where no row repeats, the bits are those of SGD with the dense gradient.
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
