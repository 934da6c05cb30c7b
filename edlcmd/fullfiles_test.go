package edlcmd

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/edl-go/edl/fault"
)

// A full disk has one exit code, whatever was to be written: that of what may pass.
func TestFullDiskMayPass(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "words.txt", Err: syscall.ENOSPC}
	if err := fileFault("words.txt", full); !errors.Is(err, fault.Unavailable) || fault.KindOf(err).ExitCode() != 1 {
		t.Error(err)
	}
	if err := fileFault("words.txt", &fs.PathError{Op: "open", Path: "words.txt", Err: syscall.EACCES}); !errors.Is(err, fault.InvalidArgument) {
		t.Error(err)
	}
}
