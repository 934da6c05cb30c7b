package fileio_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	_ "github.com/edl-go/edl/ops/fileio"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestSavedIsLoaded(t *testing.T) {
	for _, c := range []struct {
		save, load string
		variables  []string
	}{
		{"save", "load", []string{"w"}},
		{"save_combine", "load_combine", []string{"b", "w", "z"}},
	} {
		s := &shelf{files: map[string][]*tensor.Tensor{}}
		env := &ops.Env{Storage: s}
		run := func(op *program.Op, tensors ...*tensor.Tensor) {
			t.Helper()
			if _, err := infer(op, program.LoDTensor); err != nil {
				t.Fatal(err)
			}
			kernel, err := bind(op, env, tensors...)
			if err != nil {
				t.Fatal(err)
			}
			if err := kernel(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var values, loaded []*tensor.Tensor
		for i := range c.variables {
			values, loaded = append(values, vector(float32(i)+1, -1)), append(loaded, vector(0, 0))
		}
		run(op(c.save, attrs{"file_path": "model/params"}, c.variables...), values...)
		run(op(c.load, attrs{"file_path": "model/params"}, c.variables...), loaded...)
		run(op(c.save, attrs{"file_path": "once", "overwrite": false}, c.variables...), values...)
		for i := range values {
			if !slices.Equal(loaded[i].Float32s(), values[i].Float32s()) {
				t.Errorf("%s of %v loads %v", c.save, values[i].Float32s(), loaded[i].Float32s())
			}
		}
		if want := []string{"save model/params true", "load model/params", "save once false"}; !slices.Equal(s.calls, want) {
			t.Errorf("storage saw %v, want %v", s.calls, want)
		}
	}
}

func TestErrorsOfStorageEndTheOp(t *testing.T) {
	env := &ops.Env{Storage: &shelf{files: map[string][]*tensor.Tensor{}}}
	for _, o := range []*program.Op{op("save", attrs{"file_path": "full"}, "w"), op("load", attrs{"file_path": "nowhere"}, "w")} {
		kernel, err := bind(o, env, vector(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := kernel(t.Context()); !errors.Is(err, errDisk) {
			t.Errorf("%s: %v", o.Type, err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, opType := range []string{"save", "load", "save_combine", "load_combine"} {
		for name, c := range map[string]struct {
			attrs attrs
			kind  fault.Kind
		}{
			"no path":      {nil, fault.InvalidProgram},
			"empty path":   {attrs{"file_path": ""}, fault.InvalidArgument},
			"path of ints": {attrs{"file_path": []int32{1}}, fault.TypeMismatch},
			"halves":       {attrs{"file_path": "f", "save_as_fp16": true, "load_as_fp16": true}, fault.Unsupported},
		} {
			if _, err := infer(op(opType, c.attrs, "w"), program.LoDTensor); !errors.Is(err, c.kind) {
				t.Errorf("%s with %s: %v, want %v", opType, name, err, c.kind)
			}
		}
		good := op(opType, attrs{"file_path": "f"}, "w")
		for _, env := range []*ops.Env{nil, {}} {
			if _, err := bind(good, env, vector(1)); !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("%s binds without storage: %v", opType, err)
			}
		}
		if _, err := bind(good, &ops.Env{Storage: &shelf{}}, nil); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%s binds a variable without a value: %v", opType, err)
		}
		_, err := infer(good, program.SelectedRows)
		if saves := strings.HasPrefix(opType, "save"); errors.Is(err, fault.Unsupported) != saves {
			t.Errorf("%s of selected rows: %v", opType, err)
		}
	}
	for _, opType := range []string{"save", "load"} {
		if _, err := infer(op(opType, attrs{"file_path": "f"}, "v", "w"), program.LoDTensor); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%s of two variables: %v", opType, err)
		}
	}
}

func TestLoadLeavesTheDeclarationAsItIs(t *testing.T) {
	s, err := infer(op("load_combine", attrs{"file_path": "f"}, "v", "w"), program.LoDTensor)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range s.Outs("Out") {
		if m.Kind != 0 {
			t.Errorf("output %d is inferred as %v", i, m)
		}
	}
}
