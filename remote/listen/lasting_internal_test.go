package listen

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/tensor"
)

// reopened returns the states that the next listener of a data folder holds.
func reopened(t *testing.T, parent string) *states {
	t.Helper()
	s := newStates(parent, true, 0, 0, slog.New(slog.DiscardHandler))
	if err := s.recall(); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	return s
}

// The next listener holds the states that are whole, and nobody gets one that the disk has damaged, or whose note is.
func TestKeptStatesOfAnEarlierListener(t *testing.T) {
	parent := t.TempDir()
	open := func() *states { return reopened(t, parent) }
	first := open()
	dirs := map[string]string{}
	keep := func() string {
		t.Helper()
		id, err := first.write(t.Context(), &rpc.StateValues{Progress: &job.Progress{Steps: 3},
			Values: []*job.Value{{Name: "of/w", Stream: tensor.AppendStream(nil, testkit.Random(t, tensor.Float32, 1, 300))}}})
		if err != nil {
			t.Fatal(err)
		}
		dirs[id] = first.held[id].dir
		return id
	}
	change := func(file string, at int64) {
		t.Helper()
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[(int64(len(b))+at)%int64(len(b))] ^= 1
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whole, bit, progress, note, missing, unknown := keep(), keep(), keep(), keep(), keep(), keep()
	change(filepath.Join(dirs[bit], "of", "w"), -5)
	change(filepath.Join(dirs[progress], executor.ProgressFile), 0)
	change(dirs[note]+lastingFile, -1)
	if err := os.Remove(filepath.Join(dirs[missing], "of", "w")); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-forgottenAfter - time.Hour)
	if err := os.Chtimes(dirs[unknown]+lastingFile, old, old); err != nil {
		t.Fatal(err)
	}
	if err := first.leave(); err != nil {
		t.Fatal(err)
	}

	next := open()
	for range 2 {
		dir, done, err := next.use(whole)
		if err != nil || dir != dirs[whole] {
			t.Fatalf("a whole state: %q, %v", dir, err)
		}
		done()
	}
	if _, _, err := next.use(bit); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a state with another bit: %v, want %v", err, fault.Corrupt)
	}
	for _, id := range []string{bit, progress, note, missing, unknown} {
		if _, _, err := next.use(id); !errors.Is(err, fault.NotFound) {
			t.Errorf("state %s: %v, want %v", id, err, fault.NotFound)
		}
	}
	if err := next.leave(); err != nil {
		t.Fatal(err)
	}

	last := open()
	if _, done, err := last.use(whole); err != nil {
		t.Error(err)
	} else {
		done()
	}
	left, err := filepath.Glob(filepath.Join(parent, lastingFolder, "*"))
	if want := []string{dirs[whole], dirs[whole] + lastingFile}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %v, %v, want %v", left, err, want)
	}
}

// An upload whose sender says that it confirms is removed when no call has named it for an hour, by this listener or the next one. One that was named stays, and so does that of a sender that
// does not confirm.
func TestUploadsThatNobodyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent := t.TempDir()
		open := func() *states { return reopened(t, parent) }
		s := open()
		upload := func(confirms bool) string {
			t.Helper()
			id, err := s.write(t.Context(), &rpc.StateValues{Confirms: confirms, Values: []*job.Value{{Name: "w", Stream: tensor.AppendStream(nil, testkit.Random(t, tensor.Float32, 1, 3))}}})
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		name := func(id string) error {
			_, err := s.read(id, []string{""})
			return err
		}
		lost, before, unsure, named := upload(true), upload(true), upload(false), upload(true)
		if err := name(named); err != nil {
			t.Fatal(err)
		}
		time.Sleep(unnamedFor - time.Second)
		if err := errors.Join(name(before), s.leave()); err != nil {
			t.Fatal(err)
		}
		s = open() // in time for one of them
		late := upload(true)
		there := func(ids ...string) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, id := range []string{lost, before, unsure, named, late} {
				if want := slices.Contains(ids, id); (s.held[id] != nil) != want {
					t.Errorf("of the uploads lost %s, before %s, unsure %s, named %s and late %s, %s is held: %t", lost, before, unsure, named, late, id, !want)
				}
			}
		}
		there(lost, before, unsure, named, late) // somebody may still name it
		time.Sleep(2 * time.Second)
		synctest.Wait()
		there(before, unsure, named, late)
		if err := s.leave(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(unnamedFor)
		s = open() // too late for the other
		there(before, unsure, named)
		if err := errors.Join(name(named), name(unsure), s.close()); err != nil {
			t.Error(err)
		}
	})
}
