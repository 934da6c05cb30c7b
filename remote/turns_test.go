package remote

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
)

// While a callback runs, readers enter one at a time, and changes are refused. A change that came before the callback waits for its turn.
func TestTurnsDuringACallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		train, err := turns.enter(t.Context(), "Train", false)
		if err != nil {
			t.Fatal(err)
		}
		waited := make(chan *turn, 1)
		go func() {
			mine, err := turns.enter(t.Context(), "Load", false)
			if err != nil {
				t.Error(err)
			}
			waited <- mine
		}()
		synctest.Wait()
		over := false
		each := during(turns, func(executor.StepResult) error {
			if _, err := turns.enter(t.Context(), "Load", false); !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("a change: %v", err)
			}
			first, err := turns.enter(t.Context(), "Save", true)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := turns.enter(ctx, "Save", true); !errors.Is(err, fault.Canceled) {
				t.Errorf("two readers: %v", err)
			}
			go func() { // reads when the callback has returned
				synctest.Wait()
				if over {
					t.Error("Train goes on during a call that reads")
				}
				first.leave()
			}()
			return nil
		})
		if err := each(executor.StepResult{}); err != nil {
			t.Error(err)
		}
		over = true
		select {
		case <-waited:
			t.Error("a change has its turn during Train")
		default:
		}
		train.leave()
		(<-waited).leave()
	})
}

// close during a callback returns at once; the turn of Train ends the executor. Another close has nothing to do.
func TestCloseDuringACallback(t *testing.T) {
	turns := newTurns()
	train, err := turns.enter(t.Context(), "Train", false)
	if err != nil {
		t.Fatal(err)
	}
	err = during(turns, func(executor.StepResult) error {
		for range 2 {
			if turns.close() != nil {
				t.Error("the callback ends the executor")
			}
		}
		return executor.ErrStop
	})(executor.StepResult{})
	if !errors.Is(err, fault.Canceled) || !train.leave() || train.leave() {
		t.Errorf("the callback ends with %v", err)
	}
	if _, err := turns.enter(t.Context(), "Save", true); !errors.Is(err, fault.Canceled) || turns.close() != nil {
		t.Errorf("a call after close: %v", err)
	}
}
