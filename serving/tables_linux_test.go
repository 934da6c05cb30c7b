package serving_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/internal/pages"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/serving"
	"github.com/edl-go/edl/tensor"
)

// mappedTables is how many files without a name in a directory this process has mapped.
func mappedTables(t *testing.T, dir string) int {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(maps), filepath.Join(dir, pages.FilePrefix))
}

// Parameters of each format that have so many bytes lie in files of the server, from which the system brings rows to memory; others lie in memory. Predictions are the same, also where there is no room for the files.
func TestLargeParametersLieInFiles(t *testing.T) {
	const rows, width = 1000, 16
	m := layers.NewModel().Seed(1)
	ids := layers.Data(m, "ids", layers.Dims(1), layers.DType(tensor.Int64))
	scores := layers.FC(layers.Embedding(ids, rows, width, layers.Param(layers.ParamAttr{Name: "table"})), 2)
	plain := t.TempDir()
	p := exported(t, plain, m, scores)
	asked := make([]int64, rows)
	for i := range asked {
		asked[i] = int64(i)
	}
	all, err := tensor.FromSlice(asked, rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]*tensor.Tensor{"ids": all}
	want := oracle(t, p, plain)(inputs)
	scope, err := export.LoadParams(plain, p, p)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) (*tensor.Tensor, error) { v, _ := scope.Find(name); return v, nil }
	for _, format := range []export.Format{export.Fluid, export.Combined, export.Safetensors} {
		dir, tables := t.TempDir(), t.TempDir()
		if _, err := export.Write(dir, p, format, value); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			tables string
			least  int64
			files  int
		}{{tables, rows * width * 4, 1}, {tables, rows*width*4 + 1, 0}, {filepath.Join(tables, "missing"), 1, 0}} {
			model, err := serving.Open(dir, serving.WithTables(c.tables, c.least))
			if err != nil {
				t.Fatal(err)
			}
			if n := mappedTables(t, tables); n != c.files {
				t.Errorf("%s, at least %d bytes: %d tables in files, want %d", format, c.least, n, c.files)
			}
			got, err := model.Predict(t.Context(), inputs)
			if err != nil {
				t.Fatal(err)
			}
			for name, w := range want {
				if !same(got[name], w) {
					t.Errorf("%s, at least %d bytes: other predictions", format, c.least)
				}
			}
			if err := model.Close(); err != nil {
				t.Error(err)
			}
			if n := mappedTables(t, tables); n != 0 {
				t.Errorf("%s: %d tables are mapped after the end", format, n)
			}
		}
	}
}
