package executor

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// twoVariables returns a program of two variables, one of them in a folder, and their values.
func twoVariables(t *testing.T, value float32) (*program.Program, *Scope) {
	t.Helper()
	p, s := program.New(), NewScope()
	for _, name := range []string{"a", "of/b"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}, Persistable: true})
		v, err := tensor.New(tensor.Float32, 1)
		if err != nil {
			t.Fatal(err)
		}
		v.Float32s()[0] = value
		if err := s.Set(name, v); err != nil {
			t.Fatal(err)
		}
	}
	return p, s
}

// filesBelow returns the content of all files below dir.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// interrupt saves a state over another one, and ends it after a number of durable steps: with an error, or as a process that is killed, which removes
// nothing and loses its locks. It returns the step; empty: the Save has ended before.
func interrupt(t *testing.T, dir string, p *program.Program, s *Scope, steps int, killed bool) (at string) {
	t.Helper()
	w, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	w.after = func(step string) error {
		if steps--; steps >= 0 {
			return nil
		}
		at = step
		return stop
	}
	err = w.Begin()
	for _, name := range Persistables(p) {
		if err == nil {
			value, _ := s.Find(name)
			err = w.Save(name, []*tensor.Tensor{value}, true)
		}
	}
	if err == nil {
		err = w.Commit(&Progress{Steps: 2})
	}
	if (at != "") != errors.Is(err, stop) || at == "" && err != nil {
		t.Fatalf("%q: %v", at, err)
	}
	if killed && w.lock != nil {
		w.lock.Close()
		w.root.Close()
	} else if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// A Save over an older state that ends after any of its durable steps leaves the older state, the new one, or a directory that is not loaded.
func TestAnInterruptedSaveIsNoticed(t *testing.T) {
	p, older := twoVariables(t, 1)
	_, newer := twoVariables(t, 2)
	for _, killed := range []bool{false, true} {
		var order []string
		for steps := 0; ; steps++ {
			dir := t.TempDir()
			if err := SaveState(older, dir, p, &Progress{Steps: 1}); err != nil {
				t.Fatal(err)
			}
			before := filesBelow(t, dir)
			at := interrupt(t, dir, p, newer, steps, killed)
			loaded := NewScope()
			err := LoadPersistables(loaded, dir, p)
			progress, _, progressErr := ReadProgress(dir)
			want := uint64(1)
			switch {
			case at == "" || at == "unmark":
				want = 2
			case strings.HasPrefix(at, "rename ") || at == "sync" || at == "mark" && killed:
				want = 0
			case !killed && !maps.Equal(filesBelow(t, dir), before):
				t.Errorf("a failure after %q leaves %v", at, slices.Sorted(maps.Keys(filesBelow(t, dir))))
			}
			if want == 0 {
				for _, err := range []error{err, progressErr} {
					if !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "interrupted") || !strings.Contains(err.Error(), dir) {
						t.Errorf("after %q (killed %t): %v", at, killed, err)
					}
				}
			} else if err != nil || progressErr != nil || progress.Steps != want {
				t.Errorf("after %q (killed %t): %v, %v, progress %+v, want the state of step %d", at, killed, err, progressErr, progress, want)
			} else {
				for _, name := range Persistables(p) {
					if v, _ := loaded.Find(name); v.Float32s()[0] != float32(want) {
						t.Errorf("after %q (killed %t): %s = %v, want %d", at, killed, name, v.Float32s(), want)
					}
				}
			}
			// The next Save makes it whole. It removes what it finds, if that is older.
			for name := range filesBelow(t, dir) {
				if IsTemporary(name) {
					if err := os.Chtimes(dir+name, time.Time{}, time.Unix(1e9, 0)); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := SaveState(newer, dir, p, &Progress{Steps: 3}); err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(filesBelow(t, dir))); !slices.Equal(got, []string{"/__progress__", "/a", "/of/b"}) {
				t.Errorf("after %q (killed %t) and another Save: %v", at, killed, got)
			}
			if progress, _, err := ReadProgress(dir); err != nil || progress.Steps != 3 {
				t.Errorf("after %q (killed %t) and another Save: %+v, %v", at, killed, progress, err)
			}
			if at == "" {
				break
			}
			order = append(order, at)
		}
		if want := []string{"write a", "write of/b", "write __progress__", "write __incomplete__", "mark", "rename a", "rename of/b", "rename __progress__",
			"sync", "unmark"}; !slices.Equal(order, want) {
			t.Errorf("steps %q, want %q", order, want)
		}
	}
}

// A Save removes the temporary files of writers that are gone, and of nobody else.
func TestASaveRemovesWhatAKilledWriterLeft(t *testing.T) {
	p, s := twoVariables(t, 1)
	dir := t.TempDir()
	if at := interrupt(t, dir, p, s, 0, true); at != "write a" {
		t.Fatal(at)
	}
	live, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	value, _ := s.Find("a")
	if err := errors.Join(live.Begin(), live.Save("a", []*tensor.Tensor{value}, true)); err != nil {
		t.Fatal(err)
	}
	likely := filepath.Join(dir, "a.part-time") // the user's
	if err := os.WriteFile(likely, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	for name := range filesBelow(t, dir) {
		if err := os.Chtimes(dir+name, time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
		if !IsTemporary(name) || tokenOf(name) == live.token {
			want = append(want, name)
		}
	}
	if err := SaveState(s, dir, p, nil); err != nil {
		t.Fatal(err)
	}
	want = append(want, "/a", "/of/b")
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(filesBelow(t, dir))); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := live.Commit(nil); err != nil {
		t.Errorf("the Save that lives: %v", err)
	}
}

// One Save at a time renames files.
func TestTwoSavesDoNotMix(t *testing.T) {
	p, s := twoVariables(t, 1)
	dir := t.TempDir()
	first, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.after = func(step string) error {
		if step == "rename a" {
			if err := SaveState(s, dir, p, nil); !errors.Is(err, fault.Unavailable) {
				t.Errorf("a Save within another one: %v", err)
			}
		}
		return nil
	}
	value, _ := s.Find("a")
	if err := errors.Join(first.Begin(), first.Save("a", []*tensor.Tensor{value}, true), first.Commit(&Progress{Steps: 1})); err != nil {
		t.Fatal(err)
	}
	if got, _, err := ReadProgress(dir); err != nil || got.Steps != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Names of files that a directory of variables has for itself belong to no variable, and a directory cannot become a file.
func TestAStateWriterRefusesNames(t *testing.T) {
	_, s := twoVariables(t, 1)
	value, _ := s.Find("a")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Begin(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", ".", ProgressFile, "./" + IncompleteFile, "x/..", "../x", w.part("x")} {
		if err := w.Save(name, []*tensor.Tensor{value}, true); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := errors.Join(w.Save("folder", []*tensor.Tensor{value}, true)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(nil); !errors.Is(err, fault.InvalidArgument) || CheckComplete(dir) != nil {
		t.Errorf("%v, %v", err, CheckComplete(dir))
	}
}
