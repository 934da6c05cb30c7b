package executor_test

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
	"github.com/edl-go/edl/tensor/npz"
)

// trained returns a program with its scope after one step.
func trained(t *testing.T) (*program.Program, *executor.Scope) {
	t.Helper()
	m := fixture.FitALine(t, optimizer.Adam(0.01))
	l := executor.New()
	defer l.Close()
	if _, err := l.Run(t.Context(), m.Program, line(1, 4)); err != nil {
		t.Fatal(err)
	}
	return m.Program, l.Scope()
}

func equalScopes(t *testing.T, got, want *executor.Scope) {
	t.Helper()
	if !slices.Equal(got.Names(), want.Names()) {
		t.Fatalf("variables %v, want %v", got.Names(), want.Names())
	}
	for _, name := range want.Names() {
		a, _ := got.Find(name)
		b, _ := want.Find(name)
		if !slices.Equal(a.Float32s(), b.Float32s()) {
			t.Errorf("%s differs", name)
		}
	}
}

// pickled writes tensors as Python 3 pickles a dictionary of arrays of float32 by protocol 4, without the numbers that nothing asks for.
func pickled(t *testing.T, path string, all map[string]*tensor.Tensor) {
	t.Helper()
	b := []byte("\x80\x04}(")
	for name, v := range all {
		b = append(append(b, 0x8c, byte(len(name))), name...)
		b = append(b, "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85C\x01b\x87R(K\x01("...)
		for _, d := range v.Dims() {
			b = binary.LittleEndian.AppendUint32(append(b, 'J'), uint32(d))
		}
		b = append(b, "tcnumpy\ndtype\n\x8c\x02f4K\x00K\x01\x87R(K\x03\x8c\x01<tb\x89B"...)
		b = binary.LittleEndian.AppendUint32(b, uint32(v.Bytes()))
		for _, x := range v.Float32s() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		}
		b = append(b, "tb"...)
	}
	if err := os.WriteFile(path, append(b, "u."...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Paddle's fluid.save writes parameters and the state of the optimizer into two files. Archives of NumPy hold all. Both are read by name, whole or in part.
func TestFilesOfNamedArrays(t *testing.T) {
	p, scope := trained(t)
	dir := t.TempDir()
	names := executor.Persistables(p)
	all, first, rest := map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}, map[string]*tensor.Tensor{}
	for i, name := range names {
		v, _ := scope.Find(name)
		if all[name] = v; i == 0 {
			first[name] = v
		} else {
			rest[name] = v
		}
	}
	archive, err := os.Create(filepath.Join(dir, "all.npz"))
	if err != nil {
		t.Fatal(err)
	}
	err = npz.Write(archive, names, func(name string) (*tensor.Tensor, error) { return all[name], nil })
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	pickled(t, filepath.Join(dir, "one.pdparams"), all)
	pickled(t, filepath.Join(dir, "two.pdparams"), first)
	pickled(t, filepath.Join(dir, "two.pdopt"), rest)
	pickled(t, filepath.Join(dir, "part.pdparams"), first)
	pickled(t, filepath.Join(dir, "unnamed"), first)
	for _, file := range []string{"all.npz", "one.pdparams", "two.pdparams"} {
		loaded := executor.NewScope()
		if err := executor.LoadParams(loaded, filepath.Join(dir, file), p); err != nil {
			t.Fatal(err)
		}
		equalScopes(t, loaded, scope)
	}
	for file, kind := range map[string]fault.Kind{"part.pdparams": fault.NotFound, "unnamed": fault.Unsupported} {
		path := filepath.Join(dir, file)
		if err := executor.LoadParams(executor.NewScope(), path, p); !errors.Is(err, kind) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", file, err, kind)
		}
	}
	exe := executor.New()
	defer exe.Close()
	report, err := exe.Load(t.Context(), filepath.Join(dir, "part.pdparams"), p, executor.LoadOptions{Partial: true})
	if err != nil || !slices.Equal(report.Loaded, names[:1]) || !slices.Equal(report.Initialized, names[1:]) {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestParametersSurviveSavingAndLoading(t *testing.T) {
	p, scope := trained(t)
	dir := t.TempDir()
	combined := filepath.Join(dir, "__params__")
	if err := executor.SavePersistables(scope, filepath.Join(dir, "separate"), p); err != nil {
		t.Fatal(err)
	}
	if err := executor.SaveCombined(scope, combined, p); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "separate"), combined} {
		loaded := executor.NewScope()
		if err := executor.LoadParams(loaded, path, p); err != nil {
			t.Fatal(err)
		}
		equalScopes(t, loaded, scope)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "separate"))
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	if !slices.Equal(files, executor.Persistables(p)) {
		t.Errorf("files %v, want %v", files, executor.Persistables(p))
	}
}

func TestSavedFilesAreLoDTensorStreamsInTheOrderOfNames(t *testing.T) {
	p, scope := trained(t)
	path := filepath.Join(t.TempDir(), "params")
	if err := executor.SaveCombined(scope, path, p); err != nil {
		t.Fatal(err)
	}
	rest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range executor.Persistables(p) {
		var value *tensor.Tensor
		if value, rest, err = tensor.DecodeStream(rest, tensor.Limits{}); err != nil {
			t.Fatal(err)
		}
		if want, _ := scope.Find(name); value.String() != want.String() {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d bytes remain", len(rest))
	}
}

func TestLoadingCompletesWithTheStartupProgram(t *testing.T) {
	m := fixture.FitALine(t, optimizer.Adam(0.01))
	l := executor.New()
	defer l.Close()
	w, _ := tensor.New(tensor.Float32, 13, 1)
	w.Float32s()[0] = 42
	if err := l.Scope().Set("fc_0.w_0", w); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Run(t.Context(), m.Program, line(1, 4)); err != nil {
		t.Fatal(err)
	}
	if got := w.Float32s()[0]; got < 41 || got > 43 {
		t.Errorf("w[0] = %v after one step from 42", got)
	}
}

func TestVariablesWithoutValueAreListed(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	m.Program.Startup = nil
	l := executor.New()
	defer l.Close()
	_, err := l.Run(t.Context(), m.Program, line(1, 4))
	for _, name := range []string{"fc_0.w_0", "fc_0.b_0"} {
		if !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is missing in %v", name, err)
		}
	}
}

func TestDamagedParametersAreRefused(t *testing.T) {
	p, scope := trained(t)
	other := fixture.MLP(t, 5, nil, nil).Program
	for name, test := range map[string]struct {
		damage func(b []byte) []byte
		load   *program.Program
		kind   fault.Kind
	}{
		"cut short":          {func(b []byte) []byte { return b[:len(b)-1] }, p, fault.Corrupt},
		"cut to a half":      {func(b []byte) []byte { return b[:len(b)/2] }, p, fault.Corrupt},
		"a byte more":        {func(b []byte) []byte { return append(b, 0) }, p, fault.Corrupt},
		"empty":              {func([]byte) []byte { return nil }, p, fault.Corrupt},
		"of another program": {func(b []byte) []byte { return b }, other, fault.ShapeMismatch},
		"a hostile extent":   {func(b []byte) []byte { b[12] = 0xff; return b }, p, fault.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "params")
			if err := executor.SaveCombined(scope, path, p); err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, test.damage(whole), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			err = executor.LoadParams(executor.NewScope(), path, test.load)
			if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v that names the file", err, test.kind)
			}
		})
	}
}

func TestMissingParameterFilesAreNamed(t *testing.T) {
	p, scope := trained(t)
	dir := t.TempDir()
	if err := executor.SavePersistables(scope, dir, p); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "fc_0.w_0")); err != nil {
		t.Fatal(err)
	}
	if err := executor.LoadParams(executor.NewScope(), dir, p); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "fc_0.w_0") {
		t.Errorf("got %v", err)
	}
	if err := executor.LoadParams(executor.NewScope(), filepath.Join(dir, "nowhere"), p); !errors.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
	if err := executor.SavePersistables(executor.NewScope(), dir, p); !errors.Is(err, fault.NotFound) {
		t.Errorf("saving nothing: %v", err)
	}
}

// A pipe in the place of a parameter has no bytes of its own: it is refused, and not waited for.
func TestParametersInPipesAreRefused(t *testing.T) {
	p, _ := trained(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, executor.Persistables(p)[0])
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe} {
		err := executor.LoadParams(executor.NewScope(), path, p)
		if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), pipe+": ") || !strings.Contains(err.Error(), "a pipe") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNamesOfAProgramCannotLeaveTheDirectory(t *testing.T) {
	for _, name := range []string{"../outside", "a/../../outside", "/outside", "link/outside"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			inside := filepath.Join(dir, "inside")
			if err := os.Mkdir(inside, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(dir, filepath.Join(inside, "link")); err != nil {
				t.Fatal(err)
			}
			p := program.New()
			p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: true})
			scope := executor.NewScope()
			if err := scope.Set(name, fixture.Numbers(1, 1)); err != nil {
				t.Fatal(err)
			}
			if err := executor.SavePersistables(scope, inside, p); err == nil {
				t.Error("saved")
			}
			if err := executor.LoadPersistables(scope, inside, p); err == nil {
				t.Error("loaded")
			}
			if _, err := os.Lstat(filepath.Join(dir, "outside")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file outside: %v", err)
			}
		})
	}
}

func TestStorageKeepsTensors(t *testing.T) {
	s, err := executor.NewStorage(filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	saved := []*tensor.Tensor{fixture.Numbers(1, 2, 3), fixture.Labels(2, 4, 9)}
	saved[0].SetLoD([][]int64{{0, 1, 2}})
	if err := s.Save("deep/er/file", saved, false); err != nil {
		t.Fatal(err)
	}
	loaded := []*tensor.Tensor{fixture.Numbers(9, 2, 3), fixture.Labels(9, 4, 9)}
	if err := s.Load("deep/er/file", loaded); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(loaded[0].Float32s(), saved[0].Float32s()) || !slices.Equal(loaded[1].Int64s(), saved[1].Int64s()) || len(loaded[0].LoD()) != 1 {
		t.Error("loaded something else")
	}
}

func TestStorageRefuses(t *testing.T) {
	s, err := executor.NewStorage(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	one := []*tensor.Tensor{fixture.Numbers(1, 2)}
	if err := s.Save("file", one, true); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"overwriting":      {s.Save("file", one, false), fault.InvalidArgument},
		"leaving":          {s.Save("../file", one, true), fault.InvalidArgument},
		"a missing file":   {s.Load("nothing", one), fault.NotFound},
		"too few streams":  {s.Load("file", append(one, one...)), fault.Corrupt},
		"too many streams": {s.Load("file", nil), fault.Corrupt},
		"other dims":       {s.Load("file", []*tensor.Tensor{fixture.Numbers(1, 2, 1)}), fault.ShapeMismatch},
		"another type":     {s.Load("file", []*tensor.Tensor{fixture.Labels(1, 2, 1)}), fault.ShapeMismatch},
	} {
		if !errors.Is(test.err, test.kind) {
			t.Errorf("%s: got %v, want %v", name, test.err, test.kind)
		}
	}
}

// A name that is no name of a file below the directory is refused before anything is trained.
func TestANameThatCannotBeSavedIsToldFirst(t *testing.T) {
	m := fixture.FitALine(t, optimizer.SGD(0.1))
	for _, name := range []string{"../evil", "/tmp/evil", executor.ProgressFile} {
		p := m.Program.Clone()
		if _, err := p.Global().AddVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: true}); err != nil {
			t.Fatal(err)
		}
		l := executor.New()
		defer l.Close()
		trained := false
		run := executor.TrainOptions{Data: map[string][]string{"train": {"nothing"}}, Save: t.TempDir()}
		_, err := l.TrainFrom(t.Context(), p, nil, run, func(executor.StepResult) error { trained = true; return nil })
		if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), name) || trained {
			t.Errorf("%s: %v", name, err)
		}
	}
}
