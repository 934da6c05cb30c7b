package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
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
