package kserve

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// Skipping an array ends where encoding/json ends, and what has no end is refused.
func TestSkipArray(t *testing.T) {
	for _, text := range []string{"[]", "[[]]", "[1, 2,3]", "[[1,2],[3,4]] , 5", `["a]b", "]", "[", 1]`, `[["\\\"]"], [[]], "x"]]`, `["[[["]`,
		strings.Repeat("[", deepest) + strings.Repeat("]", deepest) + "]"} {
		s := &scanner{b: []byte(text)}
		got, err := s.skip()
		var want json.RawMessage
		if wrong := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&want); wrong != nil {
			t.Fatalf("%q is no JSON: %v", text, wrong)
		}
		if err != nil || string(got) != string(want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"[", "[1,2", "[[1]", `["]`, `["a]`, `[1, "x"`, strings.Repeat("[", deepest+1) + strings.Repeat("]", deepest+1)} {
		if _, err := (&scanner{b: []byte(text)}).skip(); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}

// Numbers have one value, however they are written and wherever white space is.
func TestReadNumbers(t *testing.T) {
	field := &serving.Field{Name: "x", DType: tensor.Float32, Dims: []int64{-1, 2}}
	want := []float32{1, -0.5, 0.1, 16777216, 1e-3, 2}
	for _, text := range []string{"[[1,-0.5],[0.1,16777217],[1e-3,2]]", "[1, -0.5, 0.1, 16777217, 1e-3, 2]", "[1 ,-0.5,  0.1,\n16777217.0,0.001\t, 2.0 ]",
		"[[[1],[-0.5]],[[0.10000000149011612, 16777217]],[[0.001, 2]]]"} {
		got, err := readData(&scanner{b: []byte(text)}, field, []int64{3, 2}, "")
		if err != nil || !slices.Equal(got.Float32s(), want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"[1,2,]", "[1,,2]", "[,1,2]", "[1,-]", "[1,.]", "[1,2", "[1 2]", "[1e999,2]", "[1,2]]x", "[1,true]"} {
		s := &scanner{b: []byte(text)}
		if got, err := readData(s, field, []int64{1, 2}, ""); err == nil && s.at == len(text) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// BenchmarkReadRequest reads a request of 784 numbers.
func BenchmarkReadRequest(b *testing.B) {
	schema := &serving.Schema{Inputs: []serving.Field{{Name: "x", DType: tensor.Float32, Dims: []int64{-1, 784}}}}
	numbers := make([]float32, 784)
	for i := range numbers {
		numbers[i] = float32(i*7919%1000) / 997
	}
	data, err := json.Marshal(numbers)
	if err != nil {
		b.Fatal(err)
	}
	body := []byte(`{"inputs":[{"name":"x","shape":[1,784],"datatype":"FP32","data":` + string(data) + "}]}")
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := readRequest(body, schema); err != nil {
			b.Fatal(err)
		}
	}
}
