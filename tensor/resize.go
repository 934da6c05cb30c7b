package tensor

import (
	"slices"
	"sync/atomic"

	"github.com/edl-go/edl/fault"
)

// A room is the memory of a tensor whose dims change from run to run (Resize). It grows to the largest value and stays.
type room struct {
	dtype DType
	all   any         // a slice of the most elements that were needed
	cuts  map[int]any // slices of it by length, because making one allocates
	lod   [][]int64   // buffers for offsets

	budget   *Budget // of what all may take; nil for none
	variable string  // that errors name
}

// mostCuts bounds the lengths that a room remembers.
const mostCuts = 1024

// Fix ends all changes of dims: from now on Resize and Assign refuse a value of another dtype or other dims. It is for tensors that a plan has laid out. Plans
// that share parameters may fix them at the same time.
func Fix(t *Tensor) { atomic.StoreUint32(&t.fixed, 1) }

// IsFixed reports whether Fix was called.
func IsFixed(t *Tensor) bool { return atomic.LoadUint32(&t.fixed) != 0 }

// Resize gives t another dtype and other dims, and no LoD. The elements mean nothing, unless dtype and dims stay the same. The memory grows to the
// largest value that t has held, so a tensor that takes the same dims again and again allocates nothing. It fails for dims that New refuses, and if t is fixed
// and would change.
func Resize(t *Tensor, dtype DType, dims ...int64) error {
	if t.dtype == dtype && slices.Equal(t.dims, dims) {
		t.lod = nil
		return nil
	}
	if IsFixed(t) {
		return fault.E(fault.ShapeMismatch, fault.Gotf("a value %v%v", dtype, dims), fault.Wantf("%v%v, which was laid out for it", t.dtype, t.dims))
	}
	n, err := check(dtype, dims)
	if err != nil {
		return err
	}
	if t.room == nil {
		t.room = &room{}
	}
	data, err := t.room.take(dtype, n)
	if err != nil {
		return err
	}
	t.dtype, t.data, t.lod = dtype, data, nil
	t.dims = append(t.dims[:0:cap(t.dims)], dims...)
	return nil
}

// take returns n elements of the memory.
func (r *room) take(dtype DType, n int) (any, error) {
	if r.all == nil || r.dtype != dtype || lengthOf(r.all) < n {
		if err := r.budget.Take(r.variable, int64(n)*int64(dtype.Size())-int64(lengthOf(r.all))*int64(r.dtype.Size())); err != nil {
			return nil, err
		}
		made, err := New(dtype, int64(n))
		if err != nil {
			return nil, err
		}
		r.dtype, r.all, r.cuts = dtype, made.data, map[int]any{}
	}
	if data, ok := r.cuts[n]; ok {
		return data, nil
	}
	if len(r.cuts) == mostCuts {
		clear(r.cuts)
	}
	all := &Tensor{dtype: dtype, dims: []int64{int64(lengthOf(r.all))}, data: r.all}
	cut, err := all.Rows(0, int64(n))
	if err != nil {
		return nil, err
	}
	r.cuts[n] = cut.data
	return cut.data, nil
}

func lengthOf(data any) int {
	switch d := data.(type) {
	case []bool:
		return len(d)
	case []int32:
		return len(d)
	case []int64:
		return len(d)
	case []float32:
		return len(d)
	case []float64:
		return len(d)
	case []uint16:
		return len(d)
	}
	return 0
}

// Assign makes t equal to src: dtype, dims, elements and LoD. It copies, and allocates nothing if t has held as much before. It fails as Resize does, and for
// rows of a tensor.
func Assign(t, src *Tensor) error {
	if src.rows != nil || t.rows != nil {
		return fault.E(fault.Unsupported, fault.Gotf("%s", src), fault.Want("a dense tensor"))
	}
	if t == src {
		return nil
	}
	if err := Resize(t, src.dtype, src.dims...); err != nil {
		return err
	}
	if err := t.CopyFrom(src); err != nil {
		return err
	}
	if err := t.room.takeOffsets(src.lod); err != nil {
		return err
	}
	CopyLoD(t, src.lod)
	return nil
}

// takeOffsets takes from the budget what the buffers for offsets will grow by.
func (r *room) takeOffsets(lod [][]int64) error {
	if r == nil || r.budget == nil {
		return nil
	}
	more := 0
	for i, level := range lod {
		have := 0
		if i < len(r.lod) {
			have = cap(r.lod[i])
		}
		more += max(0, len(level)-have)
	}
	return r.budget.Take(r.variable, int64(more)*8)
}

// CopyLoD gives t a copy of offsets, in memory that t keeps for the next copy.
func CopyLoD(t *Tensor, lod [][]int64) {
	if len(lod) == 0 {
		t.lod = nil
		return
	}
	if t.room == nil {
		t.room = &room{}
	}
	for len(t.room.lod) < len(lod) {
		t.room.lod = append(t.room.lod, nil)
	}
	for i, level := range lod {
		t.room.lod[i] = append(t.room.lod[i][:0], level...)
	}
	t.lod = t.room.lod[:len(lod)]
}

// Zero sets all elements of t to 0, or to false.
func Zero(t *Tensor) {
	switch d := t.data.(type) {
	case []bool:
		clear(d)
	case []int32:
		clear(d)
	case []int64:
		clear(d)
	case []float32:
		clear(d)
	case []float64:
		clear(d)
	case []uint16:
		clear(d)
	}
}

// CloneLoD returns a copy of offsets.
func CloneLoD(lod [][]int64) [][]int64 { return cloneLoD(lod) }

// Lay makes t refer to elements of a vector, from offset on, as a value of other dims. It keeps the LoD, and also changes a tensor that is fixed: it is for the
// plan that has laid t out, and for nobody else. It allocates nothing but the header of the elements.
func Lay(t, memory *Tensor, offset int, dims ...int64) error {
	n, err := check(t.dtype, dims)
	if err != nil {
		return err
	}
	if memory.dtype != t.dtype || offset < 0 || offset > memory.Len()-n {
		return fault.E(fault.ShapeMismatch, fault.Gotf("elements %d to %d of %s", offset, offset+n, memory), fault.Wantf("elements of a vector of %v", t.dtype))
	}
	t.data = cut(memory.data, offset, n)
	t.dims = append(t.dims[:0:cap(t.dims)], dims...)
	return nil
}

// cut returns n elements of data.
func cut(data any, from, n int) any {
	to := from + n
	switch d := data.(type) {
	case []bool:
		return d[from:to:to]
	case []int32:
		return d[from:to:to]
	case []int64:
		return d[from:to:to]
	case []float32:
		return d[from:to:to]
	case []float64:
		return d[from:to:to]
	case []uint16:
		return d[from:to:to]
	}
	return nil
}
