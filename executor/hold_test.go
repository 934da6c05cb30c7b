package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/filelock"
)

// A directory is held once at a time. What was made for the hold goes with it, if nothing is in it.
func TestHoldsExclude(t *testing.T) {
	if !filelock.Supported {
		t.Skip("this system has no locks that end with their process")
	}
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	hold := func() *executor.Hold {
		h, err := executor.HoldDirectory(dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hold()
	if _, err := executor.HoldDirectory(dir); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a second hold: %v", err)
	}
	first.Release()
	first.Release()
	if left, err := os.ReadDir(top); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	second := hold()
	if err := os.WriteFile(filepath.Join(dir, "w"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	second.Release()
	if _, err := os.Stat(filepath.Join(dir, "w")); err != nil {
		t.Error(err)
	}
	hold().Release()
}

// What cannot be held is not: whoever writes there says why.
func TestHoldOfNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below"), "s3://bucket/folder"} {
		for range 2 {
			h, err := executor.HoldDirectory(dir)
			if err != nil {
				t.Errorf("%q: %v", dir, err)
			}
			defer h.Release()
		}
	}
}
