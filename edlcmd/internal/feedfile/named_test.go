package feedfile_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/edlcmd/internal/feedfile"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// An entry is one file of an archive.
type entry struct {
	name    string
	content []byte
}

func archive(t testing.TB, method uint16, entries ...entry) []byte {
	t.Helper()
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func int64s(values ...int64) []byte {
	var elements []byte
	for _, v := range values {
		elements = binary.LittleEndian.AppendUint64(elements, uint64(v))
	}
	return array("<i8", "False", fmt.Sprintf("(%d,)", len(values)), elements)
}

// declares has the variables words (int64, 2 LoD levels), and x (float32).
func declares(name string) (*program.Var, bool) {
	v, ok := map[string]*program.Var{
		"words": {Name: "words", DType: tensor.Int64, Dims: []int64{-1, 1}, LoDLevel: 2},
		"x":     {Name: "x", DType: tensor.Float32, Dims: []int64{-1, 2}},
	}[name]
	return v, ok
}

func TestAnArchiveFeedsWhatItNames(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		file := archive(t, method, entry{"words.npy", int64s(5, 6, 7, 8)}, entry{"words.lod0.npy", int64s(0, 1, 3)},
			entry{"words.lod1.npy", int64s(0, 2, 2, 4)}, entry{"x.npy", array("|u1", "False", "(2, 2)", []byte{1, 2, 3, 4})}, entry{"other.npy", int64s(1)})
		path := write(t, "all.npz", file)
		all, err := feedfile.ReadAll(path, declares, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		words, x := all["words"], all["x"]
		if len(all) != 2 || words == nil || x == nil {
			t.Fatalf("got %v", all)
		}
		if !slices.Equal(words.Int64s(), []int64{5, 6, 7, 8}) || !slices.Equal(words.Dims(), []int64{4, 1}) ||
			!reflect.DeepEqual(words.LoD(), [][]int64{{0, 1, 3}, {0, 2, 2, 4}}) {
			t.Errorf("words: %v %v", words, words.LoD())
		}
		if !slices.Equal(x.Float32s(), []float32{1, 2, 3, 4}) || x.LoD() != nil {
			t.Errorf("x: %v %v", x, x.LoD())
		}
		v, _ := declares("words")
		one, err := feedfile.Read(path, v, nil, nil)
		if err != nil || !reflect.DeepEqual(one.LoD(), words.LoD()) || !slices.Equal(one.Int64s(), words.Int64s()) {
			t.Errorf("words alone: %v, %v", one, err)
		}
	}
	only := write(t, "one.npz", archive(t, zip.Store, entry{"arr_0.npy", array("|u1", "False", "(1, 2)", []byte{3, 4})}))
	x, _ := declares("x")
	if got, err := feedfile.Read(only, x, nil, nil); err != nil || !slices.Equal(got.Float32s(), []float32{3, 4}) {
		t.Errorf("the only array: %v, %v", got, err)
	}
}

func TestArchivesThatLie(t *testing.T) {
	words := entry{"words.npy", int64s(5, 6)}
	cut := array("<i8", "False", "(999999,)", nil)
	for name, test := range map[string]struct {
		file []byte
		kind fault.Kind
		says string
	}{
		"no archive":      {[]byte("something else altogether"), fault.Corrupt, "no archive"},
		"no array":        {archive(t, zip.Store, entry{"words.txt", nil}), fault.Corrupt, "words.txt"},
		"twice":           {archive(t, zip.Store, words, words), fault.Corrupt, "each once"},
		"cut":             {archive(t, zip.Deflate, entry{"words.npy", cut}), fault.Corrupt, "words"},
		"level missing":   {archive(t, zip.Store, words, entry{"words.lod1.npy", int64s(0, 2)}), fault.Corrupt, "without level 0"},
		"offsets of rows": {archive(t, zip.Store, words, entry{"words.lod0.npy", int64s(0, 3)}), fault.ShapeMismatch, "ends at 3"},
		"matrix of offsets": {archive(t, zip.Store, words, entry{"words.lod0.npy", array("|u1", "False", "(1, 2)", []byte{0, 2})}), fault.ShapeMismatch,
			"words.lod0"},
		"nothing declared": {archive(t, zip.Store, entry{"y.npy", int64s(1)}), fault.NotFound, "values for y"},
	} {
		_, err := feedfile.ReadAll(write(t, "x.npz", test.file), declares, nil, nil)
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, test.kind, test.says)
		}
	}
}

func TestLinesFeedSequences(t *testing.T) {
	path := write(t, "x.jsonl", []byte(`{"words": [[5, 6], []], "x": [1, 2], "note": null}
{"x": [["NaN"], "-Infinity"], "words": []}

{"words": [[7]], "x": [3.5, 4e2]}`))
	all, err := feedfile.ReadAll(path, declares, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	words, x := all["words"], all["x"]
	if !slices.Equal(words.Int64s(), []int64{5, 6, 7}) || !slices.Equal(words.Dims(), []int64{3, 1}) ||
		!reflect.DeepEqual(words.LoD(), [][]int64{{0, 2, 2, 3}, {0, 2, 2, 3}}) {
		t.Errorf("words: %v %v", words, words.LoD())
	}
	if got := x.Float32s(); !slices.Equal(x.Dims(), []int64{3, 2}) || !math.IsNaN(float64(got[2])) || !math.IsInf(float64(got[3]), -1) ||
		!slices.Equal(got[4:], []float32{3.5, 400}) || x.LoD() != nil {
		t.Errorf("x: %v %v", x, got)
	}
}

func TestLinesThatAreWrong(t *testing.T) {
	for text, test := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"":                                     {fault.Corrupt, "no object"},
		"[1]":                                  {fault.Corrupt, "line 1: got a line with an array, want one object in each line"},
		"\"a\"":                                {fault.Corrupt, "got a line with a string, want"},
		"null":                                 {fault.Corrupt, "got a line that is no JSON object, want"},
		"{\"x\": [1,null]}":                    {fault.TypeMismatch, "got null"},
		"{\"x\": [1,2]} {}":                    {fault.Corrupt, "line 1"},
		"{\"x\": [1,2]}\n\n{\"y\": 1}":         {fault.NotFound, "line 3"},
		"{\"x\": [1,2,3]}":                     {fault.ShapeMismatch, "a row of 3 numbers"},
		"{\"x\": [1,\"two\"]}":                 {fault.TypeMismatch, `"two"`},
		"{\"x\": [1,1e60]}":                    {fault.TypeMismatch, "1e60"},
		"{\"x\": {\"a\": 1}}":                  {fault.TypeMismatch, "got an object"},
		"{\"words\": 5}":                       {fault.TypeMismatch, "2 LoD levels"},
		"{\"words\": [5]}":                     {fault.TypeMismatch, "2 LoD levels"},
		"{\"words\": [[5.5]]}":                 {fault.TypeMismatch, "5.5"},
		"{\"words\": [[9223372036854775808]]}": {fault.TypeMismatch, "whole number of 64 bits"},
		"{\"note\": 1}":                        {fault.NotFound, "values for note"},
		"{\"x\":\"" + strings.Repeat("a", 16<<20): {fault.TooLarge, "line 1"},
	} {
		_, err := feedfile.ReadAll(write(t, "x.jsonl", []byte(text)), declares, nil, nil)
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.60s: %v, want %v with %q", text, err, test.kind, test.says)
		}
	}
}

// Blocks of elements join without a seam, also where an element would lie across two of them.
func TestLargeArray(t *testing.T) {
	const n = 3<<17 + 5
	elements := make([]byte, 0, 8*n)
	for i := range uint64(n) {
		elements = binary.BigEndian.AppendUint64(elements, math.Float64bits(float64(i)))
	}
	got, err := feedfile.Read(write(t, "x.npy", array(">f8", "False", fmt.Sprintf("(%d,)", n), elements)), variable(tensor.Int32, -1, 1), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Int32s() {
		if v != int32(i) {
			t.Fatalf("element %d is %d", i, v)
		}
	}
	if !slices.Equal(got.Dims(), []int64{n, 1}) {
		t.Errorf("got %v", got)
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(archive(f, zip.Store, entry{"words.npy", int64s(5, 6)}, entry{"words.lod0.npy", int64s(0, 2)}))
	f.Add(archive(f, zip.Deflate, entry{"x.npy", array("|u1", "False", "(2, 2)", []byte{1, 2, 3, 4})}))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := feedfile.ReadAll(write(t, "x.npz", content), declares, nil, nil)
		for name, value := range all {
			if err := errors.Join(err, tensor.CheckLoD(value)); err != nil {
				t.Fatal(name, err)
			}
		}
	})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"words": [[5, 6], []], "x": [1, 2]}`))
	f.Add([]byte("{\"x\": [[1], \"NaN\"]}\n{\"x\": 1}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		all, err := feedfile.ReadAll(write(t, "x.jsonl", content), declares, nil, nil)
		for name, value := range all {
			if err := errors.Join(err, tensor.CheckLoD(value)); err != nil {
				t.Fatal(name, err)
			}
		}
	})
}

// Values take from the budget what they will have in memory, before it is allocated: an archive may unpack to much, and bytes become numbers of four bytes.
func TestValuesTakeFromTheBudget(t *testing.T) {
	pictures := array("|u1", "False", "(10, 100)", make([]byte, 1000))
	for path, bytes := range map[string]int64{
		write(t, "x.npy", pictures): 4000,
		write(t, "x.npz", archive(t, zip.Deflate, entry{"x.npy", pictures})):  4000,
		write(t, "x.csv", []byte(strings.Repeat("1,2\n", 500))):               16000,
		write(t, "x.jsonl", []byte(strings.Repeat("{\"x\": [1, 2]}\n", 100))): 11200,
	} {
		v := variable(tensor.Float32, -1)
		if strings.HasSuffix(path, ".csv") || strings.HasSuffix(path, ".jsonl") {
			v = variable(tensor.Float32, -1, 2)
		}
		if _, err := feedfile.Read(path, v, nil, tensor.NewBudget(bytes)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := feedfile.Read(path, v, nil, tensor.NewBudget(bytes-1)); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "\"x\"") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A byte that has changed is found by the checksum of its array, packed or not.
func TestArchiveWithAChangedByte(t *testing.T) {
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		for name, one := range map[string]entry{"x": {"x.npy", array("<f4", "False", "(2, 2)", []byte("0123456789abcdef"))}, "converted": {"x.npy", array("|u1", "False", "(8, 2)", []byte("89abcdef01234567"))}} {
			content := archive(t, method, one)
			at := bytes.Index(content, one.content[len(one.content)-16:])
			if at < 0 { // packed
				at = bytes.Index(content, []byte("x.npy")) + 60
			}
			content[at]++
			_, err := feedfile.Read(write(t, "x.npz", content), variable(tensor.Float32, -1, 2), nil, nil)
			if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("%s, method %d: %v", name, method, err)
			}
		}
	}
}

// Texts have a byte order mark before their first line, if the program that wrote them likes to.
func TestByteOrderMark(t *testing.T) {
	for name, text := range map[string]string{"x.csv": "1,2\n3,4\n", "x.jsonl": "{\"x\":[1,2]}\n{\"x\":[3,4]}\n"} {
		got, err := feedfile.Read(write(t, name, []byte("\ufeff"+text)), variable(tensor.Float32, -1, 2), nil, nil)
		if err != nil || !slices.Equal(got.Float32s(), []float32{1, 2, 3, 4}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
