package kernel

import "github.com/edl-go/edl/tensor"

// NoPadding is the paddingID of a table without a padding row, Fluid's -1.
const NoPadding int64 = -1

// FirstBadID returns the index of the first id outside of [0, rows), or -1. The functions on rows require that it
// returned -1.
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

// EmbeddingGrad overwrites the rows [from, to) of dtable with those of the dense gradient of the table: zeros, to which row i of dout is added where
// ids[i] says, in the order of ids, but for rows whose id is paddingID.
func EmbeddingGrad[T tensor.Float](dtable []T, ids []int64, dout []T, width int, paddingID int64, from, to int) {
	clear(dtable[from*width : to*width])
	for i, id := range ids {
		if id != paddingID && id >= int64(from) && id < int64(to) {
			Accumulate(dtable[int(id)*width:][:width], dout[i*width:][:width])
		}
	}
}
