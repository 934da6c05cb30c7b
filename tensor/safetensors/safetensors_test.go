package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

// values returns tensors of all types that a Tensor computes with, by name.
func values(t testing.TB) map[string]*tensor.Tensor {
	t.Helper()
	must := func(v *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	return map[string]*tensor.Tensor{
		"flags":         must(tensor.FromSlice([]bool{true, false, true}, 3)),
		"a \"name\" é/": must(tensor.FromSlice([]float32{1, -2, 0.5}, 3)),
		"ids":           must(tensor.FromSlice([]int64{1 << 40, -1}, 1, 2)),
		"small":         must(tensor.FromSlice([]int32{7})),
		"wide":          must(tensor.FromSlice([]float64{1e300, 2, 3, 4}, 2, 2)),
		"none":          must(tensor.FromSlice([]float32{}, 0, 5)),
	}
}

func written(t testing.TB, all map[string]*tensor.Tensor, order []string) []byte {
	t.Helper()
	var list []Tensor
	for _, name := range order {
		list = append(list, Tensor{name, all[name].DType(), all[name].Dims()})
	}
	var b bytes.Buffer
	err := Write(&b, list, map[string]string{"format": "pt"}, func(name string) (*tensor.Tensor, error) { return all[name], nil })
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read reads a file whole.
func read(b []byte, limits Limits) (map[string]*tensor.Tensor, *File, error) {
	r := bytes.NewReader(b)
	f, err := Open(r, limits)
	if err != nil {
		return nil, nil, err
	}
	all := map[string]*tensor.Tensor{}
	for {
		name, t, err := f.Next()
		if err == io.EOF {
			return all, f, nil
		}
		if err != nil {
			return nil, nil, err
		}
		all[name] = t
	}
}

// The bytes do not depend on the order in which tensors are given, and each tensor begins at a multiple of its element size.
func TestWhatIsWrittenIsRead(t *testing.T) {
	all := values(t)
	names := []string{"wide", "flags", "none", "small", "ids", "a \"name\" é/"}
	file := written(t, all, names)
	slices.Reverse(names)
	if again := written(t, all, names); !bytes.Equal(file, again) {
		t.Error("another order gives other bytes")
	}
	head := binary.LittleEndian.Uint64(file)
	if head%8 != 0 {
		t.Errorf("a header of %d bytes", head)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(file[8:8+head], &entries); err != nil {
		t.Fatal(err)
	}
	for name, v := range all {
		var e entry
		if err := json.Unmarshal(entries[name], &e); err != nil || e.Offsets[0]%int64(v.DType().Size()) != 0 {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	got, f, err := read(file, Limits{})
	if err != nil || len(got) != len(all) || f.Metadata["format"] != "pt" {
		t.Fatalf("%d tensors, %v, %v", len(got), f, err)
	}
	for name, want := range all {
		if !bytes.Equal(tensor.AppendStream(nil, got[name]), tensor.AppendStream(nil, want)) {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}

// The bytes of a file as the format describes it, made by hand.
func TestTheLayout(t *testing.T) {
	b, err := tensor.FromSlice([]float32{1, 2}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := Write(&file, []Tensor{{"bb", tensor.Float32, []int64{2, 1}}}, nil, func(string) (*tensor.Tensor, error) { return b, nil }); err != nil {
		t.Fatal(err)
	}
	want := "\x40\x00\x00\x00\x00\x00\x00\x00" + `{"bb":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]}}` + strings.Repeat(" ", 7) + "\x00\x00\x80\x3f\x00\x00\x00\x40"
	if file.String() != want {
		t.Errorf("%q, want %q", file.String(), want)
	}
}

// fileOf puts a header before data.
func fileOf(header, data string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+data...)
}

func TestWrongFilesAreRefused(t *testing.T) {
	one := `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":             {nil, fault.Corrupt},
		"a cut length":        {[]byte{1, 0, 0}, fault.Corrupt},
		"a false length":      {binary.LittleEndian.AppendUint64(nil, 1<<62), fault.TooLarge},
		"a cut header":        {fileOf(one, "")[:20], fault.Corrupt},
		"no object":           {fileOf(`[]`, ""), fault.Corrupt},
		"no JSON":             {fileOf(`{"a"`, ""), fault.Corrupt},
		"an empty header":     {fileOf("", ""), fault.Corrupt},
		"blanks first":        {fileOf(" "+one, "abcd"), fault.Corrupt},
		"text behind":         {fileOf(one+"x", "abcd"), fault.Corrupt},
		"two objects":         {fileOf(one+"{}", "abcd"), fault.Corrupt},
		"a name twice":        {fileOf(one[:len(one)-1]+","+one[1:], "abcd"), fault.Corrupt},
		"too little data":     {fileOf(one, "abc"), fault.Corrupt},
		"too much data":       {fileOf(one, "abcde"), fault.Corrupt},
		"no data":             {fileOf(one, ""), fault.Corrupt},
		"a gap":               {fileOf(strings.Replace(one, "[0,4]", "[4,8]", 1), "abcdefgh"), fault.Corrupt},
		"an overlap":          {fileOf(one[:len(one)-1]+`,"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "abcd"), fault.Corrupt},
		"other bytes":         {fileOf(strings.Replace(one, "[0,4]", "[0,8]", 1), "abcdefgh"), fault.Corrupt},
		"negative offsets":    {fileOf(strings.Replace(one, "[0,4]", "[-4,0]", 1), ""), fault.Corrupt},
		"turned offsets":      {fileOf(strings.Replace(one, "[0,4]", "[4,0]", 1), ""), fault.Corrupt},
		"no offsets":          {fileOf(`{"a":{"dtype":"F32","shape":[1]}}`, "abcd"), fault.Corrupt},
		"three offsets":       {fileOf(strings.Replace(one, "[0,4]", "[0,4,4]", 1), "abcd"), fault.Corrupt},
		"an unknown type":     {fileOf(strings.Replace(one, "F32", "F8_E4M3", 1), "abcd"), fault.Unsupported},
		"a type without room": {fileOf(strings.Replace(one, "F32", "U8", 1), "abcd"), fault.Corrupt},
		"negative dims":       {fileOf(strings.Replace(one, "[1]", "[-1]", 1), "abcd"), fault.TooLarge},
		"dims that overflow":  {fileOf(strings.Replace(one, "[1]", "[4611686018427387904,4]", 1), "abcd"), fault.TooLarge},
		"a large tensor":      {fileOf(strings.Replace(strings.Replace(one, "[1]", "[1000]", 1), "[0,4]", "[0,4000]", 1), ""), fault.TooLarge},
		"many dims":           {fileOf(strings.Replace(one, "[1]", "["+strings.Repeat("1,", 16)+"1]", 1), "abcd"), fault.TooLarge},
		"many tensors":        {fileOf(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"c":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""), fault.TooLarge},
		"a bool of 2":         {fileOf(`{"a":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}}`, "\x02"), fault.Corrupt},
		"metadata of numbers": {fileOf(`{"__metadata__":{"a":1}}`, ""), fault.Corrupt},
	} {
		if _, _, err := read(c.file, Limits{Bytes: 100, Tensors: 2}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, _, err := read(fileOf("{}", ""), Limits{}); err != nil {
		t.Errorf("a file without tensors: %v", err)
	}
}

func TestMistakesOfAWriter(t *testing.T) {
	one, err := tensor.FromSlice([]float32{1})
	if err != nil {
		t.Fatal(err)
	}
	value := func(string) (*tensor.Tensor, error) { return one, nil }
	for name, c := range map[string]struct {
		list []Tensor
		want error
	}{
		"a name twice":     {[]Tensor{{"a", tensor.Float32, []int64{1}}, {"a", tensor.Float32, []int64{1}}}, fault.InvalidArgument},
		"a reserved name":  {[]Tensor{{metadataKey, tensor.Float32, []int64{1}}}, fault.InvalidArgument},
		"no UTF-8":         {[]Tensor{{"\xff", tensor.Float32, []int64{1}}}, fault.InvalidArgument},
		"unknown dims":     {[]Tensor{{"a", tensor.Float32, []int64{-1}}}, fault.TooLarge},
		"another type":     {[]Tensor{{"a", tensor.Float64, []int64{1}}}, fault.ShapeMismatch},
		"an unknown dtype": {[]Tensor{{"a", tensor.DType(99), []int64{1}}}, fault.Unsupported},
	} {
		if err := Write(io.Discard, c.list, nil, value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// Whatever the bytes are, reading ends, and what is read can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add(written(f, values(f), []string{"flags", "ids", "wide"}))
	f.Add(fileOf(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "abcd"))
	f.Add(fileOf(`{"__metadata__":{"a":"b"},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}  `, "abcdefgh"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, _, err := read(b, Limits{Bytes: 1 << 20, Header: 1 << 16})
		if err != nil {
			if fault.KindOf(err) == fault.Internal {
				t.Fatalf("an error without a kind: %v", err)
			}
			return
		}
		var names []string
		for name := range all {
			if name == metadataKey || strings.ToValidUTF8(name, "") != name {
				return
			}
			names = append(names, name)
		}
		again, _, err := read(written(t, all, names), Limits{})
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d of %d tensors, %v", len(again), len(all), err)
		}
		for name := range all {
			if !bytes.Equal(tensor.AppendStream(nil, again[name]), tensor.AppendStream(nil, all[name])) {
				t.Fatalf("%q has changed", name)
			}
		}
	})
}
