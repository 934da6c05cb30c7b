package npz

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
	"github.com/sbinet/npyio/npy"
)

// An archive is read by another implementation of the format, and its arrays are aligned.
func TestAnotherReaderReadsTheArchive(t *testing.T) {
	wide, err := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	flat, err := tensor.FromSlice([]int64{-1, 1 << 40}, 2)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*tensor.Tensor{"fc_0.w_0": wide, "of/ids": flat}
	value := func(name string) (*tensor.Tensor, error) { return all[name], nil }
	var file, again bytes.Buffer
	if err := errors.Join(Write(&file, []string{"fc_0.w_0", "of/ids"}, value), Write(&again, []string{"fc_0.w_0", "of/ids"}, value)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file.Bytes(), again.Bytes()) {
		t.Error("equal tensors give other bytes")
	}
	archive, err := zip.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string, shape []int, into any) {
		t.Helper()
		entry, err := archive.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(entry)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.IndexByte(content, '\n') + 1; at%64 != 0 {
			t.Errorf("%s: elements begin at byte %d", name, at)
		}
		r, err := npy.NewReader(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Header.Descr.Shape, shape) || r.Header.Descr.Fortran || r.Header.Major != 1 {
			t.Errorf("%s: %+v", name, r.Header)
		}
		if err := r.Read(into); err != nil {
			t.Fatal(err)
		}
	}
	var floats []float32
	var ints []int64
	open("fc_0.w_0.npy", []int{2, 3}, &floats)
	open("of/ids.npy", []int{2}, &ints)
	if !slices.Equal(floats, wide.Float32s()) || !slices.Equal(ints, flat.Int64s()) {
		t.Error(floats, ints)
	}
	for _, f := range archive.File {
		if f.Method != zip.Store {
			t.Errorf("%s is compressed", f.Name)
		}
	}
}

// Names that an unpacker could take out of its folder, and types that NumPy does not have, are refused.
func TestWhatAnArchiveRefuses(t *testing.T) {
	one, err := tensor.FromSlice([]float32{1})
	if err != nil {
		t.Fatal(err)
	}
	brain, err := tensor.FromHalves(tensor.BFloat16, []uint16{1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "../x", "/x", `a\b`, "a/../../b"} {
		if err := Write(io.Discard, []string{name}, func(string) (*tensor.Tensor, error) { return one, nil }); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Write(io.Discard, []string{"x"}, func(string) (*tensor.Tensor, error) { return brain, nil }); !errors.Is(err, fault.Unsupported) {
		t.Errorf("bfloat16: %v", err)
	}
}

// A scalar and a vector have the shapes of Python's tuples.
func TestShapesAreTuples(t *testing.T) {
	for shape, dims := range map[string][]int64{"()": {}, "(3,)": {3}, "(2, 3)": {2, 3}} {
		v, err := tensor.New(tensor.Float32, dims...)
		if err != nil {
			t.Fatal(err)
		}
		head, err := header(v)
		if err != nil || !bytes.Contains(head, []byte("'shape': "+shape+", }")) || len(head)%64 != 0 {
			t.Errorf("%v: %q, %v", dims, head, err)
		}
	}
}
