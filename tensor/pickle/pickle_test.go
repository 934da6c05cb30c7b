package pickle

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (map[string]*tensor.Tensor, error) {
	return Read(bytes.NewReader(b), int64(len(b)), Limits{})
}

func same(t *testing.T, file string, got map[string]*tensor.Tensor, want map[string]*tensor.Tensor) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d tensors, want %d: %v", file, len(got), len(want), got)
	}
	for name, w := range want {
		g := got[name]
		if g == nil {
			t.Errorf("%s: no %s", file, name)
		} else if !bytes.Equal(tensor.AppendStream(nil, g), tensor.AppendStream(nil, w)) {
			t.Errorf("%s: %s is %v, want %v", file, name, g, w)
		}
	}
}

func of[T tensor.Element](t *testing.T, data []T, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.FromSlice(data, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The files are those of CPython and NumPy: of fluid.save by each protocol and of Python 2, of a dictionary of layers with the names of their parameters, of an optimizer
// with a schedule, and of tensors that carry their names.
func TestFilesOfPython(t *testing.T) {
	count, err := of(t, []int64{1 << 40}).Reshape()
	if err != nil {
		t.Fatal(err)
	}
	w, b := of(t, []float32{0, 1, 2, 3, 4, 5}, 2, 3), of(t, []float32{-1.5}, 1)
	static := map[string]*tensor.Tensor{"fc_0.w_0": w, "fc_0.b_0": b, "count": count, "mask": of(t, []bool{true, false, true}, 3),
		"half": of(t, []float32{0.5, -2}, 2), "none": of(t, []int32{}, 0, 4)}
	layers := map[string]*tensor.Tensor{"linear_0.w_0": w, "linear_0.b_0": b}
	for file, want := range map[string]map[string]*tensor.Tensor{
		"static2.pdparams": static, "static3.pdparams": static, "static4.pdparams": static,
		"layers.pdparams": layers, "layers2.pdparams": layers,
		"python2.pdparams": {"fc_0.w_0": w, "fc_0.b_0": b},
		"adam.pdopt":       {"linear_0.w_0_moment1_0": w},
		"named.pdparams":   {"linear_0.w_0": w},
	} {
		got, err := read(load(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		same(t, file, got, want)
	}
}

// A file that calls a function of Python is refused by the name of the function, and so are opcodes that make other objects.
func TestNothingIsCalled(t *testing.T) {
	if _, err := read(load(t, "evil.pdparams")); !errors.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "system") {
		t.Error(err)
	}
	for _, body := range []string{"\x80\x02}c__builtin__\neval\n.", "\x80\x02ios\nsystem\n.", "\x80\x02Pid\n.", "\x80\x04\x82\x01."} {
		if _, err := read([]byte(body)); !errors.Is(err, fault.Unsupported) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// A file that is cut, or claims more than it has, is an error and allocates no more than it has.
func TestCutAndClaimed(t *testing.T) {
	for _, file := range []string{"static2.pdparams", "static4.pdparams", "layers2.pdparams"} {
		whole := load(t, file)
		for n := range whole {
			if _, err := read(whole[:n]); !errors.Is(err, fault.Corrupt) {
				t.Fatalf("%s cut at byte %d: %v", file, n, err)
			}
		}
		if _, err := read(append(bytes.Clone(whole), 0)); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s and a byte: %v", file, err)
		}
	}
	claims := []string{"\x80\x02X\xff\xff\xff\x7f.", "\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "\x80\x02)R.", "\x80\x02}u.", "\x80\x02}K\x01K\x02b.", "\x80\x02h\x07.", "\x80\x02((t."}
	for _, body := range claims {
		if _, err := read([]byte(body)); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%q: %v", body, err)
		}
	}
	many := append([]byte{0x80, 2}, bytes.Repeat([]byte("]"), 100)...)
	if _, err := Read(bytes.NewReader(many), 102, Limits{Values: 50}); !errors.Is(err, fault.TooLarge) {
		t.Error(err)
	}
}

// One text may not become bytes again and again, which would take the memory of many.
func TestATextBecomesBytesOnce(t *testing.T) {
	body := "\x80\x02X\x64\x00\x00\x00" + strings.Repeat("a", 100) + "q\x00"
	for range 3 {
		body += "c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R"
	}
	if _, err := read([]byte(body + ".")); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "again and again") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*.pd*")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		f.Add(load(f, filepath.Base(file)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := read(b)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.Unsupported && k != fault.TooLarge {
				t.Errorf("%v of kind %v", err, k)
			}
			return
		}
		for name, v := range all {
			if v == nil || name == "" {
				t.Errorf("%q is %v", name, v)
			}
		}
	})
}
