package npz

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func every(string) bool { return true }

// What Write has written is read, also where a packer has compressed it, and only what is wanted.
func TestWhatIsWrittenIsRead(t *testing.T) {
	w, err := tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	var plain bytes.Buffer
	if err := Write(&plain, []string{"a/w", "b"}, func(string) (*tensor.Tensor, error) { return w, nil }); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(plain.Bytes()), int64(plain.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	to := zip.NewWriter(&packed)
	for _, f := range archive.File {
		from, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		into, err := to.Create(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(into, from); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{plain.Bytes(), packed.Bytes()} {
		got, err := Read(bytes.NewReader(b), int64(len(b)), Limits{}, func(name string) bool { return name == "a/w" })
		if err != nil || len(got) != 1 || !bytes.Equal(tensor.AppendStream(nil, got["a/w"]), tensor.AppendStream(nil, w)) {
			t.Error(got, err)
		}
		for _, limits := range []Limits{{Arrays: 1}, {Bytes: 100}} {
			if _, err := Read(bytes.NewReader(b), int64(len(b)), limits, every); !errors.Is(err, fault.TooLarge) {
				t.Errorf("%+v: %v", limits, err)
			}
		}
	}
}

// Archives that are cut, and arrays that claim more than they have or are of a form that tensors do not have, are refused.
func TestWhatReadRefuses(t *testing.T) {
	of := func(name, body string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		into, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(into, body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	array := func(head, data string) string {
		return "\x93NUMPY\x01\x00" + string(rune(len(head)+1)) + "\x00" + head + "\n" + data
	}
	good := of("w.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234"))
	if _, err := Read(bytes.NewReader(good), int64(len(good)), Limits{}, every); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		b    []byte
		kind fault.Kind
	}{
		{good[:len(good)-1], fault.Corrupt},
		{of("w.txt", "x"), fault.Corrupt},
		{of("w.npy", "x"), fault.Corrupt},
		{of("w.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999,), }", "1234")), fault.Corrupt},
		{of("w.npy", array("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345")), fault.Corrupt},
		{of("w.npy", array("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234")), fault.Unsupported},
		{of("w.npy", array("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Unsupported},
		{of("w.npy", array("{'descr': '|S4', 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Unsupported},
		{of("w.npy", array("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Unsupported},
		{of("w.npy", array("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }", "12345678")), fault.Unsupported},
		{of("w.npy", array("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Unsupported},
		{of("w.npy", array("{'descr': '', 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Corrupt},
		{of("w.npy", array("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234")), fault.Unsupported},
	} {
		if _, err := Read(bytes.NewReader(c.b), int64(len(c.b)), Limits{}, every); !errors.Is(err, c.kind) {
			t.Errorf("%q: %v, want %v", c.b, err, c.kind)
		}
	}
}
