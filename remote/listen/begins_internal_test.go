package listen

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/edl-go/edl/proto/state"
)

// What earlier listeners have unpacked in the data folder for jobs to begin with is removed, but for what jobs that go on need. Another directory is left alone: it may be that of several listeners.
func TestLeftBeginsAreRemoved(t *testing.T) {
	d, err := OpenData(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	own, err := d.States()
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"checkpoint-1", "checkpoint-2", "kept", "params-3", "params-4"}
	for _, c := range []struct {
		name, dir string
		goesOn    *state.JobBegin // of a job that is taken over
		left      []string
	}{
		{"nobody needs them", own, nil, []string{"kept"}},
		{"a job goes on", own, &state.JobBegin{Exported: filepath.Join(own, "checkpoint-2"), Unpacked: filepath.Join(own, "params-3")}, []string{"checkpoint-2", "kept", "params-3"}},
		{"another directory", t.TempDir(), nil, all},
	} {
		for _, name := range all {
			if err := os.MkdirAll(filepath.Join(c.dir, name, "w"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		m := NewManager(Config{Data: d, StateDir: c.dir})
		if c.goesOn == nil {
			err = TakeOver(t.Context(), m)
		} else {
			m.order, m.jobs["digits"] = []string{"digits"}, &Job{inherited: &inheritance{JobRecord: &state.JobRecord{Begin: c.goesOn}}}
			removeBegins(m, leftBegins(m))
			m.order = nil
			delete(m.jobs, "digits")
		}
		var left []string
		entries, wrong := os.ReadDir(c.dir)
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if err != nil || wrong != nil || !slices.Equal(left, c.left) {
			t.Errorf("%s: %v are left, want %v; %v, %v", c.name, left, c.left, err, wrong)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}
