package listen

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
)

// has reports whether a job has a folder.
func (d *Data) has(id string) bool {
	_, err := os.Stat(d.folder(id))
	return err == nil
}

// A data folder is that of one listener. What is in it comes and goes with jobs, and nothing outside of it does.
func TestDataFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	d, err := OpenData(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenData(dir); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("opened twice: %v", err)
	}
	none := func(string) bool { return false }
	keep := func(id, continues string) {
		t.Helper()
		if err := d.keep(id, &state.KeptJob{Spec: &job.JobSpec{Name: id}, Run: id + "-1", Continues: continues}); err != nil {
			t.Fatal(err)
		}
	}
	checkpoint := func(id string) string { return filepath.Join(d.store(id), "x") }
	keep("a", "")
	if err := os.MkdirAll(checkpoint("a"), 0o700); err != nil {
		t.Fatal(err)
	}
	keep("a", "a")
	if _, err := os.Stat(checkpoint("a")); err != nil {
		t.Errorf("a job that resumes itself loses its checkpoints: %v", err)
	}
	if k, err := d.read("a"); err != nil || k.Run != "a-1" || k.Spec.Name != "a" {
		t.Errorf("read %v, %v", k, err)
	}
	keep("a", "")
	if _, err := os.Stat(checkpoint("a")); err == nil {
		t.Error("another job of the name has the checkpoints of the first")
	}
	for _, id := range []string{"", ".", "..", "../data", "a/b", "nodes", "b"} {
		if _, err := d.read(id); !errors.Is(err, fault.NotFound) {
			t.Errorf("job %q: %v", id, err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.folder("a"), jobFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.read("a"); !errors.Is(err, fault.Corrupt) {
		t.Errorf("a damaged file: %v", err)
	}

	keep("b", "")
	keep("c", "b")
	keep("d", "c")
	if err := d.remove("d", func(id string) bool { return id == "b" }); err != nil || d.has("d") || d.has("c") || !d.has("b") {
		t.Errorf("d and c are removed, b runs again: %v", err)
	}
	if err := d.remove("b", none); err != nil || d.has("b") {
		t.Errorf("b is removed: %v", err)
	}

	for i, id := range []string{"new", "old", "older", "oldest"} {
		keep(id, "")
		at := time.Unix(int64(1e9-i), 0)
		if err := os.Chtimes(d.folder(id), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.trim(func(id string) bool { return id == "oldest" || id == "a" }, 2); err != nil || !d.has("new") || !d.has("old") || d.has("older") ||
		!d.has("oldest") {
		t.Errorf("the oldest beyond two that do not run are removed: %v", err)
	}
	for i, id := range []string{"ads.new", "ads.old", "ads.older"} { // older than all of the others
		keep(id, "")
		at := time.Unix(int64(1e8-i), 0)
		if err := os.Chtimes(d.folder(id), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.trim(none, 2); err != nil || !d.has("new") || d.has("oldest") || !d.has("ads.new") || !d.has("ads.old") || d.has("ads.older") {
		t.Errorf("two of each namespace stay: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = OpenData(dir); err != nil || !d.has("new") {
		t.Fatalf("opened again: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
