package listen_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote/listen"
)

// A job that comes while its manager is closed is refused, or ended by Close, and leaves nothing behind.
func TestStartWhileClosing(t *testing.T) {
	m := testkit.Fed(t, optimizer.SGD(0.1))
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	scratch, params := t.TempDir(), filepath.Join(t.TempDir(), "model")
	if err := executor.SaveCombined(local.Scope(), params, m.Program); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		h := newHouse(t, listen.Config{RunDir: scratch}, all(idle))
		spec := encoded(t, m)
		spec.Fed, spec.Params = true, params
		told := make(chan error, 1)
		go func() {
			j, err := h.Start(bounded(t), spec)
			if err == nil {
				err = j.Wait(bounded(t))
			}
			told <- err
		}()
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		for _, j := range h.Jobs() {
			if !j.Ended() {
				t.Error("a job outlives its manager")
			}
		}
		if err := <-told; !errors.Is(err, fault.Unavailable) && !errors.Is(err, fault.Canceled) {
			t.Errorf("the job is told %v", err)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A combined file of parameters is read before the job starts; what it is unpacked into ends with the job.
func TestUnpackedParametersEndWithTheJob(t *testing.T) {
	scratch := t.TempDir()
	m := testkit.Fed(t, optimizer.SGD(0.1))
	local := executor.New()
	defer local.Close()
	if err := local.Startup(bounded(t), m.Program); err != nil {
		t.Fatal(err)
	}
	spec := encoded(t, m)
	spec.Fed = true
	spec.Params = filepath.Join(t.TempDir(), "model")
	if err := executor.SaveCombined(local.Scope(), spec.Params, m.Program); err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, listen.Config{RunDir: scratch}, all(idle))
	j := h.begin(t, spec)
	if made, err := os.ReadDir(scratch); err != nil || len(made) != 1 {
		t.Errorf("%v, %v", made, err)
	}
	if err := j.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(spec.Params, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(bounded(t), spec); err == nil {
		t.Error("a truncated file of parameters is taken")
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
