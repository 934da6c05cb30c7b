package opkit

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// StreamAt derives the random stream of a step from that of a variable, with the finalizer of SplitMix64.
func StreamAt(name uint64, step *ops.Step) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := name + step.Iteration*golden
	for _, v := range [...]uint64{step.Round, step.Lane} {
		h += (v + 1) * golden
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// FirstPlace returns the index of the first of n places of x in the whole batch. This trainer may have only some rows of the batch. If axis 0 is no
// multiple of the rows, it is not the batch, and every trainer draws the same.
func FirstPlace(x *tensor.Tensor, n int, step *ops.Step) uint64 {
	rows := x.Dims()
	if step.Rows <= 0 || len(rows) == 0 || rows[0]%step.Rows != 0 {
		return 0
	}
	return uint64(step.RowOffset) * uint64(int64(n)/step.Rows)
}
