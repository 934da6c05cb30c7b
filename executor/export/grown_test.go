package export_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// bytesIn is how many bytes the files of a directory have.
func bytesIn(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

// An exported model with a table that grows has the rows that were trained. A key that has none, because it was never trained or not often enough, reads as its
// initial value, and the key -1 as zeros.
func TestAnExportedTableKnowsItsKeys(t *testing.T) {
	checkExportedTable(t)
}

func TestAnExportedTableOfBFloat16KnowsItsKeys(t *testing.T) {
	checkExportedTable(t, layers.StoreBFloat16())
}

// checkExportedTable trains a table that grows, exports it in each format, and looks keys up.
func checkExportedTable(t *testing.T, options ...layers.Option) {
	m := layers.NewModel().Seed(3)
	key := layers.Data(m, "key", layers.Dims(1), layers.DType(tensor.Int64))
	y := layers.Data(m, "y", layers.Dims(2))
	stored := len(options) > 0 // as bfloat16
	options = append(options, layers.Param(layers.ParamAttr{Name: "table", Initializer: layers.Uniform(3, 4)}), layers.CountFilterEntry(2), layers.EvictUnseen(50))
	rows := layers.SparseEmbedding(key, 1000, 2, options...)
	optimizer.Adagrad(0.1).Minimize(layers.Mean(layers.SquareErrorCost(rows, y)))
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	defer exe.Close()
	ids := func(list ...int64) *tensor.Tensor {
		v, err := tensor.FromSlice(list, int64(len(list)), 1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	defer func() { // the state that Save has written, too
		saved := filepath.Join(t.TempDir(), "saved")
		if err := exe.Save(t.Context(), saved, p); err != nil {
			t.Fatal(err)
		}
		if used := bytesIn(t, saved); used > 2500 {
			t.Errorf("%d bytes for the two rows in use of 1024, and the candidate", used)
		}
		again := executor.New()
		defer again.Close()
		if _, err := again.Load(t.Context(), saved, p, executor.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		for step := range uint32(3) { // it goes on as if nothing had happened, with keys that it has and new ones
			feed := executor.Feed{"key": ids(12, 77+int64(step/2)), "y": random(t, 9+step, 2, 2)}
			for _, e := range []*executor.Local{exe, again} {
				if _, err := e.Run(t.Context(), p, feed); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, name := range executor.Persistables(p) {
			want, _ := exe.Scope().Find(name)
			if got, ok := again.Scope().Find(name); !ok || !testkit.Same(got, want) {
				t.Errorf("%s differs after Save, Load and three steps", name)
			}
		}
	}()
	const often, twice, once, never = 1 << 50, -7, 12, 13
	for step, batch := range []*tensor.Tensor{ids(often, twice), ids(often, once), ids(often, twice), ids(often, often)} {
		if _, err := exe.Run(t.Context(), p, executor.Feed{"key": batch, "y": random(t, uint32(step), 2, 2)}); err != nil {
			t.Fatal(err)
		}
	}
	asked := ids(often, never, twice, kernel.NoKey, once)
	test, err := p.CloneForTest().Prune(rows.Name())
	if err != nil {
		t.Fatal(err)
	}
	want, err := exe.Run(t.Context(), test, executor.Feed{"key": asked}, rows.Name())
	if err != nil {
		t.Fatal(err)
	}
	initial := kernel.InitialRow{Seed: 3, Table: kernel.StreamOf("table"), Low: 3, High: 4}
	for i, id := range asked.Int64s() {
		var first [2]float32
		if initial.Fill(first[:], kernel.MixKey(id)); id == kernel.NoKey {
			first = [2]float32{}
		}
		if stored {
			kernel.NarrowInPlace(first[:])
		}
		untrained := slices.Equal(want[0].Float32s()[2*i:][:2], first[:])
		if untrained != (id == never || id == once || id == kernel.NoKey) {
			t.Errorf("key %d reads as %v, at first as %v", id, want[0].Float32s()[2*i:][:2], first)
		}
	}
	value := func(name string) (*tensor.Tensor, error) {
		if v, ok := exe.Scope().Find(name); ok {
			return v, nil
		}
		return nil, fault.E(fault.NotFound, fault.Var(name))
	}
	for _, format := range []export.Format{export.Fluid, export.Combined, export.Safetensors} {
		dir := filepath.Join(t.TempDir(), "served")
		inference, err := export.Program(p, nil, []string{rows.Name()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := export.Write(dir, inference, format, value); err != nil {
			t.Fatal(err)
		}
		loaded, err := program.Load(filepath.Join(dir, export.ModelFile), program.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		if got := executor.Persistables(loaded); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"table", "table.index", "table.keys"}) {
			t.Errorf("%s: the variables %v", format, got)
		}
		_, err = export.Write(filepath.Join(t.TempDir(), "npz"), inference, export.NPZ, value)
		if stored != errors.Is(err, fault.Unsupported) || !stored && err != nil { // NumPy has no bfloat16
			t.Errorf("npz: %v", err)
		}
		if used := bytesIn(t, dir); used > 6000 {
			t.Errorf("%s: %d bytes for the two rows in use of 1024, and the program", format, used)
		}
		params := map[export.Format]string{export.Fluid: "", export.Combined: export.CombinedFile, export.Safetensors: export.SafetensorsFile}[format]
		var placed []string
		for _, place := range []executor.Place{nil, func(name string, dtype tensor.DType, dims []int64, _ int64) (*tensor.Tensor, error) {
			placed = append(placed, name)
			return filledWithOnes(dtype, dims)
		}} {
			served := executor.New()
			if err := executor.FilesInto(place).LoadParams(served.Scope(), filepath.Join(dir, params), loaded); err != nil {
				t.Fatal(err)
			}
			got, err := served.Run(t.Context(), loaded, executor.Feed{"key": asked})
			if err != nil || !slices.Equal(got[0].Float32s(), want[0].Float32s()) {
				t.Errorf("%s: %v, %v, want %v", format, got, err, want[0].Float32s())
			}
			served.Close()
		}
		if !slices.Contains(placed, "table") {
			t.Errorf("%s: places for %v", format, placed)
		}
	}
}

// filledWithOnes is memory that was in use before: no byte of it is 0.
func filledWithOnes(dtype tensor.DType, dims []int64) (*tensor.Tensor, error) {
	n, _ := tensor.Count(dims)
	return tensor.ReadElements(bytes.NewReader(bytes.Repeat([]byte{1}, n*dtype.Size())), dtype, dims...)
}
