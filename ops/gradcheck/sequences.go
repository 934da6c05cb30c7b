package gradcheck

import (
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/tensor"
)

// Sequences cuts the rows of t into sequences of these lengths, which must add up to its rows.
func Sequences(t *tensor.Tensor, lengths ...int64) *tensor.Tensor {
	offsets := make([]int64, len(lengths)+1)
	for i, n := range lengths {
		offsets[i+1] = offsets[i] + n
	}
	t.SetLoD([][]int64{offsets})
	if err := t.CheckLoD(); err != nil {
		panic(err)
	}
	return t
}

// lodOf returns the offsets of what has the LoD of a variable.
func (m *Interpreter) lodOf(meta ops.Meta) [][]int64 {
	if meta.LoDLevel == 0 {
		return nil
	}
	return m.Vars[meta.LoDOf].LoD()[:meta.LoDLevel]
}

// lod draws offsets for a value: mostly such as cut its rows, and now and then any.
func (m mutator) lod(meta ops.Meta) [][]int64 {
	rows := int64(0)
	if len(meta.Dims) > 0 {
		rows = meta.Dims[0]
	}
	lod := make([][]int64, len(meta.Sequences))
	for level := len(lod) - 1; level >= 0; level-- {
		n := meta.Sequences[level]
		offsets := make([]int64, n+1)
		for i := range offsets {
			offsets[i] = rows * int64(i) / max(1, n)
			if m.IntN(20) == 0 {
				offsets[i] = m.extent()
			}
		}
		lod[level], rows = offsets, n
	}
	return lod
}
