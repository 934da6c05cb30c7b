package export_test

import (
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A table of bfloat16 leaves EDL as float32 where readers do not know bfloat16, with the same numbers, and as it is in a file of safetensors.
func TestExportOfATableOfBFloat16(t *testing.T) {
	m := layers.NewModel().Seed(3)
	id := layers.Data(m, "id", layers.Dims(1), layers.DType(tensor.Int64))
	rows := layers.Embedding(id, 30, 4, layers.Sparse(), layers.StoreBFloat16(), layers.Param(layers.ParamAttr{Name: "table"}))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	defer exe.Close()
	asked, err := tensor.FromSlice([]int64{3, 29, 3}, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	want, err := exe.Run(t.Context(), p, executor.Feed{"id": asked}, rows.Name())
	if err != nil || want[0].DType() != tensor.Float32 {
		t.Fatalf("%v, %v", want, err)
	}
	value := func(name string) (*tensor.Tensor, error) {
		if v, ok := exe.Scope().Find(name); ok {
			return v, nil
		}
		return nil, fault.E(fault.NotFound, fault.Var(name))
	}
	for format, c := range map[export.Format]struct {
		params string
		dtype  tensor.DType
	}{export.Fluid: {"", tensor.Float32}, export.Combined: {export.CombinedFile, tensor.Float32}, export.Safetensors: {export.SafetensorsFile, tensor.BFloat16},
		export.NPZ: {"", tensor.Float32}} {
		dir := filepath.Join(t.TempDir(), "served")
		inference, err := export.Program(p, nil, []string{rows.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := export.Write(dir, inference, format, value); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		loaded, err := program.Load(filepath.Join(dir, export.ModelFile), program.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := loaded.Global().Var("table"); v.DType != c.dtype {
			t.Errorf("%s: the table is of %v, want %v", format, v.DType, c.dtype)
		}
		if format == export.NPZ {
			continue // NumPy reads it
		}
		served := executor.New()
		if err := executor.LoadParams(served.Scope(), filepath.Join(dir, c.params), loaded); err != nil {
			t.Fatal(err)
		}
		got, err := served.Run(t.Context(), loaded, executor.Feed{"id": asked})
		if err != nil || !tensorsEqual(got[0], want[0]) {
			t.Errorf("%s: %v, %v, want %v", format, got, err, want[0])
		}
		served.Close()
	}
}

func tensorsEqual(a, b *tensor.Tensor) bool {
	return string(tensor.AppendStream(nil, a)) == string(tensor.AppendStream(nil, b))
}
