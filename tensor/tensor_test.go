package tensor

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		dims []int64
		want int
		ok   bool
	}{
		{nil, 1, true}, {[]int64{3, 4}, 12, true}, {[]int64{3, 0, 4}, 0, true},
		{[]int64{-1}, 0, false}, {[]int64{0, -1}, 0, false},
		{[]int64{math.MaxInt64, 1}, math.MaxInt64, true}, {[]int64{1 << 32, 1 << 31}, 0, false},
	} {
		if n, ok := Count(c.dims); n != c.want || ok != c.ok {
			t.Errorf("Count(%v) = %d, %v", c.dims, n, ok)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		dims  []int64
		kind  fault.Kind
	}{
		{UInt8, []int64{1}, fault.Unsupported}, {DType(99), nil, fault.Unsupported},
		{Float32, make([]int64, MaxRank+1), fault.TooLarge},
		{Float32, []int64{-1}, fault.ShapeMismatch}, {Float32, []int64{1 << 62}, fault.ShapeMismatch},
	} {
		if _, err := New(c.dtype, c.dims...); !errors.Is(err, c.kind) {
			t.Errorf("New(%v, %v): %v, want %v", c.dtype, c.dims, err, c.kind)
		}
	}
}

func TestNamesOfTypes(t *testing.T) {
	for _, d := range []DType{Bool, Int16, Int32, Int64, Float16, Float32, Float64, UInt8, Int8, BFloat16} {
		if parsed, ok := ParseDType(d.String()); !ok || parsed != d || d.Size() == 0 {
			t.Errorf("%d is called %v, parsed as %v", int32(d), d, parsed)
		}
	}
	for _, name := range []string{"", "float", "dtype(7)"} {
		if d, ok := ParseDType(name); ok {
			t.Errorf("%q is %v", name, d)
		}
	}
	for _, d := range []DType{-1, 7, 19, 99} { // a gap between known types counts as unknown
		if d.Size() != 0 || d.Computable() || d.String() != fmt.Sprintf("dtype(%d)", int32(d)) {
			t.Errorf("%v is known", d)
		}
	}
	if d := DType(23); d.Size() != 0 || d.Computable() || d.String() != "complex64" { // Paddle's, which has a name and no elements here
		t.Errorf("%v is known", d)
	}
}

func TestViewsShareElements(t *testing.T) {
	x, err := FromSlice([]int64{0, 1, 2, 3, 4, 5}, 3, 2)
	must(t, x, err)
	rows, err := x.Rows(1, 3)
	must(t, rows, err).Int64s()[0] = 20
	flat, err := x.Reshape(6)
	must(t, flat, err).Int64s()[5] = 50
	if got := x.Int64s(); got[2] != 20 || got[5] != 50 || rows.String() != "int64[2 2]" || len(rows.Int64s()) != 4 {
		t.Errorf("%v, rows %v", got, rows)
	}
	if none, err := x.Rows(3, 3); err != nil || none.Len() != 0 {
		t.Errorf("no rows: %v, %v", none, err)
	}
	for _, r := range [][2]int64{{-1, 1}, {2, 1}, {0, 4}} {
		if _, err := x.Rows(r[0], r[1]); !errors.Is(err, fault.ShapeMismatch) {
			t.Errorf("rows %v: %v", r, err)
		}
	}
	if _, err := x.Reshape(5); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("five elements of six: %v", err)
	}
}

func TestCopiesAreApart(t *testing.T) {
	x, err := FromSlice([]float32{1, 2, 3}, 3, 1)
	must(t, x, err).SetLoD([][]int64{{0, 1, 3}})
	c := x.Clone()
	y, err := New(Float32, 3)
	must(t, y, err)
	if err := y.CopyFrom(x); err != nil {
		t.Fatal(err)
	}
	x.Float32s()[0], x.LoD()[0][1] = 9, 2
	if c.Float32s()[0] != 1 || c.LoD()[0][1] != 1 || y.Float32s()[0] != 1 {
		t.Errorf("clone %v with LoD %v, copy %v", c.Float32s(), c.LoD(), y.Float32s())
	}
	if err := Share(y, x); err != nil || &y.Float32s()[0] != &x.Float32s()[0] {
		t.Errorf("shared elements are elsewhere, error %v", err)
	}
	other, err := New(Int64, 3)
	must(t, other, err)
	if err := other.CopyFrom(x); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("copied into another type: %v", err)
	}
	if err := Share(other, x); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("shared with another type: %v", err)
	}
}

// Large tensors of every type are zeros of their whole length that can be written, however their memory is paged.
func TestLargeTensorsAreZeros(t *testing.T) {
	const bytes = hugeLeast + 12345*8
	for _, dtype := range []DType{Bool, Int32, Int64, Float32, Float64} {
		n := int64(bytes / dtype.Size())
		large, err := New(dtype, n)
		if err != nil {
			t.Fatal(err)
		}
		if large.Len() != int(n) {
			t.Fatalf("%v: %d elements, want %d", dtype, large.Len(), n)
		}
		if dtype != Float32 {
			continue
		}
		for i, v := range Data[float32](large) {
			if v != 0 {
				t.Fatalf("element %d is %v", i, v)
			}
			Data[float32](large)[i] = float32(i)
		}
		for i, v := range Data[float32](large) {
			if v != float32(i) {
				t.Fatalf("element %d is %v after it was set", i, v)
			}
		}
	}
}

// A tensor that is printed shows its elements, a bounded number of them; in a text that wants it short it shows its type.
func TestPrinting(t *testing.T) {
	vector := func(n int) *Tensor {
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(i) / 2
		}
		x, err := FromSlice(data)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	truth, err := FromSlice([]bool{true, false}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	var none *Tensor
	for want, got := range map[string]string{
		"float32[3]{0 0.5 1}":                     fmt.Sprint(vector(3)),
		"float32[0]{}":                            fmt.Sprintf("%v", vector(0)),
		"float32[9]{0 0.5 1 1.5 2 2.5 3 3.5 ...}": fmt.Sprintf("%+v", vector(9)),
		"float32[8]{0 0.5 1 1.5 2 2.5 3 3.5}":     fmt.Sprint(vector(8)),
		"bool[2 1]{true false}":                   fmt.Sprint(truth),
		"float32[9]":                              fmt.Sprintf("%s", vector(9)),
		"float32[3]":                              vector(3).String(),
		"[float32[1]{0}]":                         fmt.Sprint([]*Tensor{vector(1)}),
		"<nil>":                                   fmt.Sprint(none),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A tensor of a half type holds bits: it copies, is cut and is compared like any other, and is not computed with. One of bfloat16 is read from a file.
func TestHalves(t *testing.T) {
	bits := []uint16{0x3f80, 0x4000, 0x7fc0, 1}
	x, err := FromHalves(BFloat16, bits, 2, 2)
	if err != nil || x.Bytes() != 8 || x.DType().Computable() || fmt.Sprint(x) != "bfloat16[2 2]{16256 16384 32704 1}" {
		t.Fatalf("%v, %v", x, err)
	}
	rows, err := x.Rows(1, 2)
	must(t, rows, err)
	c, y := rows.Clone(), must(t, x, nil).Clone()
	bits[2] = 5
	if Data[uint16](rows)[0] != 5 || Data[uint16](c)[0] != 0x7fc0 || equal(x, y) {
		t.Errorf("rows %v, clone %v, %v and %v", rows, c, x, y)
	}
	if err := y.CopyFrom(x); err != nil || !equal(x, y) {
		t.Errorf("copy %v, %v", y, err)
	}
	other, err := New(Float16, 4)
	must(t, other, err)
	if err := other.CopyFrom(x); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("bfloat16 into float16: %v", err)
	}
	for _, wrong := range []func() (*Tensor, error){
		func() (*Tensor, error) { return FromHalves(Float32, bits) },
		func() (*Tensor, error) { return FromHalves(Float16, bits, 3) },
		func() (*Tensor, error) { return FromHalves(Int16, bits) },
	} {
		if x, err := wrong(); err == nil {
			t.Errorf("%v from halves", x)
		}
	}
	if back, _, err := DecodeStream(AppendStream(nil, x), Limits{}); err != nil || !equal(back, x) {
		t.Errorf("bfloat16 is read as %v, %v", back, err)
	}
	if back, err := Read(bytes.NewReader(AppendStream(nil, x)), Limits{}); err != nil || !equal(back, x) || back.DType() != BFloat16 {
		t.Errorf("bfloat16 is read from a file as %v, %v", back, err)
	}
	if _, _, err := DecodeStream(AppendStream(nil, other), Limits{}); !errors.Is(err, fault.Unsupported) {
		t.Errorf("float16: %v", err)
	}
}

// Files may have elements of types that kernels do not know. They are read as wider ones, with the same values.
func TestNarrowElementsAreReadAsWiderOnes(t *testing.T) {
	for _, c := range []struct {
		dtype DType
		bytes string
		want  string
	}{
		{Float16, "\x00\x3c\x00\xc0\x01\x00\x00\x7c", "float32[4]{1 -2 5.9604645e-08 +Inf}"},
		{Int8, "\x01\xff\x80\x7f", "int32[4]{1 -1 -128 127}"},
		{UInt8, "\x01\xff\x80\x7f", "int32[4]{1 255 128 127}"},
		{Int16, "\x01\x00\xff\xff\x00\x80\xff\x7f", "int32[4]{1 -1 -32768 32767}"},
	} {
		head := appendHead(nil, &Tensor{dtype: c.dtype, dims: []int64{4}})
		back, err := Read(bytes.NewReader(append(head, c.bytes...)), Limits{})
		if err != nil || fmt.Sprint(back) != c.want || back.DType() != Wider(c.dtype) {
			t.Errorf("%v is read as %v, %v", c.dtype, back, err)
		}
		if _, err := Read(bytes.NewReader(append(head, c.bytes[:3]...)), Limits{}); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%v, cut off: %v", c.dtype, err)
		}
	}
}
