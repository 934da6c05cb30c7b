package executor

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/fault"
)

// The state lock has one holder at a time, a waiting caller gives up when its context ends, and after close only wait gets the lock.
func TestStateLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newStateLock()
		if err := k.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		second, third := make(chan error, 1), make(chan error, 1)
		go func() { second <- k.acquire(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, fault.Canceled) {
			t.Errorf("waiting with a context that ended: %v", err)
		}
		go func() { third <- k.acquire(t.Context()) }()
		synctest.Wait()
		if len(third) != 0 {
			t.Fatal("two callers hold the lock")
		}
		if !k.close() || k.close() {
			t.Error("close does not report its first call")
		}
		k.release()
		if err := <-third; !errors.Is(err, fault.Canceled) {
			t.Errorf("acquiring after close: %v", err)
		}
		k.wait()
		k.release()
	})
}

// Training has a lock of its own: its callbacks may acquire the state lock.
func TestOneTrainingAtATime(t *testing.T) {
	k := newStateLock()
	if err := k.beginTraining(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if err := k.acquire(t.Context()); err != nil {
		t.Errorf("a step during training: %v", err)
	}
	k.release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.beginTraining(ended, "second"); !errors.Is(err, fault.Canceled) {
		t.Errorf("a second training at the same time: %v", err)
	}
	k.endTraining()
	if err := k.beginTraining(t.Context(), "third"); err != nil {
		t.Errorf("after the first: %v", err)
	}
}
