package tensor_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/tensor"
)

// few returns a tensor of rows of which few are not zeros: the first ones, some in the middle and the last one.
func few[T tensor.Element](t testing.TB, value T, dims ...int64) *tensor.Tensor {
	x, err := tensor.New(tensor.Of[T](), dims...)
	if err != nil {
		t.Fatal(err)
	}
	if d := tensor.Data[T](x); len(d) > 0 {
		d[0], d[len(d)/2], d[len(d)-1] = value, value, value
	}
	return x
}

func someShort(t testing.TB) []*tensor.Tensor {
	bits := make([]uint16, 50000*3)
	bits[0], bits[70000], bits[len(bits)-1] = 0x3f80, 0x8000, 1
	half, err := tensor.FromHalves(tensor.BFloat16, bits, 50000, 3)
	if err != nil {
		t.Fatal(err)
	}
	return []*tensor.Tensor{few[float32](t, 3, 100000, 16), half, few[int64](t, -1, 70000), few[int32](t, 9, 12345), few(t, 2.5, 1000, 3), few(t, true, 5000, 2),
		few[float32](t, 1, 0, 8), few[float32](t, 1), few[float32](t, 1, 1)}
}

// Tensors in short form and streams may follow each other in a file.
func TestShortFormOfTensors(t *testing.T) {
	var file bytes.Buffer
	var want []*tensor.Tensor
	first := 0
	for _, x := range someShort(t) {
		before := file.Len()
		if err := tensor.WriteShort(&file, x); err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = file.Len()
		}
		if took := file.Len() - before; took > 120 {
			t.Errorf("%v takes %d bytes in short form", x.Dims(), took)
		}
		if _, err := few[float32](t, 1, 2, 2).WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		want = append(want, x, few[float32](t, 1, 2, 2))
	}
	b := bytes.Clone(file.Bytes())
	r := bufio.NewReader(&file)
	for i, x := range want {
		got, err := tensor.Read(r, tensor.Limits{})
		if err != nil || !testkit.Same(got, x) {
			t.Fatalf("tensor %d: %v, %v", i, got, err)
		}
	}
	if _, err := r.Peek(1); err != io.EOF {
		t.Errorf("behind the last tensor: %v", err)
	}
	large, _ := tensor.Read(bufio.NewReader(bytes.NewReader(b)), tensor.Limits{Short: 100000*16*4 - 1})
	if large != nil {
		t.Errorf("a tensor of more bytes than the limit was read")
	}
	for cut := 1; cut < first; cut++ {
		if _, err := tensor.Read(bufio.NewReader(bytes.NewReader(b[:cut])), tensor.Limits{}); !errors.Is(err, fault.Corrupt) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d bytes: %v", cut, err)
		}
	}
	if _, _, err := tensor.DecodeStream(b, tensor.Limits{}); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a message with a tensor in short form: %v", err)
	}
}

func TestRowsInUse(t *testing.T) {
	for _, x := range someShort(t) {
		numbers, rows, err := tensor.RowsInUse(x)
		if len(x.Dims()) == 0 {
			if err == nil {
				t.Error("a number has rows")
			}
			continue
		}
		if err != nil || rows.Dims()[0] > 3 || int64(numbers.Len()) != rows.Dims()[0] {
			t.Fatalf("%v: %v, %v, %v", x.Dims(), numbers, rows, err)
		}
		whole, err := tensor.FromRows(numbers, rows, x.Dims()[0])
		if err != nil || !testkit.Same(whole, x) {
			t.Errorf("%v: %v, %v", x.Dims(), whole, err)
		}
		var stored bytes.Buffer
		if err := tensor.WriteElements(&stored, rows); err != nil {
			t.Fatal(err)
		}
		used := bytes.Repeat([]byte{1}, int(x.Bytes())) // of memory that was in use before
		into, err := tensor.ReadElements(bytes.NewReader(used), x.DType(), x.Dims()...)
		if err == nil {
			err = tensor.ReadRowsInto(&stored, into, numbers)
		}
		if err != nil || !testkit.Same(into, x) {
			t.Errorf("%v into memory: %v, %v", x.Dims(), into, err)
		}
	}
	rows := few[float32](t, 1, 3, 2)
	for _, numbers := range [][]int64{{0, 1}, {0, 1, 1}, {-1, 0, 1}, {0, 1, 9}} {
		v, _ := tensor.FromSlice(slices.Clone(numbers))
		if _, err := tensor.FromRows(v, rows, 9); err == nil || fault.KindOf(err) == fault.Internal {
			t.Errorf("rows %v of 9: %v", numbers, err)
		}
		into, _ := tensor.New(tensor.Float32, 9, 2)
		if err := tensor.ReadRowsInto(bytes.NewReader(make([]byte, 8)), into, v); !errors.Is(err, fault.Corrupt) {
			t.Errorf("rows %v of 9, of which one is there: %v", numbers, err)
		}
	}
}

func FuzzReadShort(f *testing.F) {
	for _, x := range someShort(f) {
		var b bytes.Buffer
		if err := tensor.WriteShort(&b, x); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := tensor.Read(bufio.NewReader(bytes.NewReader(b)), tensor.Limits{Bytes: 1 << 20, Short: 1 << 20})
		if err != nil {
			return
		}
		if x.Bytes() > 1<<20 {
			t.Fatalf("%v is larger than the limit", x)
		}
		if len(x.LoD()) > 0 {
			return
		}
		var again bytes.Buffer
		if err := tensor.WriteShort(&again, x); err != nil {
			t.Fatal(err)
		}
		if y, err := tensor.Read(bufio.NewReader(&again), tensor.Limits{}); err != nil || !testkit.Same(x, y) {
			t.Fatalf("%v, %v, want %v", y, err, x)
		}
	})
}
