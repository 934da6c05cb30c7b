package executor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/safetensors"
)

// namedFile writes a file with tensors of one number each.
func namedFile(t *testing.T, values map[string]float32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []safetensors.Tensor
	for name := range values {
		list = append(list, safetensors.Tensor{Name: name, DType: tensor.Float32, Dims: []int64{1}})
	}
	err = safetensors.Write(f, list, nil, func(name string) (*tensor.Tensor, error) { return tensor.FromSlice([]float32{values[name]}) })
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A file of named tensors is loaded by name, whatever else it has; names in it never become paths.
func TestNamedTensorsAreLoaded(t *testing.T) {
	p, _ := twoVariables(t, 0)
	path := namedFile(t, map[string]float32{"of/b": 2, "a": 1, "../up": 3, "b": 4})
	s := NewScope()
	if err := LoadParams(s, path, p); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"a": 1, "of/b": 2} {
		if v, ok := s.Find(name); !ok || v.Float32s()[0] != want {
			t.Errorf("%s = %v", name, v)
		}
	}
	if _, ok := s.Find("b"); ok {
		t.Error("a tensor that the program does not have was loaded")
	}
	values, err := readState(path, p, LoadOptions{})
	if err != nil || len(values) != 2 || values[0].name != "a" || values[1].name != "of/b" {
		t.Errorf("%v, %v", values, err)
	}
}

// What is missing or has another shape is an error, or is left out with partial. When loading fails, nothing has changed.
func TestNamedTensorsThatDoNotFit(t *testing.T) {
	p, _ := twoVariables(t, 0)
	missing := namedFile(t, map[string]float32{"a": 1})
	s := NewScope()
	if err := LoadParams(s, missing, p); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "of/b") || !strings.Contains(err.Error(), missing) {
		t.Errorf("%v", err)
	}
	if _, ok := s.Find("a"); ok {
		t.Error("a Load that fails has changed the scope")
	}
	other := program.New()
	other.Global().EnsureVar(program.Var{Name: "a", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{2}, Persistable: true})
	if err := LoadParams(s, missing, other); !errors.Is(err, fault.ShapeMismatch) {
		t.Errorf("%v", err)
	}
	for program, want := range map[*program.Program][]string{p: {"a"}, other: nil} {
		values, err := readState(missing, program, LoadOptions{Partial: true})
		var names []string
		for _, v := range values {
			names = append(names, v.name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("partial: %v, %v, want %v", names, err, want)
		}
	}
	if err := os.Truncate(missing, 70); err != nil {
		t.Fatal(err)
	}
	if err := LoadParams(s, missing, p); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a cut file: %v", err)
	}
}
