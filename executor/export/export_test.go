package export_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/export"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/layers"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A trained is a model after some steps.
type trained struct {
	program    *program.Program
	exe        *executor.Local
	prediction string
	input      *tensor.Tensor
}

// line is Fluid's fit_a_line.
func line(t *testing.T) trained {
	t.Helper()
	m := layers.NewModel().Seed(3)
	x := layers.Data(m, "x", layers.Dims(13))
	y := layers.Data(m, "y", layers.Dims(1))
	prediction := layers.FC(x, 1)
	loss := layers.Mean(layers.SquareErrorCost(prediction, y))
	return train(t, m, loss, prediction, optimizer.Momentum(0.01, 0.9), "x", []int64{6, 13}, func() *tensor.Tensor { return random(t, 9, 6, 1) })
}

// digits has what differs between training and use: batch norm and dropout.
func digits(t *testing.T) trained {
	t.Helper()
	m := layers.NewModel().Seed(3)
	image := layers.Data(m, "image", layers.Dims(1, 12, 12))
	label := layers.Data(m, "label", layers.Dims(1), layers.DType(tensor.Int64))
	conv := layers.BatchNorm(layers.Conv2D(image, 4, 3), layers.Act("relu"))
	hidden := layers.Dropout(layers.FC(layers.Pool2D(conv, 2), 8, layers.Act("tanh")), 0.5)
	prediction := layers.FC(hidden, 3, layers.Act("softmax"))
	loss := layers.Mean(layers.CrossEntropy(prediction, label))
	return train(t, m, loss, prediction, optimizer.Adam(0.01), "image", []int64{6, 1, 12, 12}, func() *tensor.Tensor {
		v, err := tensor.FromSlice([]int64{0, 1, 2, 0, 1, 2}, 6, 1)
		if err != nil {
			t.Fatal(err)
		}
		return v
	})
}

func random(t *testing.T, seed uint32, dims ...int64) *tensor.Tensor {
	t.Helper()
	v, err := tensor.New(tensor.Float32, dims...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Float32s() {
		seed = seed*1664525 + 1013904223
		v.Float32s()[i] = float32(seed>>8)/(1<<23) - 1
	}
	return v
}

func train(t *testing.T, m *layers.Model, loss, prediction layers.Variable, o *optimizer.Optimizer, input string, dims []int64, labels func() *tensor.Tensor) trained {
	t.Helper()
	o.Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	exe := executor.New()
	t.Cleanup(func() { exe.Close() })
	label := "y"
	if input == "image" {
		label = "label"
	}
	in := random(t, 7, dims...)
	for range 5 {
		if _, err := exe.Run(t.Context(), p, executor.Feed{input: in, label: labels()}); err != nil {
			t.Fatal(err)
		}
	}
	return trained{p, exe, prediction.Name(), in}
}

func (m trained) value(name string) (*tensor.Tensor, error) {
	v, ok := m.exe.Scope().Find(name)
	if !ok {
		return nil, fault.E(fault.NotFound, fault.Var(name))
	}
	return v, nil
}

// predict runs the test clone of the training program.
func (m trained) predict(t *testing.T, input string) []float32 {
	t.Helper()
	test, err := m.program.CloneForTest().Prune(m.prediction)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.exe.Run(t.Context(), test, executor.Feed{input: m.input}, m.prediction)
	if err != nil {
		t.Fatal(err)
	}
	return got[0].Float32s()
}

// An exported model predicts the bits that the test clone of its training program predicts, in each format that EDL reads.
func TestAnExportedModelPredictsTheSameBits(t *testing.T) {
	for name, build := range map[string]func(*testing.T) trained{"x": line, "image": digits} {
		m := build(t)
		want := m.predict(t, name)
		for format, files := range map[export.Format][]string{export.Fluid: nil, export.Combined: {export.CombinedFile}, export.Safetensors: {export.SafetensorsFile}} {
			dir := filepath.Join(t.TempDir(), "served")
			inference, err := export.Program(m.program, nil, []string{m.prediction})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := export.Write(dir, inference, format, m.value); err != nil {
				t.Fatal(err)
			}
			p, err := program.Load(filepath.Join(dir, export.ModelFile), program.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			if p.Startup != nil || !slices.Equal(p.Feeds(), []string{name}) || !slices.Equal(p.Targets(), []string{m.prediction}) {
				t.Errorf("%s: feeds %v, targets %v, startup %v", format, p.Feeds(), p.Targets(), p.Startup != nil)
			}
			if last := len(p.Global().Ops) - 1; p.Global().Ops[0].Type != "feed" || p.Global().Ops[last].Type != "fetch" {
				t.Errorf("%s: the program begins with %s and ends with %s", format, p.Global().Ops[0].Type, p.Global().Ops[last].Type)
			}
			params := dir
			if len(files) > 0 {
				params = filepath.Join(dir, files[0])
			} else {
				files = executor.Persistables(p)
			}
			if got, want := names(t, dir), slices.Sorted(slices.Values(append([]string{export.ModelFile}, files...))); !slices.Equal(got, want) {
				t.Errorf("%s: files %v, want %v", format, got, want)
			}
			served := executor.New()
			if err := executor.LoadParams(served.Scope(), params, p); err != nil {
				t.Fatal(err)
			}
			got, err := served.Run(t.Context(), p, executor.Feed{name: m.input})
			if err != nil || len(got) != 1 || !slices.Equal(got[0].Float32s(), want) {
				t.Errorf("%s of %s: %v, %v, want %v", format, name, got, err, want)
			}
			served.Close()
		}
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// What an inference program has of training would be a mistake of the pruning.
func TestAnExportedProgramHasNothingOfTraining(t *testing.T) {
	m := digits(t)
	p, err := export.Program(m.program, nil, []string{m.prediction})
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range p.Global().Ops {
		if op.Role().Has(program.RoleBackward) || op.Role().Has(program.RoleOptimize) || op.Type == "read" || strings.Contains(op.Type, "cross_entropy") {
			t.Errorf("op %s", op.Type)
		}
		if test, ok := op.Attrs["is_test"]; (op.Type == "dropout" || op.Type == "batch_norm") && (!ok || test != true) {
			t.Errorf("%s has is_test %v", op.Type, test)
		}
	}
	for _, name := range executor.Persistables(p) {
		if strings.Contains(name, "moment") || strings.Contains(name, "learning_rate") {
			t.Errorf("parameter %s", name)
		}
	}
	if before := len(m.program.Global().Ops); before <= len(p.Global().Ops) {
		t.Errorf("the training program has %d ops", before)
	}
}

// Mistakes are told before anything is written.
func TestMistakesOfAnExport(t *testing.T) {
	m := line(t)
	for name, c := range map[string]struct {
		feeds, targets []string
		want           error
	}{
		"no target":      {nil, nil, fault.InvalidArgument},
		"unknown target": {nil, []string{"nothing"}, fault.NotFound},
		"unknown feed":   {[]string{"nothing"}, []string{m.prediction}, fault.NotFound},
		"too many feeds": {[]string{"x", "y"}, []string{m.prediction}, fault.InvalidArgument},
	} {
		if _, err := export.Program(m.program, c.feeds, c.targets); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	p, err := export.Program(m.program, nil, []string{m.prediction})
	if err != nil {
		t.Fatal(err)
	}
	saved, dir := t.TempDir(), filepath.Join(t.TempDir(), "dir")
	if err := m.exe.Save(t.Context(), saved, m.program); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir    string
		format export.Format
		value  func(string) (*tensor.Tensor, error)
		want   error
	}{
		"a training":       {saved, export.Fluid, m.value, fault.InvalidArgument},
		"an unknown form":  {dir, "parquet", m.value, fault.InvalidArgument},
		"no value":         {dir, export.NPZ, func(string) (*tensor.Tensor, error) { return nil, fault.E(fault.NotFound) }, fault.NotFound},
		"another shape":    {dir, export.Combined, func(string) (*tensor.Tensor, error) { return random(t, 1, 2, 2), nil }, fault.ShapeMismatch},
		"of other rank":    {dir, export.Safetensors, func(string) (*tensor.Tensor, error) { return random(t, 1, 13), nil }, fault.ShapeMismatch},
		"below a file":     {filepath.Join(saved, "fc_0.w_0", "x"), export.Fluid, m.value, fault.InvalidArgument},
		"a failing of one": {dir, export.Fluid, func(string) (*tensor.Tensor, error) { return nil, fault.E(fault.Unavailable) }, fault.Unavailable},
	} {
		if _, err := export.Write(c.dir, p, c.format, c.value); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s leaves a directory, with %v", name, names(t, dir))
		}
	}
}

// An export over another one leaves no parameters of the older one that a reader would take.
func TestAnExportReplacesOneOfAnotherFormat(t *testing.T) {
	m := line(t)
	p, err := export.Program(m.program, nil, []string{m.prediction})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	of := map[export.Format]string{export.Combined: export.CombinedFile, export.Safetensors: export.SafetensorsFile, export.NPZ: export.NPZFile}
	for _, format := range []export.Format{export.Combined, export.Safetensors, export.NPZ, export.Combined, export.Fluid} {
		if _, err := export.Write(dir, p, format, m.value); err != nil {
			t.Fatal(err)
		}
		for _, file := range slices.Sorted(maps.Values(of)) {
			if there := slices.Contains(names(t, dir), file); there != (file == of[format]) {
				t.Errorf("after %s: %s is there: %t", format, file, there)
			}
		}
	}
}

// A program that reads its own data is fed what it read, in the order of its reader.
func TestWhatAReaderReadsIsFed(t *testing.T) {
	m := layers.NewModel().Seed(3)
	read := layers.Read(layers.Batch(layers.OpenDataset(m, "train", layers.Field("b", layers.Dims(4)), layers.Field("a", layers.Dims(2)),
		layers.Field("y", layers.Dims(1))), 2))
	prediction := layers.FC(layers.Concat([]layers.Variable{read[1], read[0]}, 1), 1)
	loss := layers.Mean(layers.SquareErrorCost(prediction, read[2]))
	optimizer.SGD(0.1).Minimize(loss)
	p, err := m.Program()
	if err != nil {
		t.Fatal(err)
	}
	got, err := export.Program(p, nil, []string{prediction.Name()})
	if err != nil || !slices.Equal(got.Feeds(), []string{"b", "a"}) {
		t.Errorf("feeds %v, %v", got.Feeds(), err)
	}
	if _, err := export.Program(p, []string{"b", "a"}, []string{loss.Name()}); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("a loss without its labels: %v", err)
	}
	if len(p.Global().Ops) == 0 || p.Startup == nil {
		t.Error("the program that was exported has changed")
	}
}
