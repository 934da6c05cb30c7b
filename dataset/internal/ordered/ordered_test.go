package ordered_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/dataset/internal/ordered"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers puts 0, 1, 2, ... up to n.
func numbers(n int) func(put func(*int) error) error {
	return func(put func(*int) error) error {
		for i := range n {
			if err := put(&i); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestValuesAreTakenInOrder(t *testing.T) {
	for _, workers := range []int{1, 3} {
		next := 0
		err := ordered.Run(t.Context(), "numbers", workers, numbers(100), func(v *int) { *v *= 2 }, func(v *int) error {
			if *v != 2*next {
				t.Errorf("%d workers: %d is taken, want %d", workers, *v, 2*next)
			}
			next++
			return nil
		})
		if err != nil || next != 100 {
			t.Errorf("%d workers: %d are taken, %v", workers, next, err)
		}
	}
}

// Whoever fails first ends the others, and nothing is left behind.
func TestTheFirstErrorEndsAll(t *testing.T) {
	wrong := errors.New("wrong")
	taken := 0
	take := func(*int) error {
		if taken++; taken == 5 {
			return wrong
		}
		return nil
	}
	if err := ordered.Run(t.Context(), "numbers", 2, numbers(1000), func(*int) {}, take); !errors.Is(err, wrong) || taken != 5 {
		t.Errorf("%v, and %d are taken", err, taken)
	}
	produce := func(put func(*int) error) error { return errors.Join(numbers(3)(put), wrong) }
	if err := ordered.Run(t.Context(), "numbers", 2, produce, func(*int) {}, func(*int) error { return nil }); !errors.Is(err, wrong) {
		t.Errorf("produce fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ordered.Run(ctx, "numbers", 1, numbers(1000), func(*int) {}, func(*int) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
