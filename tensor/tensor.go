// Package tensor holds the value of a variable: element type, dims, elements in row-major order, and a level of detail (LoD) for sequences. It also
// reads and writes Fluid's LoDTensor stream, which parameter files and training records consist of.
//
// Packages program and dataset both use typed values and do not know each other, so this package is below both. It computes nothing.
//
// Files: tensor.go, dtype.go, resize.go (values whose dims change), budget.go (what they may take), lod.go, selected_rows.go (sparse gradients), stream.go (parsing), stream_io.go (reading and writing).
package tensor

import (
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/edl-go/edl/fault"
)

// A Tensor is a dense, contiguous, row-major array. The zero value is not usable; see New and FromSlice. While a goroutine writes to a Tensor, no
// other may use it.
type Tensor struct {
	dtype DType
	dims  []int64
	data  any // []bool, []int32, []int64, []float32, []float64, or []uint16 for a half type, of length exactly Count(dims)
	lod   [][]int64

	rows   *Tensor // row numbers, if t holds rows of a tensor of height rows; nil for an ordinary tensor
	height int64

	room  *room             // memory of a tensor whose dims change; nil for most
	fixed uint32            // not 0: dims must not change; atomic
	small bool              // SmallPages was called for its memory
	live  func() []RowRange // see SetLive
}

// MaxRank bounds the number of dims of a tensor, here and in programs.
const MaxRank = 16

// Count returns the product of dims. The second result is false if a dim is negative or the product does not fit into an int.
func Count(dims []int64) (int, bool) {
	n, zero := int64(1), false
	for _, d := range dims {
		switch {
		case d < 0:
			return 0, false
		case d == 0:
			zero = true
		case n > math.MaxInt/d:
			return 0, false
		default:
			n *= d
		}
	}
	if zero {
		return 0, true
	}
	return int(n), true
}

// New allocates a tensor of zeros. It fails for a type that is neither Computable nor IsHalf, and for dims that are negative, overflow, or have a rank
// above MaxRank.
func New(dtype DType, dims ...int64) (*Tensor, error) {
	n, err := check(dtype, dims)
	if err != nil {
		return nil, err
	}
	t := &Tensor{dtype: dtype, dims: append([]int64(nil), dims...)}
	switch dtype {
	case Bool:
		t.data = zeros[bool](n)
	case Int32:
		t.data = zeros[int32](n)
	case Int64:
		t.data = zeros[int64](n)
	case Float32:
		t.data = zeros[float32](n)
	case Float16, BFloat16:
		t.data = zeros[uint16](n)
	default:
		t.data = zeros[float64](n)
	}
	return t, nil
}

func check(dtype DType, dims []int64) (int, error) {
	if !dtype.Computable() && !dtype.IsHalf() {
		return 0, fault.E(fault.Unsupported, fault.Got(dtype.String()), fault.Want("bool, int32, int64, float16, bfloat16, float32 or float64"))
	}
	if len(dims) > MaxRank {
		return 0, fault.E(fault.TooLarge, fault.Gotf("rank %d", len(dims)), fault.Wantf("at most %d", MaxRank))
	}
	n, ok := Count(dims)
	if !ok || n > math.MaxInt/8 {
		return 0, fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", dims), fault.Want("non-negative dims whose product fits into memory"))
	}
	return n, nil
}

// FromSlice makes a tensor that shares data. Without dims it is a vector.
func FromSlice[T Element](data []T, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(data))}
	}
	n, err := check(Of[T](), dims)
	if err != nil {
		return nil, err
	}
	if n != len(data) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%d elements", len(data)), fault.Wantf("%d for dims %v", n, dims))
	}
	return &Tensor{dtype: Of[T](), dims: append([]int64(nil), dims...), data: data}, nil
}

// FromHalves is FromSlice for the bits of elements of a half type.
func FromHalves(dtype DType, bits []uint16, dims ...int64) (*Tensor, error) {
	if dims == nil {
		dims = []int64{int64(len(bits))}
	}
	n, err := check(dtype, dims)
	if err != nil {
		return nil, err
	}
	if !dtype.IsHalf() || n != len(bits) {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("%d elements of 16 bits", len(bits)), fault.Wantf("%v%v", dtype, dims))
	}
	return &Tensor{dtype: dtype, dims: append([]int64(nil), dims...), data: bits}, nil
}

// DType returns the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Dims returns the extents. The caller must not change them.
func (t *Tensor) Dims() []int64 { return t.dims }

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n, _ := Count(t.dims)
	return n
}

// Bytes returns the size of the elements in bytes.
func (t *Tensor) Bytes() int64 { return int64(t.Len()) * int64(t.dtype.Size()) }

// LoD returns the level-of-detail offsets, nil for a plain tensor.
func (t *Tensor) LoD() [][]int64 { return t.lod }

// SetLoD sets the level-of-detail offsets without checking them against dims.
func (t *Tensor) SetLoD(lod [][]int64) { t.lod = lod }

// Data returns the elements of t, which the tensor shares; of a half type their bits. T must be the Go type of t.DType(); for any other type Data returns nil. It
// allocates nothing, so kernels call it on every run.
func Data[T Bits](t *Tensor) []T {
	d, _ := t.data.([]T)
	return d
}

// Float32s is Data[float32].
func (t *Tensor) Float32s() []float32 { return Data[float32](t) }

// Float64s is Data[float64].
func (t *Tensor) Float64s() []float64 { return Data[float64](t) }

// Int64s is Data[int64].
func (t *Tensor) Int64s() []int64 { return Data[int64](t) }

// Int32s is Data[int32].
func (t *Tensor) Int32s() []int32 { return Data[int32](t) }

// Bools is Data[bool].
func (t *Tensor) Bools() []bool { return Data[bool](t) }

// String returns dtype and dims, such as "float32[64 784]", and for sparse rows the height of the whole tensor. It is short, for errors; Format shows
// elements.
func (t *Tensor) String() string {
	if t.rows != nil {
		return fmt.Sprintf("%v%v of %d rows", t.dtype, t.dims, t.height)
	}
	return fmt.Sprintf("%v%v", t.dtype, t.dims)
}

// shownElements is how many elements Format shows; of a half type it shows the bits as numbers.
const shownElements = 8

// Format implements fmt.Formatter: %s is String, and every other verb adds the first elements, such as float32[3]{1 2 3}.
func (t *Tensor) Format(f fmt.State, verb rune) {
	if t == nil {
		io.WriteString(f, "<nil>")
		return
	}
	io.WriteString(f, t.String())
	if verb == 's' {
		return
	}
	switch d := t.data.(type) {
	case []bool:
		formatElements(f, d)
	case []int32:
		formatElements(f, d)
	case []int64:
		formatElements(f, d)
	case []float32:
		formatElements(f, d)
	case []float64:
		formatElements(f, d)
	case []uint16:
		formatElements(f, d)
	}
}

func formatElements[T Bits](w io.Writer, data []T) {
	more := ""
	if len(data) > shownElements {
		data, more = data[:shownElements], " ..."
	}
	text := fmt.Sprint(data) // [1 2 3]
	fmt.Fprintf(w, "{%s%s}", text[1:len(text)-1], more)
}

// Clone copies the tensor and its elements.
func (t *Tensor) Clone() *Tensor {
	c := &Tensor{dtype: t.dtype, dims: append([]int64(nil), t.dims...)}
	switch d := t.data.(type) {
	case []bool:
		c.data = copied(d)
	case []int32:
		c.data = copied(d)
	case []int64:
		c.data = copied(d)
	case []float32:
		c.data = copied(d)
	case []float64:
		c.data = copied(d)
	case []uint16:
		c.data = copied(d)
	}
	for _, level := range t.lod {
		c.lod = append(c.lod, append([]int64(nil), level...))
	}
	if t.rows != nil {
		c.rows, c.height = t.rows.Clone(), t.height
	}
	return c
}

// CopyFrom copies the elements of src. Both must have the same dtype and number of elements.
func (t *Tensor) CopyFrom(src *Tensor) error {
	if src.dtype != t.dtype || src.Len() != t.Len() {
		return fault.E(fault.ShapeMismatch, fault.Got(src.String()), fault.Want(t.String()))
	}
	if to, from := memoryOf(t), memoryOf(src); len(to) < hugeLeast {
		copy(to, from)
	} else {
		CopyUsed(to, from)
	}
	return nil
}

// Share makes t refer to the elements of src. Both must have the same dtype and number of elements. Feeds enter a plan in this way, without a copy.
func Share(t, src *Tensor) error {
	if src.dtype != t.dtype || src.Len() != t.Len() {
		return fault.E(fault.ShapeMismatch, fault.Got(src.String()), fault.Want(t.String()))
	}
	t.data, t.lod, t.small = src.data, src.lod, src.small
	return nil
}

// Reshape returns a tensor with other dims and the same elements, which both share.
func (t *Tensor) Reshape(dims ...int64) (*Tensor, error) {
	n, err := check(t.dtype, dims)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("dims %v", dims), fault.Wantf("%d elements", t.Len()))
	}
	return &Tensor{dtype: t.dtype, dims: append([]int64(nil), dims...), data: t.data}, nil
}

// Rows returns rows [from, to) of axis 0, which share the elements of t.
func (t *Tensor) Rows(from, to int64) (*Tensor, error) {
	if len(t.dims) == 0 || from < 0 || to < from || to > t.dims[0] {
		return nil, fault.E(fault.ShapeMismatch, fault.Gotf("rows [%d, %d)", from, to), fault.Want("rows within "+t.String()))
	}
	width := 1
	if t.dims[0] > 0 {
		width = t.Len() / int(t.dims[0])
	}
	a, b := int(from)*width, int(to)*width
	return &Tensor{dtype: t.dtype, dims: append([]int64{to - from}, t.dims[1:]...), data: cut(t.data, a, b-a)}, nil
}

// hugeLeast is the size in bytes from which a tensor asks for large pages. Random rows of a table of this size already miss in the first-level TLB.
const hugeLeast = 4 << 20

// lazyLeast is the size in bytes from which the zeros of a tensor come from the system, page by page at the first touch. The allocator would write all of an array whose
// memory was in use before. Of what is that large, such as room for the rows of a table, little may ever be used.
const lazyLeast = 64 << 20

// zeros allocates n elements.
func zeros[T Bits](n int) []T {
	bytes := uintptr(n) * unsafe.Sizeof(*new(T))
	var x []T
	if bytes >= lazyLeast {
		x = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(untouched(n*int(unsafe.Sizeof(*new(T))))))), n)
	} else {
		x = make([]T, n)
	}
	if bytes >= hugeLeast {
		adviseHuge(unsafe.Pointer(unsafe.SliceData(x)), bytes)
	}
	return x
}
