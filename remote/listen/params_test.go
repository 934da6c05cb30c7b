package listen_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote/listen"
)

// A job whose parameters take long to read holds up nobody who asks for others, and does not begin, nor leave anything behind, when its manager has been closed
// meanwhile. The file is a pipe, which the test fills when it likes.
func TestParametersThatTakeLong(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.1))
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	dir, scratch := t.TempDir(), t.TempDir()
	whole, pipe := filepath.Join(dir, "model"), filepath.Join(dir, "pipe")
	err := errors.Join(executor.SaveCombined(local.Scope(), whole, m.Program), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	spec := encoded(t, m)
	spec.Interactive, spec.Params = true, pipe
	h := newHouse(t, listen.Config{RunDir: scratch}, all(idle))
	told := make(chan error, 1)
	go func() { _, err := h.Start(bounded(t), spec); told <- err }()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when it is read
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() { h.Jobs(); answered <- h.Close() }()
	select {
	case err = <-answered:
	case <-bounded(t).Done():
		err = errors.New("the manager does not answer")
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Error(err)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := <-told; !errors.Is(err, fault.Unavailable) {
		t.Errorf("a job of a manager that is closed: %v", err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 || h.started.Load() != 0 {
		t.Errorf("left behind: %v, %d roles, %v", left, h.started.Load(), err)
	}
}
