package feedfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npy"

	"github.com/edl-go/edl/edlcmd/internal/feedfile"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// array is a .npy file as NumPy writes it.
func array(descr, order, shape string, elements []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }", descr, order, shape)
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return append(append([]byte("\x93NUMPY\x01\x00\x76\x00"), header...), elements...)
}

func variable(dtype tensor.DType, dims ...int64) *program.Var {
	return &program.Var{Name: "x", DType: dtype, Dims: dims}
}

// The arrays are written by the library that reads them in other projects, too.
func TestArraysOfEveryType(t *testing.T) {
	for _, data := range []any{[]float32{1, 2, 3}, []float64{1, 2, 3}, []int32{1, 2, 3}, []int64{1, 2, 3}, []int8{1, 2, 3}, []uint8{1, 2, 3}} {
		var file bytes.Buffer
		if err := npy.Write(&file, data); err != nil {
			t.Fatal(err)
		}
		got, err := feedfile.Read(write(t, "x.npy", file.Bytes()), variable(tensor.Float32, -1))
		if err != nil {
			t.Errorf("%T: %v", data, err)
			continue
		}
		if !slices.Equal(got.Float32s(), []float32{1, 2, 3}) || !slices.Equal(got.Dims(), []int64{3}) {
			t.Errorf("%T: got %v %v", data, got, got.Float32s())
		}
	}
}

func TestShapeOfArray(t *testing.T) {
	for shape, dims := range map[string][]int64{"(2, 3)": {2, 3}, "(6,)": {6}, "(1, 2, 3, 1)": {1, 2, 3, 1}} {
		got, err := feedfile.Read(write(t, "x.npy", array("|u1", "False", shape, []byte("abcdef"))), variable(tensor.Int64, -1))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Dims(), dims) || got.Int64s()[5] != 'f' {
			t.Errorf("%s: got %v %v", shape, got, got.Int64s())
		}
	}
}

func TestRowsTakeTheDimsOfRecords(t *testing.T) {
	got, err := feedfile.Read(write(t, "x.csv", []byte("1, 2,3,4\n\n5,6,7,8\n")), variable(tensor.Float32, -1, 1, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Dims(), []int64{2, 1, 2, 2}) || !slices.Equal(got.Float32s(), []float32{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("got %v %v", got, got.Float32s())
	}
}

func TestNumbersKeepTheirValue(t *testing.T) {
	for text, want := range map[string]any{"3": int64(3), "-1e3": int64(-1000), "0.5": nil, "nan": nil, "1e30": nil} {
		got, err := feedfile.Read(write(t, "x.csv", []byte(text)), variable(tensor.Int64, -1, 1))
		if want == nil {
			if !errors.Is(err, fault.TypeMismatch) {
				t.Errorf("%s as int64: %v, %v", text, got, err)
			}
			continue
		}
		if err != nil || got.Int64s()[0] != want {
			t.Errorf("%s as int64: %v, %v", text, got, err)
		}
	}
	got, err := feedfile.Read(write(t, "x.csv", []byte("0.1,inf")), variable(tensor.Float32, -1, 2))
	if err != nil || got.Float32s()[0] != 0.1 || !math.IsInf(float64(got.Float32s()[1]), 1) {
		t.Errorf("floats are rounded to float32: %v, %v", got, err)
	}
}

func TestFilesThatLie(t *testing.T) {
	whole := array("<f4", "False", "(2, 1)", make([]byte, 8))
	for name, test := range map[string]struct {
		content []byte
		kind    fault.Kind
	}{
		"empty":            {nil, fault.Corrupt},
		"no signature":     {[]byte("something else altogether"), fault.Corrupt},
		"cut header":       {whole[:60], fault.Corrupt},
		"cut elements":     {whole[:len(whole)-1], fault.Corrupt},
		"more elements":    {append(slices.Clone(whole), 0), fault.Corrupt},
		"overflow":         {array("<f4", "False", "(99999999999, 99999999999)", nil), fault.Corrupt},
		"huge":             {array("<f8", "False", "(99999999999,)", nil), fault.Corrupt},
		"negative":         {array("<f4", "False", "(-1,)", nil), fault.Corrupt},
		"structure":        {array("<f4', 'x': '", "False", "(1,)", nil), fault.Corrupt},
		"objects":          {array("|O8", "False", "(1,)", make([]byte, 8)), fault.Corrupt},
		"complex":          {array("<c8", "False", "(1,)", make([]byte, 8)), fault.Unsupported},
		"columns first":    {array("<f4", "True", "(2, 1)", make([]byte, 8)), fault.Unsupported},
		"later version":    {append([]byte("\x93NUMPY\x03\x00"), whole[8:]...), fault.Unsupported},
		"header of 4 GiB":  {append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), whole[10:]...), fault.Corrupt},
		"header too short": {append([]byte("\x93NUMPY\x01\x00\x03\x00"), whole[10:]...), fault.Corrupt},
	} {
		_, err := feedfile.Read(write(t, "x.npy", test.content), variable(tensor.Float32, -1, 1))
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: %v, want %v", name, err, test.kind)
		}
	}
}

func FuzzArray(f *testing.F) {
	f.Add(array("<f4", "False", "(2, 1)", make([]byte, 8)))
	f.Add(array("|b1", "False", "()", []byte{1}))
	f.Add(array(">i8", "False", "(0, 3)", nil))
	f.Add([]byte("\x93NUMPY\x02\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := feedfile.Read(write(t, "x.npy", content), variable(tensor.Float64, -1))
		if (err == nil) != (got != nil) {
			t.Fatalf("got %v and %v", got, err)
		}
		if err == nil && got.Bytes() > 8*int64(len(content)) {
			t.Fatalf("%d bytes out of a file of %d", got.Bytes(), len(content))
		}
	})
}
