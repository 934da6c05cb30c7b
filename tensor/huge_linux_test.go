package tensor_test

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/edl-go/edl/internal/resident"
	"github.com/edl-go/edl/tensor"
)

// residentIn is how many bytes of memory the system has given to the elements of a tensor.
func residentIn(t *testing.T, x *tensor.Tensor) int64 {
	t.Helper()
	bytes, err := resident.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&x.Float32s()[0])), x.Bytes()))
	if err != nil {
		t.Skip("this system does not say: ", err)
	}
	return bytes
}

// A tensor of 64 MB, of which eight parts have some elements at their beginning, takes memory for these and not for large pages around them: also where it was used
// before SmallPages, and when it takes the elements of another tensor. What has come into use may be large pages, with the same elements.
func TestSmallPages(t *testing.T) {
	const elements, parts, used, most = 16 << 20, 8, 1000, 8 * (128 << 10)
	begin := func() *tensor.Tensor {
		x, err := tensor.New(tensor.Float32, elements)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	fill := func(x *tensor.Tensor, n int) {
		for part := range parts {
			for i := range n {
				x.Float32s()[part*elements/parts+i] = float32(i + 1)
			}
		}
	}
	check := func(what string, x *tensor.Tensor, n int, most int64) {
		t.Helper()
		if have := residentIn(t, x); have > most {
			t.Errorf("%s: %d bytes of memory, want at most %d", what, have, most)
		}
		for part := range parts {
			for i := range 2 * used {
				want := float32(i + 1)
				if i >= n {
					want = 0
				}
				if got := x.Float32s()[part*elements/parts+i]; got != want {
					t.Fatalf("%s: element %d of part %d is %v, want %v", what, i, part, got, want)
				}
			}
		}
	}
	x := begin()
	fill(x, used)
	tensor.SmallPages(x)
	check("used before", x, used, most)
	y := begin()
	tensor.SmallPages(y)
	check("never used", y, 0, 0)
	if err := y.CopyFrom(x); err != nil {
		t.Fatal(err)
	}
	check("copied", y, used, most)
	fill(y, 2*used)
	check("grown", y, 2*used, most)
	const large = 1 << 20 // elements of two large pages
	for i := range large {
		y.Float32s()[i] = float32(i + 1)
	}
	next := tensor.LargePages(y, 0, large)
	if next <= large || next > 2*large {
		t.Errorf("after %d elements the next large page is in use with %d", large, next)
	}
	for i, got := range y.Float32s()[:large] {
		if got != float32(i+1) {
			t.Fatalf("element %d is %v in a large page", i, got)
		}
	}
	if have := residentIn(t, y); have > most+4*large {
		t.Errorf("%d bytes of memory with two large pages, want at most %d", have, most+4*large)
	}
}

// A large tensor has zeros that take no memory, also where a tensor was before that had other elements.
func TestLargeTensorsBeginUntouched(t *testing.T) {
	const elements = 16<<20 + 3 // more than 64 MB, and no whole number of pages
	for range 4 {
		x, err := tensor.New(tensor.Float32, elements)
		if err != nil {
			t.Fatal(err)
		}
		if have := residentIn(t, x); have > 1<<20 {
			t.Errorf("%d bytes of memory before anything is written", have)
		}
		if !tensor.ZeroBytes(unsafe.Slice((*byte)(unsafe.Pointer(&x.Float32s()[0])), x.Bytes())) {
			t.Fatal("elements that are not 0")
		}
		for i := 0; i < elements; i += 1000 { // in each page
			x.Float32s()[i] = 1
		}
		x.Float32s()[elements-1] = 1
		runtime.KeepAlive(x)
		x = nil
		runtime.GC()
	}
}
