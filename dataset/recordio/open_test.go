//go:build unix

package recordio

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edl-go/edl/fault"
)

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, kind := range map[string]fault.Kind{
		filepath.Join(dir, "none"): fault.NotFound, dir: fault.InvalidArgument, pipe: fault.InvalidArgument,
	} {
		if _, err := Open(path, Limits{}); !errors.Is(err, kind) {
			t.Errorf("%s: %v, want %v", path, err, kind)
		}
	}
}
