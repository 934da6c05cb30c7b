package executor

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// withFree makes the disk of a test take so many bytes.
func withFree(t *testing.T, bytes int64, known bool) {
	t.Helper()
	before := free
	free = func(string) (int64, bool) { return bytes, known }
	t.Cleanup(func() { free = before })
}

// What a Save needs is compared with what is free, before a training, and nothing is left of the check.
func TestPrepareSaveComparesBytes(t *testing.T) {
	p, _ := twoVariables(t, 1)
	need := StateBytes(p)
	if need != 2*(4+4096) {
		t.Errorf("two variables need %d bytes", need)
	}
	dir := filepath.Join(t.TempDir(), "new")
	for _, c := range []struct {
		free  int64
		known bool
		want  error
	}{{need, true, nil}, {need - 1, true, fault.TooLarge}, {0, false, nil}} {
		withFree(t, c.free, c.known)
		err := PrepareSave(dir, p)
		if !errors.Is(err, c.want) || err != nil && (!strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "8200")) {
			t.Errorf("%d bytes free, known %t: %v", c.free, c.known, err)
		}
		if left := filesBelow(t, dir); len(left) > 0 {
			t.Errorf("the check leaves %v", left)
		}
	}
	if err := PrepareSave("what://bucket/model", p); !errors.Is(err, fault.InvalidArgument) { // not a folder named what:
		t.Error(err)
	}
	huge := program.New()
	huge.Global().EnsureVar(program.Var{Name: "w", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{math.MaxInt64, math.MaxInt64}, Persistable: true})
	if got := StateBytes(huge); got < math.MaxInt64/4 {
		t.Errorf("a variable of 2^126 elements: %d bytes", got)
	}
}

// A full disk leaves the older model as it is, whichever file it stops, and can pass.
func TestAFullDiskLeavesTheOlderState(t *testing.T) {
	p, s := twoVariables(t, 1)
	dir := t.TempDir()
	if err := SaveState(s, dir, p, &Progress{Steps: 1}); err != nil {
		t.Fatal(err)
	}
	value, _ := s.Find("a")
	w, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	full := func(io.Writer) error { return &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC} }
	if err := errors.Join(w.Begin(), w.Save("a", []*tensor.Tensor{value}, true)); err != nil {
		t.Fatal(err)
	}
	err = w.SaveFile("of/b", full, true)
	if !errors.Is(err, fault.Unavailable) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), filepath.Join(dir, "of/b")) {
		t.Errorf("%v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := filesBelow(t, dir); len(got) != 3 {
		t.Errorf("%v", got)
	}
	if p, _, err := ReadProgress(dir); err != nil || p.Steps != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

// What is no folder of a Save under its name is refused, not followed: a link may lead anywhere.
func TestAForgedIncompleteFolderIsRefused(t *testing.T) {
	p, s := twoVariables(t, 1)
	for name, forge := range map[string]func(dir, other string) error{
		"a link":            func(dir, other string) error { return os.Symlink(other, filepath.Join(dir, IncompleteFolder)) },
		"a file":            func(dir, _ string) error { return os.WriteFile(filepath.Join(dir, IncompleteFolder), nil, 0o600) },
		"a name of its own": func(dir, _ string) error { return forged(dir, saveState+"/"+IncompleteFolder) },
		"a temporary folder": func(dir, _ string) error {
			return forged(dir, saveState+"/"+saveMark+strings.Repeat("A", tokenLength)+"/x")
		},
	} {
		dir, other := t.TempDir(), t.TempDir()
		if err := SaveState(s, dir, p, nil); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(forged(other, "state/a"), forge(dir, other)); err != nil {
			t.Fatal(err)
		}
		if err := LoadPersistables(NewScope(), dir, p); err == nil {
			t.Errorf("%s is loaded", name)
		}
		if len(filesBelow(t, other)) != 1 {
			t.Errorf("%s: the other directory has changed", name)
		}
	}
}

// forged makes a file in an IncompleteFolder, or in another folder that has one.
func forged(dir, name string) error {
	file := filepath.Join(dir, IncompleteFolder, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, nil, 0o600))
}

// Commit refuses what it could not finish: a file that has lost bytes since it was written, and a variable below a file.
func TestCommitChecksBeforeItReplaces(t *testing.T) {
	p, s := twoVariables(t, 1)
	value, _ := s.Find("a")
	for name, c := range map[string]struct {
		damage func(w *StateWriter) error
		want   error
	}{
		"a file that is cut":  {func(w *StateWriter) error { return os.Truncate(w.where(w.staged("of/b")), 3) }, fault.Unavailable},
		"a file that is gone": {func(w *StateWriter) error { return os.Remove(w.where(w.staged("of/b"))) }, fault.NotFound},
		"a folder that is a file": {func(w *StateWriter) error {
			return errors.Join(os.RemoveAll(w.where("of")), os.WriteFile(w.where("of"), nil, 0o600))
		}, fault.InvalidArgument},
	} {
		dir := t.TempDir()
		if err := SaveState(s, dir, p, nil); err != nil {
			t.Fatal(err)
		}
		w, err := NewStateWriter(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(w.Begin(), w.Save("a", []*tensor.Tensor{value}, true), w.Save("of/b", []*tensor.Tensor{value}, true), c.damage(w))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, IncompleteFolder)); err == nil {
			t.Errorf("%s: the Save was committed", name)
		}
		if got := filesBelow(t, dir); got["/a"] == "" {
			t.Errorf("%s: the older state has lost a file: %v", name, got)
		}
	}
}
