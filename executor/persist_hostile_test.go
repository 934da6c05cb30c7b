package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/executor/internal/fixture"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

func TestDamagedParametersAreRefused(t *testing.T) {
	p, scope := trained(t)
	other := fixture.MLP(t, 5, nil, nil).Program
	for name, test := range map[string]struct {
		damage func(b []byte) []byte
		load   *program.Program
		kind   fault.Kind
	}{
		"cut short":          {func(b []byte) []byte { return b[:len(b)-1] }, p, fault.Corrupt},
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
