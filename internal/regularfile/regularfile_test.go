package regularfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, size, err := Open(fault.Unavailable, path)
	if err != nil || size != 3 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); err != nil || string(b) != "abc" {
		t.Errorf("read %q, %v", b, err)
	}
}

// What cannot be opened is named once, and nothing blocks.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		kind fault.Kind
		says string
	}{
		dir:                           {fault.InvalidArgument, "got a directory, want a regular file"},
		pipe:                          {fault.InvalidArgument, "got a pipe, want a regular file"},
		"/dev/null":                   {fault.InvalidArgument, "got a device, want a regular file"},
		filepath.Join(dir, "missing"): {fault.NotFound, "no such file"},
		loop:                          {fault.Unavailable, "too many levels"},
	} {
		_, _, err := Open(fault.Unavailable, path)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v, want %v: %s", path, err, c.kind, c.says)
		}
	}
}
