package feedfile_test

import (
	"bytes"
	"encoding/binary"
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
		got, err := feedfile.Read(write(t, "x.npy", file.Bytes()), variable(tensor.Float32, -1), nil, nil)
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
		got, err := feedfile.Read(write(t, "x.npy", array("|u1", "False", shape, []byte("abcdef"))), variable(tensor.Int64, -1), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Dims(), dims) || got.Int64s()[5] != 'f' {
			t.Errorf("%s: got %v %v", shape, got, got.Int64s())
		}
	}
}

func TestRowsTakeTheDimsOfRecords(t *testing.T) {
	got, err := feedfile.Read(write(t, "x.csv", []byte("1, 2,3,4\n\n5,6,7,8\n")), variable(tensor.Float32, -1, 1, 2, 2), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Dims(), []int64{2, 1, 2, 2}) || !slices.Equal(got.Float32s(), []float32{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("got %v %v", got, got.Float32s())
	}
	pictures := make([]byte, 3*4*4) // 3 of 2x2 pixels
	for name, c := range map[string]struct {
		shape    string
		declared []int64
		want     []int64
	}{
		"without a channel":    {"(3, 2, 2)", []int64{-1, 1, 2, 2}, []int64{3, 1, 2, 2}},
		"as vectors":           {"(3, 1, 2, 2)", []int64{-1, 4}, []int64{3, 4}},
		"of one picture":       {"(1, 12)", []int64{-1, 3, 2, 2}, []int64{1, 3, 2, 2}},
		"of other numbers":     {"(3, 2, 2)", []int64{-1, 1, 4, 4}, []int64{3, 2, 2}},
		"of the declared rank": {"(3, 2, 2)", []int64{-1, 4, 1}, []int64{3, 2, 2}},
		"of open dims":         {"(3, 4)", []int64{-1, 1, -1, -1}, []int64{3, 4}},
	} {
		got, err := feedfile.Read(write(t, "x.npy", array("<f4", "False", c.shape, pictures)), variable(tensor.Float32, c.declared...), nil, nil)
		if err != nil || !slices.Equal(got.Dims(), c.want) {
			t.Errorf("rows %s: %v, %v, want dims %v", name, got, err, c.want)
		}
	}
}

// Integers lose no digit on the way, whatever the file: a float64 has 53 bits.
func TestNumbersKeepTheirValue(t *testing.T) {
	for text, want := range map[string]any{
		"3": int64(3), "-1e3": int64(-1000), "2.0": int64(2), "-2897116770142947272": int64(-2897116770142947272), "9007199254740993": int64(1<<53 + 1),
		"9223372036854775807": int64(math.MaxInt64), "-9223372036854775808": int64(math.MinInt64),
		"0.5": nil, "1e-3": nil, "1e30": nil, "9223372036854775808": nil, "18446744073709551615": nil, "-9223372036854775809": nil, "9007199254740993.5": nil,
	} {
		for _, path := range []string{write(t, "x.csv", []byte(text)), write(t, "x.jsonl", []byte(`{"x": `+text+`}`))} {
			got, err := feedfile.Read(path, variable(tensor.Int64, -1, 1), nil, nil)
			if want == nil {
				if !errors.Is(err, fault.TypeMismatch) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "whole number") {
					t.Errorf("%s as int64 from %s: %v, %v", text, path, got, err)
				}
				continue
			}
			if err != nil || got.Int64s()[0] != want {
				t.Errorf("%s as int64 from %s: %v, %v", text, path, got, err)
			}
		}
	}
	for text, test := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"nan": {fault.TypeMismatch, "row 1"}, "1,2\n3,inf": {fault.TypeMismatch, "row 2"}, "1,2147483648": {fault.TypeMismatch, "fits in int32"}, "1\nx": {fault.Corrupt, "row 2"},
		"0x10": {fault.Corrupt, "a number"}, "1,": {fault.Corrupt, "a number"},
	} {
		if got, err := feedfile.Read(write(t, "x.csv", []byte(text)), variable(tensor.Int32, -1, 1), nil, nil); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q as int32: %v, %v", text, got, err)
		}
	}
	if got, err := feedfile.Read(write(t, "x.csv", []byte("true")), variable(tensor.Bool, -1, 1), nil, nil); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("a table as bool: %v, %v", got, err)
	}
	got, err := feedfile.Read(write(t, "x.csv", []byte("0.1,inf")), variable(tensor.Float32, -1, 2), nil, nil)
	if err != nil || got.Float32s()[0] != 0.1 || !math.IsInf(float64(got.Float32s()[1]), 1) {
		t.Errorf("floats are rounded to float32: %v, %v", got, err)
	}
	if got, err := feedfile.Read(write(t, "x.csv", []byte("1e60")), variable(tensor.Float32, -1, 1), nil, nil); !errors.Is(err, fault.TypeMismatch) {
		t.Errorf("1e60 as float32: %v, %v", got, err)
	}
	// 1 + 2^-24 + 2^-60 lies just above the middle of two float32; rounded to float64 first, it would lie in the middle, and go down.
	got, err = feedfile.Read(write(t, "x.csv", []byte("1.00000005960464477626")), variable(tensor.Float32, -1, 1), nil, nil)
	if err != nil || got.Float32s()[0] != 1+1.0/(1<<23) {
		t.Errorf("rounded twice: %v, %v", got, err)
	}
}

// What an array of another type cannot hold exactly is refused, at the edges, too.
func TestArraysAtTheEdges(t *testing.T) {
	float64s := func(v float64) []byte {
		return array("<f8", "False", "(1,)", binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)))
	}
	for name, test := range map[string]struct {
		file  []byte
		dtype tensor.DType
		fits  bool
	}{
		"2^62 as int64":             {float64s(1 << 62), tensor.Int64, true},
		"-2^63 as int64":            {float64s(-1 << 63), tensor.Int64, true},
		"2^63 as int64":             {float64s(1 << 63), tensor.Int64, false},
		"1.5 as int64":              {float64s(1.5), tensor.Int64, false},
		"NaN as int64":              {float64s(math.NaN()), tensor.Int64, false},
		"2^53 as float64":           {int64s(1 << 53), tensor.Float64, true},
		"2^53+1 as float64":         {int64s(1<<53 + 1), tensor.Float64, false},
		"the largest as float64":    {int64s(math.MaxInt64), tensor.Float64, false},
		"2^24+1 as float32":         {int64s(1<<24 + 1), tensor.Float32, false},
		"2^31 as int32":             {int64s(1 << 31), tensor.Int32, false},
		"0.1 as float32":            {float64s(0.1), tensor.Float32, true},
		"infinity as float32":       {float64s(math.Inf(1)), tensor.Float32, true},
		"1e60 as float32":           {float64s(1e60), tensor.Float32, false},
		"NaN as float32":            {float64s(math.NaN()), tensor.Float32, true},
		"unsigned 64 bits as int64": {array("<u8", "False", "(1,)", make([]byte, 8)), tensor.Int64, false},
	} {
		_, err := feedfile.Read(write(t, "x.npy", test.file), variable(test.dtype, -1), nil, nil)
		if test.fits != (err == nil) {
			t.Errorf("%s: %v", name, err)
		}
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
		"objects":          {array("|O8", "False", "(1,)", make([]byte, 8)), fault.Unsupported},
		"complex":          {array("<c8", "False", "(1,)", make([]byte, 8)), fault.Unsupported},
		"columns first":    {array("<f4", "True", "(2, 1)", make([]byte, 8)), fault.Unsupported},
		"later version":    {append([]byte("\x93NUMPY\x03\x00"), whole[8:]...), fault.Unsupported},
		"header of 4 GiB":  {append([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), whole[10:]...), fault.Corrupt},
		"header too short": {append([]byte("\x93NUMPY\x01\x00\x03\x00"), whole[10:]...), fault.Corrupt},
	} {
		_, err := feedfile.Read(write(t, "x.npy", test.content), variable(tensor.Float32, -1, 1), nil, nil)
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
		got, err := feedfile.Read(write(t, "x.npy", content), variable(tensor.Float64, -1), nil, nil)
		if (err == nil) != (got != nil) {
			t.Fatalf("got %v and %v", got, err)
		}
		if err == nil && got.Bytes() > 8*int64(len(content)) {
			t.Fatalf("%d bytes out of a file of %d", got.Bytes(), len(content))
		}
	})
}
