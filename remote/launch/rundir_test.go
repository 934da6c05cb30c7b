package launch

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestRemoveRunDirAtOnceFromManySides(t *testing.T) {
	parent := t.TempDir()
	dir, err := MakeRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "etcd", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := RemoveRunDir(dir); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(parent); err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v, %v", left, err)
	}
}

func TestRemoveRunDirRefusesWhatIsNotOurs(t *testing.T) {
	home := t.TempDir()
	write := func(path, content string) string {
		t.Helper()
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	ours := write("ours/"+marker, markerContent)
	link := filepath.Join(home, "link")
	if err := os.Symlink(ours, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{
		"", ".", "relative", "/", ours + "/", ours + "/../ours", link,
		write("bare/file", ""),
		write("other/"+marker, "something else"),
		filepath.Join(write("plain/file", markerContent), "file"),
	} {
		if err := RemoveRunDir(dir); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if left, err := os.ReadDir(home); err != nil || len(left) != 5 {
		t.Fatalf("left: %v, %v", left, err)
	}
}
