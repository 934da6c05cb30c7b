package detection

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// The ops that find boxes are of class Control, because only their data says how many there are. Their outputs get dims when they run, and so may their inputs.

// A maker gives outputs their rows. It reuses its memory from run to run.
type maker struct {
	size [2]int64
	lod  [1][]int64
}

// makeRows gives t rows of a width, those of an image a sequence if there are offsets. t is nil if nobody wants them.
func makeRows[T tensor.Element](m *maker, t *tensor.Tensor, values []T, width int, offsets []int64) error {
	if t == nil {
		return nil
	}
	m.size = [2]int64{int64(len(values) / width), int64(width)}
	if err := tensor.Resize(t, tensor.Of[T](), m.size[:]...); err != nil {
		return err
	}
	copy(tensor.Data[T](t), values)
	m.lod[0] = offsets
	if offsets != nil {
		tensor.CopyLoD(t, m.lod[:])
	} else {
		tensor.CopyLoD(t, nil)
	}
	return nil
}

// makeCounts gives t how many rows each image has, as the offsets say.
func makeCounts(m *maker, t *tensor.Tensor, offsets []int64) error {
	if t == nil {
		return nil
	}
	m.size[0] = int64(len(offsets) - 1)
	if err := tensor.Resize(t, tensor.Int32, m.size[:1]...); err != nil {
		return err
	}
	for i := range t.Int32s() {
		t.Int32s()[i] = int32(offsets[i+1] - offsets[i])
	}
	return nil
}

// rowsMeta is the type of rows that are found when an op runs, those of an image a sequence.
func rowsMeta(dtype tensor.DType, width int64) ops.Meta {
	return ops.Meta{Kind: program.LoDTensor, DType: dtype, Dims: []int64{program.Unknown, width}, LoDLevel: 1}
}

// offsetsFrom appends the offsets of the images of t to offsets: from the numbers in counts, or from the LoD of t. It checks that they fit its rows.
func offsetsFrom(b *ops.Binding, slot string, t, counts *tensor.Tensor, offsets []int64) ([]int64, error) {
	offsets = append(offsets[:0], 0)
	rows := int64(0)
	if dims := t.Dims(); len(dims) > 0 {
		rows = dims[0]
	}
	switch lod := t.LoD(); {
	case counts != nil:
		for i := range counts.Len() {
			n := integerAt(counts, i)
			if n < 0 || n > rows {
				return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Gotf("%d boxes of an image", n), fault.Wantf("0 to %d, the rows of %s", rows, slot))
			}
			offsets = append(offsets, offsets[len(offsets)-1]+n)
		}
	case len(lod) > 0:
		if err := tensor.CheckLoD(t); err != nil {
			return nil, err
		}
		offsets = append(offsets[:0], lod[len(lod)-1]...)
	default:
		offsets = append(offsets, rows)
	}
	if last := offsets[len(offsets)-1]; last != rows {
		return nil, fault.E(fault.InvalidArgument, fault.On(b.Op()), fault.Gotf("%d boxes of all images", last), fault.Wantf("%d, the rows of %s", rows, slot))
	}
	return offsets, nil
}

// sized checks the number of elements of a tensor when an op runs.
func sized(b *ops.Binding, slot string, t *tensor.Tensor, n int) error {
	if t.Len() != n {
		return fault.E(fault.ShapeMismatch, fault.On(b.Op()), fault.Gotf("%s %v", slot, t.Dims()), fault.Wantf("%d elements", n))
	}
	return nil
}

// byFloat makes the Bind of an op of class Control from its binders for float32 and float64. The element type of the first variable of a slot chooses.
func byFloat(slot string, f32, f64 func(*ops.Binding) (ops.Kernel, error)) func(*ops.Binding) (ops.Kernel, error) {
	return func(b *ops.Binding) (ops.Kernel, error) {
		if b.In(slot).DType() == tensor.Float64 {
			return f64(b)
		}
		return f32(b)
	}
}

// grow returns a list of n elements, in the memory of list if there is enough.
func grow[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	return list[:n]
}
