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
	if killed && w.lock != nil { // its locks end, and nothing else
		w.lock.Close()
		w.root.Close()
	} else if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return at
}

// A Save over an older state that ends after any of its durable steps, with an error or because the process is killed, leaves the older state or the new
// one, and the next reader finds it whole. At no time are there files of both states, which a reader that does not know about Saves would mix.
func TestAnInterruptedSaveIsWholeOrNot(t *testing.T) {
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
			plain := map[byte]bool{} // the state that each file in its place is of
			for name, text := range filesBelow(t, dir) {
				if !IsTemporary(name) && name != "/"+ProgressFile {
					plain[text[len(text)-1]] = true
				}
			}
			if len(plain) > 1 {
				t.Errorf("after %q (killed %t): files of two states in their places", at, killed)
			}
			want := uint64(2)
			if strings.HasPrefix(at, "write ") {
				want = 1
				if !killed && !maps.Equal(filesBelow(t, dir), before) {
					t.Errorf("a failure after %q leaves %v", at, slices.Sorted(maps.Keys(filesBelow(t, dir))))
				}
			}
			progress, _, err := ReadProgress(dir)
			if err != nil || progress.Steps != want {
				t.Errorf("after %q (killed %t): progress %+v, %v, want that of step %d", at, killed, progress, err, want)
			}
			loaded := NewScope()
			if err := LoadPersistables(loaded, dir, p); err != nil {
				t.Errorf("after %q (killed %t): %v", at, killed, err)
			}
			for _, name := range Persistables(p) {
				if v, ok := loaded.Find(name); !ok || v.Float32s()[0] != float32(want) {
					t.Errorf("after %q (killed %t): %s = %v, want %d", at, killed, name, v, want)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, IncompleteFolder)); err == nil {
				t.Errorf("after %q (killed %t) and a Load: %s is there", at, killed, IncompleteFolder)
			}
			// The next Save removes what is left.
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
		if want := []string{"write a", "write of/b", "write __progress__", "commit", "remove __progress__", "remove a", "remove of/b",
			"move __progress__", "move a", "move of/b", "sync", "end"}; !slices.Equal(order, want) {
			t.Errorf("steps %q, want %q", order, want)
		}
	}
}

// The process that moves the files of a Save that was killed may be killed, too.
func TestFinishingASaveMayBeInterrupted(t *testing.T) {
	p, older := twoVariables(t, 1)
	_, newer := twoVariables(t, 2)
	stop := errors.New("stop")
	for steps := 0; ; steps++ {
		dir := t.TempDir()
		if err := SaveState(older, dir, p, &Progress{Steps: 1}); err != nil {
			t.Fatal(err)
		}
		if at := interrupt(t, dir, p, newer, 7, true); at != "move __progress__" {
			t.Fatal(at)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		lock, err := lockFolder(root, IncompleteFolder)
		if err != nil {
			t.Fatal(err)
		}
		left := steps
		err = moveIn(root, lock, func(string) error {
			if left--; left < 0 {
				return stop
			}
			return nil
		})
		lock.Close()
		root.Close()
		loaded := NewScope()
		if err := LoadPersistables(loaded, dir, p); err != nil {
			t.Fatalf("step %d: %v", steps, err)
		}
		for _, name := range Persistables(p) {
			if v, _ := loaded.Find(name); v.Float32s()[0] != 2 {
				t.Errorf("step %d: %s = %v", steps, name, v.Float32s())
			}
		}
		if progress, _, err := ReadProgress(dir); err != nil || progress.Steps != 2 {
			t.Errorf("step %d: %+v, %v", steps, progress, err)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
}

// A Save without Progress leaves none, also when it is finished by another process.
func TestASaveWithoutProgressForgetsTheOlderOne(t *testing.T) {
	p, s := twoVariables(t, 1)
	dir := t.TempDir()
	if err := SaveState(s, dir, p, &Progress{Steps: 1}); err != nil {
		t.Fatal(err)
	}
	w, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	w.after = func(step string) error {
		if step == "commit" {
			return stop
		}
		return nil
	}
	value, _ := s.Find("a")
	if err := errors.Join(w.Begin(), w.Save("a", []*tensor.Tensor{value}, true)); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(nil); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	w.Close()
	if p, ok, err := ReadProgress(dir); ok || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

// While a state is read, a Save may replace it: what is read is of one of the two.
func TestAStateIsReadWhole(t *testing.T) {
	p, older := twoVariables(t, 1)
	_, newer := twoVariables(t, 2)
	dir := t.TempDir()
	if err := SaveState(older, dir, p, nil); err != nil {
		t.Fatal(err)
	}
	reads := 0
	err := readUnchanged(dir, p, func() error {
		if reads++; reads == 1 {
			return SaveState(newer, dir, p, nil)
		}
		return nil
	})
	if err != nil || reads != 2 {
		t.Errorf("%d reads, %v", reads, err)
	}
	value := float32(0)
	err = readUnchanged(dir, p, func() error {
		value++
		_, s := twoVariables(t, value)
		return SaveState(s, dir, p, nil)
	})
	if !errors.Is(err, fault.Unavailable) {
		t.Errorf("a state that never stays: %v", err)
	}
}

// A Save removes what writers have left that are gone, and nothing of anybody else.
func TestASaveRemovesWhatAKilledWriterLeft(t *testing.T) {
	p, s := twoVariables(t, 1)
	dir := t.TempDir()
	if at := interrupt(t, dir, p, s, 0, true); at != "write a" {
		t.Fatal(at)
	}
	token := strings.Repeat("A", tokenLength)
	for name, seconds := range map[string]int64{"x" + partMark + token: 1e9, "y" + partMark + token: 9e9} { // y is younger than the Save
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), nil, 0o600), os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(seconds, 0))); err != nil {
			t.Fatal(err)
		}
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
	if err := SaveState(s, dir, p, nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"/" + live.folder + "/lock", "/" + live.folder + "/state/a", "/a", "/a.part-time", "/of/b", "/y" + partMark + token}
	if got := slices.Sorted(maps.Keys(filesBelow(t, dir))); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := live.Commit(nil); err != nil {
		t.Errorf("the Save that lives: %v", err)
	}
}

// Begin opens its directory again: somebody may have removed it since.
func TestASaveSurvivesTheRemovalOfItsDirectory(t *testing.T) {
	_, s := twoVariables(t, 1)
	dir := filepath.Join(t.TempDir(), "model")
	w, err := NewStateWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	value, _ := s.Find("a")
	if err := errors.Join(os.RemoveAll(dir), w.Begin(), w.Save("a", []*tensor.Tensor{value}, true), w.Commit(nil)); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(filesBelow(t, dir))); !slices.Equal(got, []string{"/a"}) {
		t.Error(got)
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
		if step == "move a" {
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
	for _, name := range []string{"", ".", ProgressFile, "./" + IncompleteFolder, IncompleteFolder + "/x", "x/..", "../x", w.folder, w.staged("x"),
		"x" + partMark + strings.Repeat("A", tokenLength)} {
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
